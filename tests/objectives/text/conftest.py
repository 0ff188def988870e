"""Fixtures of this folder."""

from fixtures_text import cache, pieces, story  # noqa: F401
