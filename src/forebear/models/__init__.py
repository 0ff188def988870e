"""The papers, one ModelSpec a file."""
