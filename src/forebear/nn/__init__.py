"""Batches become states, states become answers (torch)."""
