"""The training loop, learners, checkpoints and run folders."""
