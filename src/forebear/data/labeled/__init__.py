"""Labeled files (CSV, JSON, CoNLL, SQuAD …) become examples: columns, tag schemes, splits, statistics."""
