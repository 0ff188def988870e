"""Fixtures of this folder."""

from fixtures_comparison import book, cache  # noqa: F401
