"""Compiled loops (numba), each with a reference implementation and a test that compares them."""
