"""Models without gradient descent: n-grams, HMM, CRF, linear models (no torch)."""
