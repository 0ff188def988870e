"""Where the tokens of a translation look: in the text that is translated, and in what is written already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.inspecting.labels import labels
from forebear.inspecting.maps import NAMES, Map
from forebear.text.characters import sound

if TYPE_CHECKING:
    from forebear.using.run import Run

SIDES = ("cross", "source", "target")  # in this order


def translated_maps(run: Run, texts: Sequence[str], *, bare: bool = False) -> list[Map]:
    """Three maps: of a translation to its source, within the source, and within the translation; the first alone of
    what is recurrent, where nothing else looks.

    The translation is the second text, or the best that the run finds. A row of the first map is the token that is
    about to be written: what it looks at is what it is written from.
    """
    import torch

    if bare:
        raise BadInput("--bare means nothing to a run that translates", remedy="leave it out")
    if not 1 <= len(texts) <= 2:
        raise BadInput(f"{len(texts)} texts came", remedy="give a text, or a text and a translation of it")
    sides, encoder = run.folder.sides, run.model.encoder
    if not encoder.has_attention:
        what = "has no attention: a source is read into one vector, and never looked at again"
        raise BadInput(what, file=run.folder.path, remedy="look at a run of seq2seq_attention or transformer")
    written = texts[1] if len(texts) == 2 else run.translate(texts[0])[0].text
    ends = [side.roles["end"] for side in (sides.source, sides.target)]
    source, target = (
        np.append(side.encode(sound(text)).ids, end).astype(np.int64)
        for side, text, end in zip((sides.source, sides.target), (texts[0], written), ends, strict=True)
    )
    for ids in (source, target):
        if len(ids) == 1:
            raise BadInput("a text has no tokens", remedy="write some text")
        if encoder.context is not None and len(ids) > encoder.context:
            what = f"{len(ids):,} tokens do not fit into the context of {encoder.context:,}"
            raise BadInput(what, remedy="give a shorter text")
    seen = np.concatenate((ends[1:], target[:-1]))
    run.model.eval()
    with torch.inference_mode():
        rows, read = (torch.from_numpy(ids).to(run.model.device) for ids in (seen, source))
        found = encoder.attention(rows, [len(seen)], read, [len(source)])
    both = (("source", sides.source, source), ("seen", sides.target, seen), ("written", sides.target, target))
    names: dict[str, Any] = {name: labels(side, ids.tolist(), side.roles["end"]) for name, side, ids in both}
    weights = {name: np.stack([layer[0].float().cpu().numpy() for layer in layers]) for name, layers in found.items()}
    cross = Map(weights["cross"], names["written"], names["source"], "cross", NAMES["cross"])
    if "read" not in weights:
        return [cross]
    return [
        cross,
        Map(weights["read"], names["source"], names["source"], "self", f"{NAMES['self']} of the source"),
        Map(weights["written"], names["seen"], names["seen"], "masked", f"{NAMES['masked']} of the translation"),
    ]
