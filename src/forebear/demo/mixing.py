"""The demo's text: real prose and the small world's stories in both languages, mixed, as much as is wanted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from forebear.demo import manual, world
from forebear.text.order import shuffled


def mixture(size: int, seed: int = 0) -> Iterator[str]:
    """Documents of about `size` bytes together: by bytes half manual (while it lasts), half stories, as they come.

    A prefix of a larger mixture of the same seed is the smaller one, so that more text never changes what was there.
    """
    pages = manual.documents()
    order = iter(shuffled(np.arange(len(pages)), len(pages), seed=seed)) if pages else iter(())
    told = {"manual": 0, "world": 0}
    number = 0
    left = True
    while sum(told.values()) < size:
        page = next(order, None) if left and told["manual"] <= told["world"] else None
        if page is not None:
            text, source = pages[int(page)], "manual"
        else:
            left = left and told["manual"] > told["world"]  # a page was wanted and none came: the manual is read
            text, source = world.story("both", seed, number).text, "world"
            number += 1
        told[source] += len(text.encode())
        yield text
