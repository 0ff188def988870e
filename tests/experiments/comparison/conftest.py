"""Fixtures of this folder."""

from fixtures_comparing import book, cache  # noqa: F401
