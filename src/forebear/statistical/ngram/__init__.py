"""n-gram models: counting in bounded memory, smoothing, back-off tables, explanations."""
