"""What is predicted from what: ids become batches with named targets (no torch)."""
