"""Ngram."""
