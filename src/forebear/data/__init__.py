"""Strings to ids: reading, sentences, words, tokenizers, corpora on disk. No torch here."""
