"""How large a published ELMo is: the numbers of its options.json, our fields, and the arrays that follow from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forebear.errors import BadInput, several

BYTES = 261  # rows of the table of characters: bytes, marks of sentences and words, padding
READERS = (BYTES + 1, BYTES)  # what n_characters is for those who read a model, and what it was for its training
ACTIVATIONS = ("relu", "tanh")
CHARACTERS, WORDS = "characters", "words"  # what a model reads
WIDEST, DEEPEST = 1 << 20, 64  # more than any model has
AGAIN = "correct it, or fetch it again from where the weights come from"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """The numbers of a model, by our names.

    projected  whether what the filters found is projected to the width: bilm-tf does so only where it is wider
    narrowed   whether there is a projection of what an LSTM gives: bilm-tf has none where cells are not more
    alone      whether its only layer stands without a number, as bilm-tf writes it
    words      rows of the table, of a model that reads words
    """

    width: int
    cells: int
    depth: int
    reads: str = CHARACTERS
    characters: int = 16
    filters: tuple[tuple[int, int], ...] = ()
    highways: int = 0
    activation: str = "relu"
    longest: int = 50
    cell_clip: float = 0.0
    project_clip: float = 0.0
    skip: bool = False
    context: int = 20
    dropout: float = 0.1
    projected: bool = True
    narrowed: bool = True
    alone: bool = False
    words: int = 0

    @property
    def narrows(self) -> bool:
        """Whether ours projects what an LSTM gives."""
        return self.cells != self.width

    @property
    def found(self) -> int:
        """How many numbers the filters find in a word."""
        return sum(count for _, count in self.filters)

    def cell(self, direction: int, layer: int) -> str:
        """What the names of one layer's arrays begin with."""
        return f"RNN_{direction}/RNN/" + ("" if self.alone else f"MultiRNNCell/Cell{layer}/") + "LSTMCell/"

    def settled(self, there: Mapping[str, Shape]) -> Sizes:
        """The same, with what the options do not tell and the arrays do."""
        alone = self.depth == 1 and "RNN_0/RNN/LSTMCell/W_0" in there
        settled = replace(self, alone=alone, words=(there.get("embedding") or (0,))[0])
        same = self.found == self.width and not any(name.startswith("CNN_proj/") for name in there)
        bare = self.cells == self.width and not any(name.endswith("/W_P_0") for name in there)
        return replace(settled, projected=not same, narrowed=not bare)

    def shapes(self) -> dict[str, Shape]:
        """All arrays of the network, by their names there."""
        found = self.found
        wanted: dict[str, Shape] = {"embedding": (self.words, self.width)}
        if self.reads == CHARACTERS:
            wanted = {"char_embed": (BYTES, self.characters)}
            for number, (wide, count) in enumerate(self.filters):
                wanted[f"CNN/W_cnn_{number}"] = (1, wide, self.characters, count)
                wanted[f"CNN/b_cnn_{number}"] = (count,)
            for number in range(self.highways):
                for part in ("carry", "transform"):
                    wanted[f"CNN_high_{number}/W_{part}"] = (found, found)
                    wanted[f"CNN_high_{number}/b_{part}"] = (found,)
            if self.projected:
                wanted |= {"CNN_proj/W_proj": (found, self.width), "CNN_proj/b_proj": (self.width,)}
        for direction in range(2):
            for layer in range(self.depth):
                name = self.cell(direction, layer)
                wanted[f"{name}W_0"] = (2 * self.width, 4 * self.cells)
                wanted[f"{name}B"] = (4 * self.cells,)
                if self.narrowed:
                    wanted[f"{name}W_P_0"] = (self.cells, self.width)
        return wanted

    def fields(self) -> dict[str, Any]:
        """Those of our milestone."""
        told: dict[str, Any] = {
            "width": self.width,
            "cells": self.cells,
            "depth": self.depth,
            "cell_clip": self.cell_clip,
            "project_clip": self.project_clip if self.narrows else 0.0,  # what is not projected is not clipped
            "skip": self.skip,
            "context": self.context,
            "dropout": self.dropout,
            "reads": self.reads,
        }
        if self.reads == CHARACTERS:
            told |= {
                "characters": self.characters,
                "filters": ",".join(f"{wide}:{count}" for wide, count in self.filters),
                "highways": self.highways,
                "activation": self.activation,
                "longest": self.longest,
            }
        return told


def sizes_from(fields: Mapping[str, Any]) -> Sizes:
    """The sizes of a run, from its fields."""
    told: dict[str, Any] = {name: fields[name] for name in Sizes.__dataclass_fields__ if name in fields}
    pairs = (one.split(":") for one in fields["filters"].split(",")) if fields["reads"] == CHARACTERS else ()
    told["filters"] = tuple((int(wide), int(count)) for wide, count in pairs)
    return Sizes(**told)


# -- options.json


