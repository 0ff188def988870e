"""Labelled data in a person's own files: what they hold is guessed, read, divided and surveyed."""
