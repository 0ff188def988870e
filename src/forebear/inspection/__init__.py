"""Looking inside a run: which words speak for what it says, where tokens look, how predictions form, positions."""
