"""Words as rows of a table: vectors learned by compiled loops, without torch."""
