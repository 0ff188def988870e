"""The embedded demo: text and labeled tasks that need no download."""
