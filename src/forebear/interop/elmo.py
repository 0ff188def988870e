"""ELMo as bilm-tf and AllenNLP publish it, in and out: options.json, weights in HDF5, and perhaps a vocabulary.

Their gates stand in the order i, g, f, o, and 1 is added to the bias of the forget gate when they run; ours stand as
those of torch, i, f, g, o, and nothing is added. What was read from such a file and is written again has the same bits
when it is read again. A bias of the forget gate that was learned here may then differ by 1e-7: one less, it is rounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import BadInput, several
from forebear.interop.elmo_files import (
    AGAIN,
    OPTIONS,
    SOFTMAX,
    VOCABULARY,
    WEIGHTS,
    Parts,
    Stored,
    is_one,
    opened,
    parts_of,
    stored,
    words_of,
)
from forebear.interop.elmo_options import CHARACTERS, Sizes, options_of, sizes_from, sizes_of
from forebear.interop.elmo_words import CHARACTER, MARKS, SCORES, TOKEN

__all__ = ["MARKS", "FoundElmo", "is_one", "read", "write"]

FILTER, HIGHWAY, PROJECT = "encoder.embedding.filters", "encoder.embedding.highways", "encoder.embedding.project"
DIRECTIONS = ("encoder.onward", "encoder.back")
GATES = (0, 2, 1, 3)  # i g f o as i f g o, and back again
MOST = 200  # faults that are told
USUAL = 50  # characters of a word, whatever AllenNLP's options say
TOGETHER = "take both from the same publisher, or fetch them again"


@dataclass(frozen=True, eq=False)
class FoundElmo:
    """What such files hold, in our words.

    fields    of the milestone
    tensors   by our names, float32; of the softmax only where there is a word for each of its rows
    words     of the vocabulary, in the order of the softmax, where there is one
    matched   how many arrays were read
    left_out  those that were not, by the reason
    """

    fields: dict[str, Any]
    tensors: dict[str, np.ndarray]
    words: list[str] | None
    matched: int
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def heads(self) -> tuple[str, ...]:
        """What it can be asked: a softmax answers in both directions."""
        return ("next", "previous") if f"{SCORES}.weight" in self.tensors else ()

    def facts(self) -> dict[str, Any]:
        """What became of the names, as runs keep it."""
        left_out = {why: list(names) for why, names in self.left_out.items()}
        return {"architecture": "ELMo", "matched": self.matched, "heads": list(self.heads), "left_out": left_out}

    def notes(self) -> list[str]:
        """The same for people, a line for each thing."""
        told = [f"{self.matched:,} arrays are those of ELMo, and were read", *self.remarks]
        return told + [f"left out ({why}): {several(names, 4)}" for why, names in self.left_out.items()]


# -- reading


def read(path: Path) -> FoundElmo:
    """The model of a folder, or of a file of weights that has its options beside it."""
    parts = parts_of(path)
    sizes, remarks = sizes_of(parts.options), list(parts.notes)
    words, idle = (None, []) if parts.vocabulary is None else words_of(parts.vocabulary)
    if idle:
        remarks.append(f"{len(idle):,} lines of {parts.vocabulary} are blank or repeat a word: left out")
    with opened(parts.weights) as found:
        sizes, theirs = _theirs(found, sizes, parts)
    _check_words(path, sizes, words, len(idle))
    _check_projections(parts.weights, sizes, theirs)
    tensors, matched = _into_ours(theirs, sizes), len(theirs)
    if sizes.reads == CHARACTERS and not sizes.projected:
        remarks.append("what its filters find is not projected: a projection that changes nothing stands in its place")
    scores, why = _scores(parts, sizes, words, len(idle))
    left_out: dict[str, tuple[str, ...]] = {why: SOFTMAX} if why else {}
    if parts.softmax is None:
        remarks.append("its files hold no softmax: it can be asked for vectors, and not for words")
    fields, matched = sizes.fields() | {"softmax": "full"}, matched + len(scores)
    return FoundElmo(fields, tensors | scores, words, matched, left_out, remarks)


def _theirs(found: Stored, sizes: Sizes, parts: Parts) -> tuple[Sizes, dict[str, np.ndarray]]:
    """All arrays of the network, if they are those that the options tell of; whatever is wrong is named."""
    if sizes.reads != CHARACTERS and "char_embed" in found.shapes:
        what = f"it reads the letters of words, and {parts.options.name} has no char_cnn to tell how"
        raise BadInput(what, file=parts.weights, remedy=TOGETHER)
    sizes = sizes.settled(found.shapes)
    wanted = sizes.shapes()
    besides = SOFTMAX if any(name in found.shapes for name in SOFTMAX) else ()
    faults = [f"{name} is missing" for name in (*wanted, *besides) if name not in found.shapes]
    for name, shape in found.shapes.items():
        if name in wanted and shape != wanted[name]:
            faults.append(f"{name} is {_sized(shape)} instead of {_sized(wanted[name])}")
        elif name not in wanted and name not in besides:
            faults.append(f"{name} is not expected")
    if faults:
        what = f"these are not the weights that {parts.options.name} tells of: {several(faults, MOST)}"
        raise BadInput(what, file=parts.weights, remedy=TOGETHER)
    return sizes, {name: found.read(name) for name in wanted}


def _sized(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a single number"


def _into_ours(theirs: Mapping[str, np.ndarray], sizes: Sizes) -> dict[str, np.ndarray]:
    ours: dict[str, np.ndarray] = {}
    if sizes.reads == CHARACTERS:
        ours[f"{CHARACTER}.weight"] = theirs["char_embed"]
        for number, (wide, count) in enumerate(sizes.filters):
            there = theirs[f"CNN/W_cnn_{number}"]  # (1, wide, characters, count)
            ours[f"{FILTER}.{number}.weight"] = there.reshape(wide * sizes.characters, count).T
            ours[f"{FILTER}.{number}.bias"] = theirs[f"CNN/b_cnn_{number}"]
        for number in range(sizes.highways):
            for part in ("carry", "transform"):
                ours[f"{HIGHWAY}.{number}.{part}.weight"] = theirs[f"CNN_high_{number}/W_{part}"].T
                ours[f"{HIGHWAY}.{number}.{part}.bias"] = theirs[f"CNN_high_{number}/b_{part}"]
        idle = (np.eye(sizes.width), np.zeros(sizes.width)) if not sizes.projected else None
        weight, bias = idle or (theirs["CNN_proj/W_proj"].T, theirs["CNN_proj/b_proj"])
        ours |= {f"{PROJECT}.weight": weight, f"{PROJECT}.bias": bias}
    else:
        ours[f"{TOKEN}.weight"] = theirs["embedding"]
    for direction, side in enumerate(DIRECTIONS):
        for layer in range(sizes.depth):
            name, there = f"{side}.{layer}", sizes.cell(direction, layer)
            both = _gates(theirs[f"{there}W_0"].T)  # (4 · cells, width of the input, then of the state)
            bias = _gates(theirs[f"{there}B"])
            bias[sizes.cells : 2 * sizes.cells] += np.float32(1)
            ours |= {f"{name}.input.weight": both[:, : sizes.width], f"{name}.input.bias": bias}
            ours[f"{name}.state.weight"] = both[:, sizes.width :]
            if sizes.narrows:
                ours[f"{name}.project.weight"] = theirs[f"{there}W_P_0"].T
    return {name: np.ascontiguousarray(value, np.float32) for name, value in ours.items()}


def _gates(rows: np.ndarray) -> np.ndarray:
    """The four blocks of rows in the other's order."""
    blocks = np.split(rows, 4)
    return np.concatenate([blocks[number] for number in GATES])