def options_of(sizes: Sizes, words: int | None) -> dict[str, Any]:
    """The options for those who read a model; no clipping is null there, as 0 would cut everything off."""
    told: dict[str, Any] = {
        "bidirectional": True,
        "dropout": sizes.dropout,
        "unroll_steps": sizes.context,
        "lstm": {
            "cell_clip": sizes.cell_clip or None,
            "dim": sizes.cells,
            "n_layers": sizes.depth,
            "proj_clip": (sizes.project_clip or None) if sizes.narrows else None,
            "projection_dim": sizes.width,
            "use_skip_connections": sizes.skip,
        },
    }
    if words is not None:
        told["n_tokens_vocab"] = words
    if sizes.reads == CHARACTERS:
        told["char_cnn"] = {
            "activation": sizes.activation,
            "embedding": {"dim": sizes.characters},
            "filters": [list(one) for one in sizes.filters],
            "max_characters_per_token": sizes.longest,
            "n_characters": READERS[0],
            "n_highway": sizes.highways,
        }
    return told


def sizes_of(file: Path) -> Sizes:
    """What options.json tells; whatever it lacks or has wrong is named, all of it."""
    told, faults = _facts(file), Faults()
    lstm = faults.inner(told, "lstm")
    common: dict[str, Any] = {
        "width": faults.whole(lstm, "lstm.projection_dim"),
        "cells": faults.whole(lstm, "lstm.dim"),
        "depth": faults.whole(lstm, "lstm.n_layers", usual=1, most=DEEPEST),
        "cell_clip": faults.number(lstm, "lstm.cell_clip"),
        "project_clip": faults.number(lstm, "lstm.proj_clip"),
        "context": faults.whole(told, "unroll_steps", usual=20),
        "dropout": faults.number(told, "dropout", usual=0.1, most=0.99),
        "skip": faults.one_of(lstm, "lstm.use_skip_connections", (False, True), usual=False),
        "reads": WORDS,
    }
    if told.get("bidirectional", True) is not True:
        faults.told.append("bidirectional is not true: it reads in one direction only, which is no ELMo")
    if "char_cnn" in told:
        common |= {"reads": CHARACTERS} | _of_characters(faults, faults.inner(told, "char_cnn"))
    if faults.told:
        raise BadInput(several(faults.told, DEEPEST), file=file, remedy=AGAIN)
    return Sizes(**common)


def _of_characters(faults: Faults, told: dict[str, Any]) -> dict[str, Any]:
    longest = faults.whole(told, "char_cnn.max_characters_per_token", usual=50, least=4, most=1 << 12)
    faults.one_of(told, "char_cnn.n_characters", READERS, usual=READERS[0])
    return {
        "characters": faults.whole(faults.inner(told, "char_cnn.embedding"), "char_cnn.embedding.dim"),
        "filters": faults.filters(told, "char_cnn.filters", longest),
        "highways": faults.whole(told, "char_cnn.n_highway", usual=0, least=0, most=DEEPEST),
        "activation": faults.one_of(told, "char_cnn.activation", ACTIVATIONS),
        "longest": longest,
    }


class Faults:
    """Reads entries by their places, and keeps what is wrong with them; in such a place stands what is usual, or 1."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def _given(self, told: Mapping[str, Any], place: str, usual: Any) -> Any:
        given = told.get(place.rpartition(".")[2])
        if given is None and usual is None:
            self.told.append(f"{place} is missing")
        return usual if given is None else given

    def inner(self, told: Mapping[str, Any], place: str) -> dict[str, Any]:
        given = self._given(told, place, None)
        if given is not None and not isinstance(given, dict):
            self.told.append(f"{place} is {given!r:.40}, not an object")
        return given if isinstance(given, dict) else {}

    def whole(
        self, told: Mapping[str, Any], place: str, *, usual: int | None = None, least: int = 1, most: int = WIDEST
    ) -> int:
        given = self._given(told, place, usual)
        if type(given) is int and least <= given <= most:
            return given
        if given is not None:
            self.told.append(f"{place} is {given!r:.40}, not a whole number from {least} to {most:,}")
        return usual or 1

    def number(self, told: Mapping[str, Any], place: str, *, usual: float = 0.0, most: float = WIDEST) -> float:
        given = self._given(told, place, usual)
        if type(given) in (int, float) and 0 <= given <= most:
            return float(given)
        self.told.append(f"{place} is {given!r:.40}, not a number from 0 to {most:,}")
        return usual

    def one_of(self, told: Mapping[str, Any], place: str, choices: tuple[Any, ...], *, usual: Any = None) -> Any:
        given = self._given(told, place, usual)
        if given is not None and not any(type(given) is type(one) and given == one for one in choices):
            self.told.append(f"{place} is {given!r:.40}; it must be {' or '.join(json.dumps(one) for one in choices)}")
        return given

    def filters(self, told: Mapping[str, Any], place: str, longest: int) -> tuple[tuple[int, int], ...]:
        given = self._given(told, place, None)
        if given is None:
            return ()
        right = isinstance(given, list) and 0 < len(given) <= DEEPEST
        if not right or not all(_pair(one, longest) for one in given):
            what = f"a list of pairs [width, how many], with widths up to the {longest} characters of a word"
            self.told.append(f"{place} is {given!r:.60}, not {what}")
            return ()
        return tuple((wide, count) for wide, count in given)


def _pair(one: Any, longest: int) -> bool:
    """Whether this is a width and a number of filters."""
    right = isinstance(one, list) and len(one) == 2 and all(type(number) is int and number > 0 for number in one)
    return right and one[0] <= longest and one[1] <= WIDEST


def _facts(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this is not JSON: {error}", file=file, remedy=AGAIN) from None
    if not isinstance(told, dict):
        raise BadInput("this is not an object", file=file, remedy=AGAIN)
    return told
