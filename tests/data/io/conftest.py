"""Fixtures of this folder."""

from fixtures_data import cache, story_path, wordpiece_tokenizer  # noqa: F401
from fixtures_inference import mask_tokenizer, mask_tokenizers, one_thread, tokenizer, tokenizers, word_tokenizer  # noqa: F401
