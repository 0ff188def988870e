"""ELMo as bilm-tf and AllenNLP publish it, in and out: options.json, weights in HDF5, and perhaps a vocabulary.

Their gates stand in the order i, g, f, o, and 1 is added to the bias of the forget gate when they run; ours stand as
those of torch, i, f, g, o, and nothing is added. What was read from such a file and is written again has the same bits
when it is read again. A bias of the forget gate that was learned here may then differ by 1e-7: one less, it is rounded.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.tokenizers import word_level
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError, join_faults
from forebear.interop.elmo_options import (
    CHARACTERS,
    CORRUPT_HINT,
    OPTIONS,
    SOFTMAX,
    VOCABULARY,
    WEIGHTS,
    ElmoFiles,
    ElmoSizes,
    HDF5Arrays,
    find_elmo_files,
    is_elmo,
    open_hdf5,
    read_elmo_options,
    read_vocabulary,
    sizes_from_fields,
    to_elmo_options,
    write_hdf5,
)
from forebear.registry import model_spec
from forebear.training.create_run import create_run

if TYPE_CHECKING:
    from forebear.inference.run import Run
    from forebear.training.run_folder import RunFolder

# The words of a vocabulary as those who read ELMo want them: a line each, <S>, </S> and <UNK> among them.


ELMO_MARKERS = {"start": "<S>", "end": "</S>", "unknown": "<UNK>"}  # by our roles
NEVER = -1e4  # the score of a word that is never said
BEGINS, ENDS = 256, 257  # rows of the table of symbols: where a text begins, and where it ends
CHARACTER, TOKEN, ROW_TENSORS = "encoder.embedding.character", "encoder.embedding.token", "heads.next.softmax.scores"


def vocabulary_lines(tokens: Sequence[str], roles: Mapping[str, int]) -> list[str]:
    r"""A line for each token, and behind them one for each mark that no token of its own has the role of.

    What is not printed on a line, and the < of a word that looks like a mark, is written as \u0020 and the like.
    """
    owners = {mark: roles[role] for role, mark in ELMO_MARKERS.items() if role in roles}
    if owners.get(ELMO_MARKERS["start"]) == owners.get(ELMO_MARKERS["end"]):
        owners.pop(ELMO_MARKERS["start"], None)  # one token does both, and it is the end that is predicted
    marked = {number: mark for mark, number in owners.items()}
    lines: dict[str, None] = {}
    for number, token in enumerate(tokens):
        line = marked.get(number) or _line(token)
        while line in lines:
            line += "_"
        lines[line] = None
    return [*lines, *(mark for mark in ELMO_MARKERS.values() if mark not in owners)]


def _line(token: str) -> str:
    if token in ELMO_MARKERS.values():
        return r"\u003c" + token[1:]
    odd = [character for character in set(token) if character.isspace() or ord(character) < 32]
    return "".join(rf"\u{ord(c):04x}" if c in odd else c for c in token) or r"\u0000"


def add_marker_rows(
    tensors: Mapping[str, np.ndarray], lines: Sequence[str], end: int, *, one_border: bool
) -> dict[str, np.ndarray]:
    """The tensors with a row for each line, also for marks that our vocabulary lacks: they are never said, and read as
    the end is. `one_border`: the end is what texts begin with here, so it is what <S> is read as."""
    made = dict(tensors)
    start = lines.index(ELMO_MARKERS["start"])
    if (table := made.get(f"{TOKEN}.weight")) is not None:
        more = len(lines) - len(table)
        made[f"{TOKEN}.weight"] = table = np.concatenate([table, np.repeat(table[end : end + 1], more, 0)])
        if one_border:
            table[start] = table[end]
    if one_border and (table := made.get(f"{CHARACTER}.weight")) is not None:
        made[f"{CHARACTER}.weight"] = table = table.copy()
        table[BEGINS] = table[ENDS]
    if (scores := made.get(f"{ROW_TENSORS}.weight")) is not None and (more := len(lines) - len(scores)):
        made[f"{ROW_TENSORS}.weight"] = np.concatenate([scores, np.zeros((more, scores.shape[1]), np.float32)])
        made[f"{ROW_TENSORS}.bias"] = np.append(made[f"{ROW_TENSORS}.bias"], np.full(more, NEVER, np.float32))
    return made


def drop_extra_rows(tensors: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """The tensors without rows behind the first `size` words."""
    by_word = (f"{TOKEN}.weight", f"{ROW_TENSORS}.weight", f"{ROW_TENSORS}.bias")
    return {name: value[:size] if name in by_word else value for name, value in tensors.items()}


__all__ = ["ELMO_MARKERS", "ElmoCheckpoint", "is_elmo", "read_elmo", "write_elmo"]

FILTER, HIGHWAY, PROJECT = "encoder.embedding.filters", "encoder.embedding.highways", "encoder.embedding.project"
DIRECTIONS = ("encoder.onward", "encoder.back")
GATES = (0, 2, 1, 3)  # i g f o as i f g o, and back again
MOST = 200  # faults that are told
USUAL = 50  # characters of a word, whatever AllenNLP's options say
TOGETHER = "take both from the same publisher, or fetch them again"


@dataclass(frozen=True, eq=False)
class ElmoCheckpoint:
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
    num_matched: int
    skipped_tensors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    import_notes: list[str] = field(default_factory=list)

    @property
    def heads(self) -> tuple[str, ...]:
        """What it can be asked: a softmax answers in both directions."""
        return ("next", "previous") if f"{ROW_TENSORS}.weight" in self.tensors else ()

    def to_dict(self) -> dict[str, Any]:
        """What became of the names, as runs keep it."""
        left_out = {why: list(names) for why, names in self.skipped_tensors.items()}
        return {"architecture": "ELMo", "matched": self.num_matched, "heads": list(self.heads), "left_out": left_out}

    def notes(self) -> list[str]:
        """The same for people, a line for each thing."""
        told = [f"{self.num_matched:,} arrays are those of ELMo, and were read", *self.import_notes]
        return told + [f"left out ({why}): {join_faults(names, 4)}" for why, names in self.skipped_tensors.items()]


# -- reading


def read_elmo(path: Path) -> ElmoCheckpoint:
    """The model of a folder, or of a file of weights that has its options beside it."""
    parts = find_elmo_files(path)
    sizes, remarks = read_elmo_options(parts.options), list(parts.notes)
    words, idle = (None, []) if parts.vocabulary is None else read_vocabulary(parts.vocabulary)
    if idle:
        remarks.append(f"{len(idle):,} lines of {parts.vocabulary} are blank or repeat a word: left out")
    with open_hdf5(parts.weights) as found:
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
    fields, matched = sizes.spec_fields() | {"softmax": "full"}, matched + len(scores)
    return ElmoCheckpoint(fields, tensors | scores, words, matched, left_out, remarks)


def _theirs(found: HDF5Arrays, sizes: ElmoSizes, parts: ElmoFiles) -> tuple[ElmoSizes, dict[str, np.ndarray]]:
    """All arrays of the network, if they are those that the options tell of; whatever is wrong is named."""
    if sizes.reads != CHARACTERS and "char_embed" in found.shapes:
        what = f"it reads the letters of words, and {parts.options.name} has no char_cnn to tell how"
        raise InputError(what, file=parts.weights, hint=TOGETHER)
    sizes = sizes.resolve(found.shapes)
    wanted = sizes.tensor_shapes()
    besides = SOFTMAX if any(name in found.shapes for name in SOFTMAX) else ()
    faults = [f"{name} is missing" for name in (*wanted, *besides) if name not in found.shapes]
    for name, shape in found.shapes.items():
        if name in wanted and shape != wanted[name]:
            faults.append(f"{name} is {_sized(shape)} instead of {_sized(wanted[name])}")
        elif name not in wanted and name not in besides:
            faults.append(f"{name} is not expected")
    if faults:
        what = f"these are not the weights that {parts.options.name} tells of: {join_faults(faults, MOST)}"
        raise InputError(what, file=parts.weights, hint=TOGETHER)
    return sizes, {name: found.read(name) for name in wanted}


def _sized(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a single number"


def _into_ours(theirs: Mapping[str, np.ndarray], sizes: ElmoSizes) -> dict[str, np.ndarray]:
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
            name, there = f"{side}.{layer}", sizes.cell_name(direction, layer)
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


def _check_words(path: Path, sizes: ElmoSizes, words: Sequence[str] | None, idle: int) -> None:
    """What reads words needs to know them."""
    if sizes.reads == CHARACTERS:
        return
    hint = f"put the vocabulary there that it was trained with, as {VOCABULARY}"
    if words is None or idle or len(words) != sizes.words:
        what = f"it reads words, {sizes.words:,} of them, and there is no vocabulary of so many"
        raise InputError(what, file=path, hint=hint)
    if lacking := [mark for mark in ELMO_MARKERS.values() if mark not in words]:
        raise InputError(f"the vocabulary has no {' and no '.join(lacking)}", file=path, hint=hint)


def _check_projections(file: Path, sizes: ElmoSizes, theirs: Mapping[str, np.ndarray]) -> None:
    """Where there are as many cells as the width nothing is projected here: theirs must change nothing."""
    idle = np.eye(sizes.width, dtype=np.float32)
    clips = 0 < sizes.project_clip < 1  # what is not projected stays within 1
    found = [name for name in theirs if name.endswith("/W_P_0")]
    odd = [name for name in found if clips or not np.array_equal(theirs[name], idle)]
    if not sizes.narrows and odd:
        what = f"dim equals projection_dim, and there still is a projection between them: {join_faults(odd)}"
        raise InputError(what, file=file, hint="give an ELMo with more cells than its projection has numbers")


def _scores(
    parts: ElmoFiles, sizes: ElmoSizes, words: Sequence[str] | None, idle: int
) -> tuple[dict[str, np.ndarray], str]:
    """The softmax, or why it is left out; neither where there is none."""
    if parts.softmax is None:
        return {}, ""
    with open_hdf5(parts.softmax) as found:
        size = (found.shapes[SOFTMAX[1]] or (0,))[0]
        wanted = dict(zip(SOFTMAX, ((size, sizes.width), (size,)), strict=True))
        odd = [name for name, shape in wanted.items() if found.shapes[name] != shape]
        if faults := [f"{name} is {_sized(found.shapes[name])}" for name in odd]:
            what = f"no softmax over words for vectors of {sizes.width} numbers: {join_faults(faults)}"
            raise InputError(what, file=parts.softmax, hint=CORRUPT_HINT)
        if words is None:
            return {}, "there is no vocabulary to name its words"
        if lacking := [mark for mark in ELMO_MARKERS.values() if mark not in words]:
            return {}, f"the vocabulary has no {' and no '.join(lacking)}"
        if idle or len(words) != size:
            return {}, f"it has {size:,} rows, and the vocabulary {len(words):,} words"
        return {f"{ROW_TENSORS}.weight": found.read(SOFTMAX[0]), f"{ROW_TENSORS}.bias": found.read(SOFTMAX[1])}, ""


# -- writing


def write_elmo(
    folder: Path, fields: Mapping[str, Any], tensors: Mapping[str, np.ndarray], words: Sequence[str] | None
) -> list[str]:
    """Writes options, weights and the vocabulary into the folder; returns what a person should know of them."""
    sizes = sizes_from_fields(fields)
    folder.mkdir(parents=True, exist_ok=True)
    write_hdf5(folder / WEIGHTS, _into_theirs(tensors, sizes))
    options = to_elmo_options(sizes, None if words is None else len(words))
    (folder / OPTIONS).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
    if words is not None:
        (folder / VOCABULARY).write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")
    return _told(sizes)


def _into_theirs(ours: Mapping[str, np.ndarray], sizes: ElmoSizes) -> dict[str, np.ndarray]:
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
            name, there = f"{side}.{layer}", sizes.cell_name(direction, layer)
            bias = ours[f"{name}.input.bias"].copy()
            bias[sizes.cells : 2 * sizes.cells] -= np.float32(1)
            both = np.concatenate([ours[f"{name}.input.weight"], ours[f"{name}.state.weight"]], axis=1)
            theirs |= {f"{there}W_0": _gates(both).T, f"{there}B": _gates(bias)}
            theirs[f"{there}W_P_0"] = ours[f"{name}.project.weight"].T if sizes.narrows else np.eye(sizes.width)
    if f"{ROW_TENSORS}.weight" in ours:
        theirs |= {SOFTMAX[0]: ours[f"{ROW_TENSORS}.weight"], SOFTMAX[1]: ours[f"{ROW_TENSORS}.bias"]}
    return theirs


def _told(sizes: ElmoSizes) -> list[str]:
    """Where one of the two readers is known to do otherwise."""
    told = []
    if sizes.reads != CHARACTERS:
        told.append(
            "it reads words and no characters: bilm-tf opens it (use_character_inputs=False), AllenNLP does not"
        )
    elif sizes.vocab_sizes <= sizes.width:
        what = "bilm-tf wants filters to find more numbers in a word than the width has"
        told.append(f"{what} ({sizes.vocab_sizes} and {sizes.width}); AllenNLP reads it as it is")
    if sizes.cells < sizes.width:
        what = "bilm-tf projects only where there are more cells than the width"
        told.append(f"{what} ({sizes.cells} and {sizes.width}); AllenNLP reads it as it is")
    if sizes.reads == CHARACTERS and sizes.longest != USUAL:
        told.append(f"it reads {sizes.longest} characters of a word, and AllenNLP always {USUAL}")
    return told


# Recurrent models to and from other programs: ELMo as it is published, and an LSTM from a NumPy archive.


TOKENIZER = "tokenizer.json"
SPACES = "words are what stands between spaces: write text for it as it was cut for its training"


def is_foreign_recurrent(path: Path) -> bool:
    """Whether one of the two is here."""
    from forebear.interop import lstm_npz

    return is_elmo(path) or lstm_npz.is_rnnlm(path)


def import_recurrent(path: Path, target: Path) -> RunFolder:
    """A run around the weights of such a folder or file."""
    from forebear.interop import lstm_npz

    if is_elmo(path):
        return _from_elmo(path, target, read_elmo(path))
    found = lstm_npz.read_rnnlm(path)
    tokenizer = _tokenizer_of(found.words, lstm_npz.RNNLM_MARKERS, path)
    told = {"imported": str(path), "heads": ["next"], "notes": [*found.notes, SPACES]}
    return _founded(target, "lstm", found.fields, tokenizer, found.tensors, path, told)


def _from_elmo(path: Path, target: Path, found: ElmoCheckpoint) -> RunFolder:

    beside = (path if path.is_dir() else path.parent) / TOKENIZER
    notes, tensors = found.notes(), found.tensors
    if beside.is_file():
        tokenizer = Tokenizer.load(beside)
        if found.words is not None and found.words != vocabulary_lines(tokenizer.vocabulary(), tokenizer.special_roles):
            what = "the vocabulary beside it has other words than this tokenizer"
            raise InputError(what, file=beside, hint="take one of the two away, whichever is not the model's")
        tensors = drop_extra_rows(tensors, tokenizer.vocab_size)
        notes.append(f"text is cut by the {TOKENIZER} beside it")
    else:
        tokenizer = _tokenizer_of(found.words or [], ELMO_MARKERS, path)
        notes.append(SPACES)
        if found.fields["reads"] == "characters":
            notes.append("words that its vocabulary lacks are read by how they are written")
    told = {"imported": str(path), "heads": list(found.heads), "report": found.to_dict(), "notes": notes}
    return _founded(target, "elmo", found.fields | {"borders": 2}, tokenizer, tensors, path, told)


def _tokenizer_of(names: Sequence[str], marks: Mapping[str, str], path: Path) -> Tokenizer:
    """A tokenizer of these words, and of marks that they lack, which stand behind them."""
    known = set(names)
    tokens = [*names, *(mark for mark in marks.values() if mark not in known)]
    blueprint = word_level.word_tokenizer_spec(
        tokens, specials=marks, normalise=(), split="spaces", segmenter=None, facts={"source": path.name}
    )
    return Tokenizer(blueprint, file=path)


def _founded(
    target: Path,
    name: str,
    fields: dict[str, Any],
    tokenizer: Tokenizer,
    arrays: Mapping[str, np.ndarray],
    path: Path,
    told: dict[str, Any],
) -> RunFolder:
    import torch

    milestone = model_spec(name)(**fields)
    tensors = {place: torch.from_numpy(array) for place, array in arrays.items()}
    network = milestone.build(tokenizer).with_heads(told["heads"]).load(tensors, file=str(path))

    def write(file: Path) -> None:
        from safetensors.torch import save_file

        save_file(network.tensors(), file)

    return create_run(target, milestone, name, tokenizer, write, told)


# -- writing


def export_elmo(run: Run, target: Path) -> list[str]:
    """Writes a run of ELMo as a folder that bilm-tf and AllenNLP read; returns what a person should know of it."""

    tokenizer, fields = run.tokenizer, run.metadata["fields"]
    notes: list[str] = []
    if tokenizer.segmenter is not None:
        notes.append("its words are cut by a segmenter, which others lack: give them text that is cut, words by spaces")
    arrays = {name: value.numpy() for name, value in run.network.tensors().items()}
    heads = [name for name in arrays if name.startswith("heads.")]
    if not all(name.startswith(ROW_TENSORS) for name in heads):
        arrays = {name: value for name, value in arrays.items() if name not in heads}
        notes.append("its softmax weighs rare words in groups, which such files cannot hold: it is left out")
    end = tokenizer.special_roles.get("end")
    if end is None:
        raise ForebearError("its vocabulary has no token that ends a text", file=run.folder.path)
    lines = vocabulary_lines(tokenizer.vocabulary(), tokenizer.special_roles)
    arrays = add_marker_rows(arrays, lines, end, one_border=fields["borders"] == 1)
    aside = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        notes += write_elmo(aside, fields, arrays, lines)
        tokenizer.save(aside / TOKENIZER)
        if target.is_dir():
            target.rmdir()
        aside.rename(target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return notes
