"""Plots and self-contained HTML pages, shared by inspection and comparison."""
