"""Fixtures of this folder."""

from fixtures_using import cache, cutter, cutters, one_thread, tokenizer, tokenizers, words  # noqa: F401
