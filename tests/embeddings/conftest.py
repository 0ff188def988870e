"""Fixtures of this folder."""

from fixtures_embeddings import cooccurrence_cache  # noqa: F401
from fixtures_inference import mask_tokenizer, mask_tokenizers, one_thread, tokenizer, tokenizers, word_tokenizer  # noqa: F401
