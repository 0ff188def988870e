"""Fixtures of this folder."""

from fixtures_inference import mask_tokenizer, mask_tokenizers, one_thread, tokenizer, tokenizers, word_tokenizer  # noqa: F401
from fixtures_training import cache  # noqa: F401
