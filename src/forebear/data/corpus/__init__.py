"""Corpora on disk: prepared in shards, opened as memory-mapped arrays, split into subsets."""
