"""The version of forebear: every module may import it."""

__version__ = "0.1.0"
