"""Models that count instead of descend (numpy, no torch)."""
