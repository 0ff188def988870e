"""Neural networks (torch): layers, encoders, heads, and the fast paths that answer queries."""
