"""The demo's text: English prose of the Python installation (manual, docstrings), mixed with stories of its world."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from forebear.demo import world
from forebear.demo.python_manual import manual_documents
from forebear.objectives.shuffle import shuffled_positions


def mixed_documents(size: int, seed: int = 0) -> Iterator[str]:
    """Documents of about `size` bytes in all: half manual (while it lasts) and half stories, by bytes, in turn.

    A mixture is a prefix of every larger one of the same seed, so that more text does not change its beginning.
    """
    documents = manual_documents()
    order = iter(shuffled_positions(np.arange(len(documents)), len(documents), seed=seed)) if documents else iter(())
    num_bytes = {"manual": 0, "world": 0}
    number = 0
    has_manual_left = True
    while sum(num_bytes.values()) < size:
        page = next(order, None) if has_manual_left and num_bytes["manual"] <= num_bytes["world"] else None
        if page is not None:
            text, source = documents[int(page)], "manual"
        else:
            # If it was the manual's turn and no page came, the manual is exhausted.
            has_manual_left = has_manual_left and num_bytes["manual"] > num_bytes["world"]
            text, source = world.make_story("both", seed, number).text, "world"
            number += 1
        num_bytes[source] += len(text.encode())
        yield text
