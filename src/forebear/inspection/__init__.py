"""Looking inside a run: attention, attribution, logit lens, senses, positions, gradients."""
