"""Small ELMos in the published format, and a reference implementation of their layers.

Everything here follows bilm-tf: gates i, j, f, o in one matrix, 1 added to the forget gate at run time, weights
[in, out], filters (1, width, embedding size, filters). It shares no code with forebear.
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
    """The options above with these changes; None removes an entry."""
    sections = {"lstm": OPTIONS["lstm"] | (lstm or {}), "char_cnn": OPTIONS["char_cnn"] | (characters or {})}
    return {
        name: {key: value for key, value in section.items() if value is not None} for name, section in sections.items()
    }


def random_arrays(config: dict[str, Any], *, seed: int = 0, softmax: int = 0) -> dict[str, np.ndarray]:
    """Random weights for these options, named and shaped as by bilm-tf."""
    lstm, cnn = config["lstm"], config.get("char_cnn")
    width, cells, depth = lstm["projection_dim"], lstm["dim"], lstm.get("n_layers", 1)
    shapes: dict[str, tuple[int, ...]] = {}
    if cnn:
        num_filters = sum(size for _, size in cnn["filters"])
        shapes["char_embed"] = (261, cnn["embedding"]["dim"])
        for i, (span, size) in enumerate(cnn["filters"]):
            shapes |= {f"CNN/W_cnn_{i}": (1, span, cnn["embedding"]["dim"], size), f"CNN/b_cnn_{i}": (size,)}
        for i in range(cnn.get("n_highway", 0)):
            for gate in ("carry", "transform"):
                shapes |= {
                    f"CNN_high_{i}/W_{gate}": (num_filters, num_filters),
                    f"CNN_high_{i}/b_{gate}": (num_filters,),
                }
        if num_filters != width:
            shapes |= {"CNN_proj/W_proj": (num_filters, width), "CNN_proj/b_proj": (width,)}
    else:
        shapes["embedding"] = (len(WORDS), width)
    for direction in range(2):
        for layer in range(depth):
            name = cell_name(config, direction, layer)
            shapes |= {f"{name}/W_0": (2 * width, 4 * cells), f"{name}/B": (4 * cells,)}
            if width != cells:
                shapes[f"{name}/W_P_0"] = (cells, width)
    if softmax:
        shapes |= {"softmax/W": (softmax, width), "softmax/b": (softmax,)}
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def cell_name(config: dict[str, Any], direction: int, layer: int) -> str:
    """The HDF5 path of a layer's weights; a single layer has no number."""
    multi_cell = f"MultiRNNCell/Cell{layer}/" if config["lstm"].get("n_layers", 1) > 1 else ""
    return f"RNN_{direction}/RNN/{multi_cell}LSTMCell"


def write_published_elmo(
    folder: Path, config: dict[str, Any] | None = None, *, words: Iterable[str] | None = (), **array_options: Any
) -> dict[str, np.ndarray]:
    """Write such a model and return its arrays; `words` are those above if empty, None writes no vocabulary."""
    config = options() if config is None else config
    arrays = random_arrays(config, **array_options)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(config))
    write_hdf5(folder / "lm_weights.hdf5", arrays)
    if words is not None:
        (folder / "vocab.txt").write_text("\n".join(tuple(words) or WORDS) + "\n", encoding="utf-8")
    return arrays


def write_hdf5(path: Path, arrays: dict[str, np.ndarray], **dataset_options: Any) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, **dataset_options)


# -- its layers


def character_ids(word: str, max_length: int) -> list[int]:
    marker_ids = {"<S>": [256], "</S>": [257]}
    ids = [258, *marker_ids.get(word, word.encode()[: max_length - 2]), 259]
    return ids + [260] * (max_length - len(ids))


def token_vectors(config: dict[str, Any], arrays: dict[str, np.ndarray], words: list[str]) -> np.ndarray:
    """(N, D) the context-independent vectors of words, below the LSTMs."""
    cnn = config["char_cnn"]
    max_length, activation = cnn["max_characters_per_token"], {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
    x = arrays["char_embed"][[character_ids(word, max_length) for word in words]].astype(np.float64)
    outputs = []
    for i, (span, _) in enumerate(cnn["filters"]):
        starts = range(max_length - span + 1)
        windows = np.stack([x[:, start : start + span] for start in starts], 1)  # (N, windows, span, dim)
        sums = np.einsum("npsd,sdc->npc", windows, arrays[f"CNN/W_cnn_{i}"][0]) + arrays[f"CNN/b_cnn_{i}"]
        outputs.append(activation[cnn["activation"]](sums.max(1)))
    x = np.concatenate(outputs, 1)
    for i in range(cnn.get("n_highway", 0)):
        weights = {
            name: arrays[f"CNN_high_{i}/{name}"] for name in ("W_carry", "b_carry", "W_transform", "b_transform")
        }
        carry = sigmoid(x @ weights["W_carry"] + weights["b_carry"])
        x = carry * np.maximum(x @ weights["W_transform"] + weights["b_transform"], 0) + (1 - carry) * x
    return x @ arrays["CNN_proj/W_proj"] + arrays["CNN_proj/b_proj"] if "CNN_proj/W_proj" in arrays else x


class ReferenceBiLM:
    """A bidirectional LM over consecutive sentences; both directions keep their states from one to the next."""

    def __init__(self, config: dict[str, Any], arrays: dict[str, np.ndarray], *, stateful: bool = True) -> None:
        self.config, self.arrays, self.stateful, self.states = config, arrays, stateful, {}

    def layers(self, words: list[str]) -> list[np.ndarray]:
        """[x; x], [f1; b1], … of the words, without the boundary tokens."""
        x = token_vectors(self.config, self.arrays, ["<S>", *words, "</S>"])
        directions, layers = [x, x[::-1]], [np.concatenate([x, x], 1)]
        for layer in range(self.config["lstm"].get("n_layers", 1)):
            directions = [self._run_direction(direction, layer, directions[direction]) for direction in range(2)]
            layers.append(np.concatenate([directions[0], directions[1][::-1]], 1))
        return [states[1:-1] for states in layers]

    def _run_direction(self, direction: int, layer: int, x: np.ndarray) -> np.ndarray:
        config, name = self.config["lstm"], cell_name(self.config, direction, layer)
        weight, bias, project = (self.arrays.get(f"{name}/{suffix}") for suffix in ("W_0", "B", "W_P_0"))
        assert weight is not None
        h, c = self.states.get((direction, layer), (np.zeros(config["projection_dim"]), np.zeros(config["dim"])))
        outputs = []
        for row in x:
            i, j, f, o = np.split(np.concatenate([row, h]) @ weight + bias, 4)
            c = clip(sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(j), config.get("cell_clip"))
            h = sigmoid(o) * np.tanh(c)
            if project is not None:
                h = clip(h @ project, config.get("proj_clip"))
            outputs.append(h + row if layer and config.get("use_skip_connections") else h)
        if self.stateful:
            self.states[direction, layer] = h, c
        return np.array(outputs)


def clip(x: np.ndarray, limit: float | None) -> np.ndarray:
    return x if limit is None else np.clip(x, -limit, limit)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
