"""Small ELMos in the form in which they are published, and their layers by the equations of those who publish them.

Everything here is by their conventions: gates i, j, f, o in one matrix, 1 added to the forget gate at run time, weights
[in, out], filters (1, span, numbers, count). It knows nothing of how we keep them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

OPTIONS: dict[str, Any] = {
    "lstm": {
        "cell_clip": 3, "use_skip_connections": True, "n_layers": 2, "proj_clip": 3, "projection_dim": 6, "dim": 10,
    },
    "char_cnn": {
        "embedding": {"dim": 3}, "filters": [[1, 4], [3, 5]], "n_highway": 1, "n_characters": 262,
        "max_characters_per_token": 12, "activation": "relu",
    },
}  # fmt: skip
WORDS = ["<S>", "</S>", "<UNK>", "the", "北京", "bank", "naïve"]


def options(lstm: dict[str, Any] | None = None, characters: dict[str, Any] | None = None) -> dict[str, Any]:
    """The options above with these changes; None takes an entry away."""
    changed = {"lstm": OPTIONS["lstm"] | (lstm or {}), "char_cnn": OPTIONS["char_cnn"] | (characters or {})}
    return {name: {key: one for key, one in part.items() if one is not None} for name, part in changed.items()}


def arrays(told: dict[str, Any], *, seed: int = 0, softmax: int = 0) -> dict[str, np.ndarray]:
    """Random weights for these options, as bilm-tf would have them."""
    lstm, cnn = told["lstm"], told.get("char_cnn")
    width, cells, depth = lstm["projection_dim"], lstm["dim"], lstm.get("n_layers", 1)
    shapes: dict[str, tuple[int, ...]] = {}
    if cnn:
        count = sum(number for _, number in cnn["filters"])
        shapes["char_embed"] = (261, cnn["embedding"]["dim"])
        for i, (span, number) in enumerate(cnn["filters"]):
            shapes |= {f"CNN/W_cnn_{i}": (1, span, cnn["embedding"]["dim"], number), f"CNN/b_cnn_{i}": (number,)}
        for i in range(cnn.get("n_highway", 0)):
            for part in ("carry", "transform"):
                shapes |= {f"CNN_high_{i}/W_{part}": (count, count), f"CNN_high_{i}/b_{part}": (count,)}
        if count != width:
            shapes |= {"CNN_proj/W_proj": (count, width), "CNN_proj/b_proj": (width,)}
    else:
        shapes["embedding"] = (len(WORDS), width)
    for way in range(2):
        for layer in range(depth):
            name = cell(told, way, layer)
            shapes |= {f"{name}/W_0": (2 * width, 4 * cells), f"{name}/B": (4 * cells,)}
            if width != cells:
                shapes[f"{name}/W_P_0"] = (cells, width)
    if softmax:
        shapes |= {"softmax/W": (softmax, width), "softmax/b": (softmax,)}
    drawn = np.random.default_rng(seed)
    return {name: drawn.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def cell(told: dict[str, Any], way: int, layer: int) -> str:
    """Where a layer's weights are; a single one stands without a number."""
    between = f"MultiRNNCell/Cell{layer}/" if told["lstm"].get("n_layers", 1) > 1 else ""
    return f"RNN_{way}/RNN/{between}LSTMCell"


def publish(
    folder: Path, told: dict[str, Any] | None = None, *, words: Iterable[str] | None = (), **how: Any
) -> dict[str, np.ndarray]:
    """Writes such a model; returns its arrays. Without `words`: those above; None: no vocabulary."""
    told = options() if told is None else told
    made = arrays(told, **how)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(told))
    store(folder / "lm_weights.hdf5", made)
    if words is not None:
        (folder / "vocab.txt").write_text("\n".join(tuple(words) or WORDS) + "\n", encoding="utf-8")
    return made


def store(file: Path, made: dict[str, np.ndarray], **how: Any) -> None:
    with h5py.File(file, "w") as stored:
        for name, numbers in made.items():
            stored.create_dataset(name, data=numbers, **how)


# -- what it answers


def spelled(word: str, longest: int) -> list[int]:
    marks = {"<S>": [256], "</S>": [257]}
    ids = [258, *marks.get(word, word.encode()[: longest - 2]), 259]
    return ids + [260] * (longest - len(ids))


def vectors(told: dict[str, Any], made: dict[str, np.ndarray], words: list[str]) -> np.ndarray:
    """(N, D) what stands below the LSTMs, of words by themselves."""
    cnn = told["char_cnn"]
    longest, activation = cnn["max_characters_per_token"], {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
    x = made["char_embed"][[spelled(word, longest) for word in words]].astype(np.float64)
    found = []
    for i, (span, _) in enumerate(cnn["filters"]):
        places = np.stack([x[:, at : at + span] for at in range(longest - span + 1)], 1)  # (N, places, span, dim)
        sums = np.einsum("npsd,sdc->npc", places, made[f"CNN/W_cnn_{i}"][0]) + made[f"CNN/b_cnn_{i}"]
        found.append(activation[cnn["activation"]](sums.max(1)))
    x = np.concatenate(found, 1)
    for i in range(cnn.get("n_highway", 0)):
        part = {name: made[f"CNN_high_{i}/{name}"] for name in ("W_carry", "b_carry", "W_transform", "b_transform")}
        carry = sigmoid(x @ part["W_carry"] + part["b_carry"])
        x = carry * np.maximum(x @ part["W_transform"] + part["b_transform"], 0) + (1 - carry) * x
    return x @ made["CNN_proj/W_proj"] + made["CNN_proj/b_proj"] if "CNN_proj/W_proj" in made else x


class Reader:
    """Reads one sentence after the other; both ways go on in the state in which they ended the one before."""

    def __init__(self, told: dict[str, Any], made: dict[str, np.ndarray], *, keeps: bool = True) -> None:
        self.told, self.made, self.keeps, self.states = told, made, keeps, {}

    def layers(self, words: list[str]) -> list[np.ndarray]:
        """[x; x], [f1; b1], … of the words, without what stands before and behind them."""
        x = vectors(self.told, self.made, ["<S>", *words, "</S>"])
        ways, found = [x, x[::-1]], [np.concatenate([x, x], 1)]
        for layer in range(self.told["lstm"].get("n_layers", 1)):
            ways = [self._read(way, layer, ways[way]) for way in range(2)]
            found.append(np.concatenate([ways[0], ways[1][::-1]], 1))
        return [one[1:-1] for one in found]

    def _read(self, way: int, layer: int, x: np.ndarray) -> np.ndarray:
        told, name = self.told["lstm"], cell(self.told, way, layer)
        weight, bias, project = (self.made.get(f"{name}/{part}") for part in ("W_0", "B", "W_P_0"))
        assert weight is not None
        h, c = self.states.get((way, layer), (np.zeros(told["projection_dim"]), np.zeros(told["dim"])))
        found = []
        for row in x:
            i, j, f, o = np.split(np.concatenate([row, h]) @ weight + bias, 4)
            c = clipped(sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(j), told.get("cell_clip"))
            h = sigmoid(o) * np.tanh(c)
            if project is not None:
                h = clipped(h @ project, told.get("proj_clip"))
            found.append(h + row if layer and told.get("use_skip_connections") else h)
        if self.keeps:
            self.states[way, layer] = h, c
        return np.array(found)


def clipped(x: np.ndarray, most: float | None) -> np.ndarray:
    return x if most is None else np.clip(x, -most, most)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
