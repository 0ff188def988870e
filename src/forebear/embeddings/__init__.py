"""Word vectors: word2vec, GloVe and phrases, lookup, nearest neighbors and evaluation (no torch)."""
