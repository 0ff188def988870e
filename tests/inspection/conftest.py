"""Fixtures of this folder."""

from fixtures_inspecting import runs  # noqa: F401
