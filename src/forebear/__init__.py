"""forebear: every milestone of pre-trained language models, on your own text."""

__version__ = "0.1.0"
