"""Compiled loops (numba), each beside a readable twin and a test that compares them."""
