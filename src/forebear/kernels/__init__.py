"""Compiled loops (numba), each beside a readable twin in numpy and a test that compares them."""
