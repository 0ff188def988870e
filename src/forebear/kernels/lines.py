"""How a table of n-grams is laid out: numbers that those who only open one want too, who need no compiled loops."""

from __future__ import annotations

ABOVE = 8  # numbers of 64 bits in a line of memory
MIDDLE, LONGEST = 4, 5  # n-grams in a line: those that may go on, and the longest
SPARE = 64  # lines behind all others, for n-grams whose own are full
