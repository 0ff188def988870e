"""Names and tables of other programs' files; imports nothing of ours but compiled loops."""
