"""Fixtures of this folder."""

from fixtures_inference import cache, mask_tokenizer, mask_tokenizers, one_thread, tokenizer, tokenizers, word_tokenizer  # noqa: F401
