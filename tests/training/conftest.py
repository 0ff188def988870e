"""Fixtures of this folder."""

from fixtures_training import cache  # noqa: F401
from fixtures_using import cutter, cutters, one_thread, tokenizer, tokenizers, words  # noqa: F401
