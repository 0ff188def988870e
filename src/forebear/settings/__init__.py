"""Units of settings: durations, counts and bytes as text."""
