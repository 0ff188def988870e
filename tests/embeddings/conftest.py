"""Fixtures of this folder."""

from fixtures_using import cutter, cutters, one_thread, tokenizer, tokenizers, words  # noqa: F401
from fixtures_vectors import kept  # noqa: F401
