"""A run folder answers: score, next, generate, measure."""
