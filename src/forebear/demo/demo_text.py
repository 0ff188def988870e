"""The demo's text: English prose from Python's manual and docstrings, mixed with stories of the demo's world."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from forebear.demo import stories
from forebear.demo.python_manual import manual_documents
from forebear.objectives.shuffle import shuffled_positions


def mixed_documents(size: int, seed: int = 0) -> Iterator[str]:
    """Documents of about `size` bytes in total, half of the bytes manual (until it is exhausted) and half stories.

    With the same seed, a smaller mixture is a prefix of a larger one.
    """
    documents = manual_documents()
    order = iter(shuffled_positions(np.arange(len(documents)), len(documents), seed=seed)) if documents else iter(())
    num_bytes = {"manual": 0, "world": 0}
    story_number, has_manual_left = 0, True
    while sum(num_bytes.values()) < size:
        is_manual_turn = has_manual_left and num_bytes["manual"] <= num_bytes["world"]
        document_index = next(order, None) if is_manual_turn else None
        if document_index is not None:
            text, source = documents[int(document_index)], "manual"
        else:
            has_manual_left = has_manual_left and not is_manual_turn  # on its turn, the manual had no document left
            text, source = stories.make_story("both", seed, story_number).text, "world"
            story_number += 1
        num_bytes[source] += len(text.encode())
        yield text
