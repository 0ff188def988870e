"""One loop, one run folder."""
