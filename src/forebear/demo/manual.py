"""English prose that is in every Python installation: the language's own reference, topic by topic."""

from __future__ import annotations

from collections.abc import Iterator


def documents() -> Iterator[str]:
    """One document a topic of Python's manual, about 0.7 MB in all."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield "\n".join(line.rstrip() for line in topics[name].strip().split("\n") if line.strip())
