"""What is predicted from what: ids become batches with named targets (numpy, no torch)."""
