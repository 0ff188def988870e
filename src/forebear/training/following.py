"""The life of a process that helps another to train: it learns what it is told, step by step, and nothing else."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from forebear.errors import ForebearError
from forebear.training.line import Fault, Follower, Hearer

if TYPE_CHECKING:
    from forebear.training.leading import Way


def serve(pipe: int, rank: int, size: int) -> None:
    """What a process does that the first one started."""
    follow(Follower(pipe, rank, size))


def follow(line: Hearer) -> None:
    """Does what it is told until there is nothing more; a failure is told, and ends it."""
    way: Way | None = None
    try:
        while (word := line.hear()) is not None:
            way, answer = _done(line, way, word)
            line.answer(answer)
    except (EOFError, OSError):  # nobody is there any more
        raise SystemExit(1) from None
    except ForebearError as error:
        line.answer(Fault(error))
        raise SystemExit(1) from None
    except Exception as error:  # noqa: BLE001 - whatever it is, the first process must hear of it
        what = f"{type(error).__name__} in process {line.rank}: {error}\n{traceback.format_exc()}"
        line.answer(Fault(ForebearError(what)))
        raise SystemExit(1) from None


def _done(line: Hearer, way: Way | None, word: Any) -> tuple[Way | None, Any]:
    from forebear.training import leading
    from forebear.training.gradient import GradientLearner

    if isinstance(word, leading.Learn):
        device = word.device.of_process(line.local, line.near, word.recipe)
        return word.way(line, GradientLearner(word.network, word.recipe, device, None, word.shares)), None
    assert way is not None
    match word:
        case leading.Ready():
            return way, way.ready()
        case leading.Step():
            leading.stepped(line, way, word)
            return way, None
        case leading.Examine():
            return way, way.worker.evaluate_parts(word.parts)
        case leading.Gather():
            return way, way.gathered()
    raise TypeError(f"nobody knows what to do with {word!r}")
