"""Tasks on labeled examples: batches, heads, metrics and baselines."""
