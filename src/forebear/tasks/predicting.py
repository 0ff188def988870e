"""What a model says of examples: rows in batches of like length, never padded, answers in the order of the examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from forebear.objectives.batch import Arrays
from forebear.tasks.rows import Rows
from forebear.tasks.task import Logits

if TYPE_CHECKING:
    from forebear.networks.model import Model

AT_ONCE = 4096  # tokens: enough for the processor, little for memory
OF_EXAMPLES = ("label",)  # heads that answer an example as a whole
OF_ROWS = ("choice",)  # heads that answer each row
OF_TOKENS = ("tag", "start", "end")  # heads that answer each token; all others are of no task

Progress = Callable[[int, int], object]


@runtime_checkable
class Scorer(Protocol):
    """A model that counts and gives logits for arrays. `moves` is what it has learned of which tag follows which,
    begins and ends, where it tags."""

    @property
    def moves(self) -> Sequence[np.ndarray] | None: ...

    def logits(self, inputs: Arrays) -> dict[str, np.ndarray]: ...


def predicted(model: Model | Scorer, rows: Rows, progress: Progress | None = None) -> Logits:
    """The logits of each head: for each example (label, choice), or for each row one for each of its tokens.

    `model` is a network, or one that counts and gives logits for arrays.
    """
    rows = rows.apart()
    answer = model.logits if isinstance(model, Scorer) else _asked_of_network(model, int(rows.lengths.sum()))
    examples: dict[str, list[Any]] = {}
    told: dict[str, list[Any]] = {}
    done = 0
    for chosen in _batches(rows.sizes):
        batch = rows.batch(chosen)
        for name, array in answer(batch.inputs).items():
            if name in OF_EXAMPLES:
                kept = examples.setdefault(name, [None] * len(rows))
                for example, logits in zip(chosen, array, strict=True):
                    kept[example] = logits
            elif name in OF_ROWS:
                kept = examples.setdefault(name, [None] * len(rows))
                counts = [len(rows.rows_of(example)) for example in chosen]
                for example, logits in zip(chosen, np.split(array, np.cumsum(counts)[:-1]), strict=True):
                    kept[example] = logits
            else:
                kept = told.setdefault(name, [None] * len(rows.lengths))
                numbers = [row for example in chosen for row in rows.rows_of(example)]
                parts = np.split(array, np.cumsum(rows.lengths[numbers])[:-1])
                for row, logits in zip(numbers, parts, strict=True):
                    kept[row] = logits
        done += len(chosen)
        if progress is not None:
            progress(done, len(rows))
    return {**examples, **told, **_moves(model)}


def _moves(model: Model | Scorer) -> dict[str, Sequence[np.ndarray]]:
    """What a chain of tags has learned of which follows which, begins and ends; none without one."""
    if isinstance(model, Scorer):
        return {} if model.moves is None else {"moves": model.moves}
    from forebear.networks.answers import TagHead

    head = dict(model.heads.items()).get("tag")
    crf = head.crf if isinstance(head, TagHead) else None
    if crf is None:
        return {}
    learned = (crf.transition_bias, crf.start_bias, crf.end_bias)
    return {"moves": [tensor.detach().float().cpu().numpy() for tensor in learned]}


def _asked_of_network(model: Model, tokens: int) -> Callable[[Arrays], dict[str, np.ndarray]]:
    import torch

    from forebear.networks.encoding import for_many

    model = for_many(model.eval(), tokens)
    heads = [name for name in model.heads if name in (*OF_EXAMPLES, *OF_ROWS, *OF_TOKENS)]

    def answer(inputs: Arrays) -> dict[str, np.ndarray]:
        with torch.inference_mode():
            tensors = {name: torch.from_numpy(array).to(model.device) for name, array in inputs.items()}
            return {name: logits.float().cpu().numpy() for name, logits in model.answers(tensors, heads).items()}

    return answer


def _batches(sizes: np.ndarray) -> Iterator[list[int]]:
    """Numbers of examples, the longest first, about AT_ONCE tokens together."""
    batch: list[int] = []
    size = 0
    for number in np.argsort(-sizes, kind="stable").tolist():
        if batch and size + int(sizes[number]) > AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += int(sizes[number])
    if batch:
        yield batch
