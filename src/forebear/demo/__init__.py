"""The embedded default: text that needs no download."""
