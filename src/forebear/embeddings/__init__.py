"""Word vectors: training in compiled loops without torch, lookup, nearest neighbors and evaluation."""