def _check_words(path: Path, sizes: Sizes, words: Sequence[str] | None, idle: int) -> None:
    """What reads words needs to know them."""
    if sizes.reads == CHARACTERS:
        return
    remedy = f"put the vocabulary there that it was trained with, as {VOCABULARY}"
    if words is None or idle or len(words) != sizes.words:
        what = f"it reads words, {sizes.words:,} of them, and there is no vocabulary of so many"
        raise BadInput(what, file=path, remedy=remedy)
    if lacking := [mark for mark in MARKS.values() if mark not in words]:
        raise BadInput(f"the vocabulary has no {' and no '.join(lacking)}", file=path, remedy=remedy)


def _check_projections(file: Path, sizes: Sizes, theirs: Mapping[str, np.ndarray]) -> None:
    """Where there are as many cells as the width nothing is projected here: theirs must change nothing."""
    idle = np.eye(sizes.width, dtype=np.float32)
    clips = 0 < sizes.project_clip < 1  # what is not projected stays within 1
    found = [name for name in theirs if name.endswith("/W_P_0")]
    odd = [name for name in found if clips or not np.array_equal(theirs[name], idle)]
    if not sizes.narrows and odd:
        what = f"dim equals projection_dim, and there still is a projection between them: {several(odd)}"
        raise BadInput(what, file=file, remedy="give an ELMo with more cells than its projection has numbers")


