"""Models compared on the same text or task: trials, verdict, significance, report."""
