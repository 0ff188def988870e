"""Units of settings: durations, counts and bytes as people write them."""
