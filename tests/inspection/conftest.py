"""Fixtures of this folder."""

from fixtures_inspection import runs  # noqa: F401
