"""The same text for every milestone: one table, one page."""