def _scores(parts: Parts, sizes: Sizes, words: Sequence[str] | None, idle: int) -> tuple[dict[str, np.ndarray], str]:
    """The softmax, or why it is left out; neither where there is none."""
    if parts.softmax is None:
        return {}, ""
    with opened(parts.softmax) as found:
        size = (found.shapes[SOFTMAX[1]] or (0,))[0]
        wanted = dict(zip(SOFTMAX, ((size, sizes.width), (size,)), strict=True))
        odd = [name for name, shape in wanted.items() if found.shapes[name] != shape]
        if faults := [f"{name} is {_sized(found.shapes[name])}" for name in odd]:
            what = f"no softmax over words for vectors of {sizes.width} numbers: {several(faults)}"
            raise BadInput(what, file=parts.softmax, remedy=AGAIN)
        if words is None:
            return {}, "there is no vocabulary to name its words"
        if lacking := [mark for mark in MARKS.values() if mark not in words]:
            return {}, f"the vocabulary has no {' and no '.join(lacking)}"
        if idle or len(words) != size:
            return {}, f"it has {size:,} rows, and the vocabulary {len(words):,} words"
        return {f"{SCORES}.weight": found.read(SOFTMAX[0]), f"{SCORES}.bias": found.read(SOFTMAX[1])}, ""


# -- writing


def write(
    folder: Path, fields: Mapping[str, Any], tensors: Mapping[str, np.ndarray], words: Sequence[str] | None
) -> list[str]:
    """Writes options, weights and the vocabulary into the folder; returns what a person should know of them."""
    sizes = sizes_from(fields)
    folder.mkdir(parents=True, exist_ok=True)
    stored(folder / WEIGHTS, _into_theirs(tensors, sizes))
    options = options_of(sizes, None if words is None else len(words))
    (folder / OPTIONS).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
    if words is not None:
        (folder / VOCABULARY).write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")
    return _told(sizes)


def _into_theirs(ours: Mapping[str, np.ndarray], sizes: Sizes) -> dict[str, np.ndarray]:
    theirs: dict[str, np.ndarray] = {}
    if sizes.reads == CHARACTERS:
        theirs["char_embed"] = ours[f"{CHARACTER}.weight"]
        for number, (wide, count) in enumerate(sizes.filters):
            shape = (1, wide, sizes.characters, count)
            theirs[f"CNN/W_cnn_{number}"] = ours[f"{FILTER}.{number}.weight"].T.reshape(shape)
            theirs[f"CNN/b_cnn_{number}"] = ours[f"{FILTER}.{number}.bias"]
        for number in range(sizes.highways):
            for part in ("carry", "transform"):
                theirs[f"CNN_high_{number}/W_{part}"] = ours[f"{HIGHWAY}.{number}.{part}.weight"].T
                theirs[f"CNN_high_{number}/b_{part}"] = ours[f"{HIGHWAY}.{number}.{part}.bias"]
        theirs |= {"CNN_proj/W_proj": ours[f"{PROJECT}.weight"].T, "CNN_proj/b_proj": ours[f"{PROJECT}.bias"]}
    else:
        theirs["embedding"] = ours[f"{TOKEN}.weight"]
    for direction, side in enumerate(DIRECTIONS):
        for layer in range(sizes.depth):
            name, there = f"{side}.{layer}", sizes.cell(direction, layer)
            bias = ours[f"{name}.input.bias"].copy()
            bias[sizes.cells : 2 * sizes.cells] -= np.float32(1)
            both = np.concatenate([ours[f"{name}.input.weight"], ours[f"{name}.state.weight"]], axis=1)
            theirs |= {f"{there}W_0": _gates(both).T, f"{there}B": _gates(bias)}
            theirs[f"{there}W_P_0"] = ours[f"{name}.project.weight"].T if sizes.narrows else np.eye(sizes.width)
    if f"{SCORES}.weight" in ours:
        theirs |= {SOFTMAX[0]: ours[f"{SCORES}.weight"], SOFTMAX[1]: ours[f"{SCORES}.bias"]}
    return theirs


def _told(sizes: Sizes) -> list[str]:
    """Where one of the two readers is known to do otherwise."""
    told = []
    if sizes.reads != CHARACTERS:
        told.append(
            "it reads words and no characters: bilm-tf opens it (use_character_inputs=False), AllenNLP does not"
        )
    elif sizes.found <= sizes.width:
        what = "bilm-tf wants filters to find more numbers in a word than the width has"
        told.append(f"{what} ({sizes.found} and {sizes.width}); AllenNLP reads it as it is")
    if sizes.cells < sizes.width:
        what = "bilm-tf projects only where there are more cells than the width"
        told.append(f"{what} ({sizes.cells} and {sizes.width}); AllenNLP reads it as it is")
    if sizes.reads == CHARACTERS and sizes.longest != USUAL:
        told.append(f"it reads {sizes.longest} characters of a word, and AllenNLP always {USUAL}")
    return told
