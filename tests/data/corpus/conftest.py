"""Fixtures of this folder."""

from fixtures_data import cache, story_path, wordpiece_tokenizer  # noqa: F401
