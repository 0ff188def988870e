"""Fixtures of this folder."""

from fixtures_embeddings import cooccurrence_cache  # noqa: F401
