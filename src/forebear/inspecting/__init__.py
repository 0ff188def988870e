"""Looking inside a run: for now, which words speak for what it says; attention, senses and gradients are to follow."""
