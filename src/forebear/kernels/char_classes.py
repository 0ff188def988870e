"""Classes of characters in pretokenization, shared by the kernel and by callers without numba."""

# Classes of characters: part of a pretoken, between pretokens, or a pretoken of its own.
CLASS_RUN, CLASS_GAP, CLASS_SINGLE = -1, -2, -3
