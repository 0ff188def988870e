"""Fixtures of this folder."""

from fixtures_vectors import kept  # noqa: F401
