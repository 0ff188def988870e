"""Recurrent models to and from other programs: ELMo as it is published, and an LSTM from a NumPy archive."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.lineage import milestone_named
from forebear.text import words
from forebear.text.tokenizer import Tokenizer
from forebear.using.founding import founded

if TYPE_CHECKING:
    from forebear.interop.elmo import FoundElmo
    from forebear.training.folder import RunFolder
    from forebear.using.run import Run

TOKENIZER = "tokenizer.json"
SPACES = "words are what stands between spaces: write text for it as it was cut for its training"


def is_one(path: Path) -> bool:
    """Whether one of the two is here."""
    from forebear.interop import elmo, rnnlm

    return elmo.is_one(path) or rnnlm.is_one(path)


def imported_recurrent(path: Path, target: Path) -> RunFolder:
    """A run around the weights of such a folder or file."""
    from forebear.interop import elmo, rnnlm

    if elmo.is_one(path):
        return _from_elmo(path, target, elmo.read(path))
    found = rnnlm.read(path)
    tokenizer = _tokenizer_of(found.words, rnnlm.MARKS, path)
    told = {"imported": str(path), "heads": ["next"], "notes": [*found.notes, SPACES]}
    return _founded(target, "lstm", found.fields, tokenizer, found.tensors, path, told)


def _from_elmo(path: Path, target: Path, found: FoundElmo) -> RunFolder:
    from forebear.interop import elmo_words

    beside = (path if path.is_dir() else path.parent) / TOKENIZER
    notes, tensors = found.notes(), found.tensors
    if beside.is_file():
        tokenizer = Tokenizer.load(beside)
        if found.words is not None and found.words != elmo_words.lines_of(tokenizer.tokens(), tokenizer.roles):
            what = "the vocabulary beside it has other words than this tokenizer"
            raise BadInput(what, file=beside, remedy="take one of the two away, whichever is not the model's")
        tensors = elmo_words.without_rows(tensors, tokenizer.size)
        notes.append(f"text is cut by the {TOKENIZER} beside it")
    else:
        tokenizer = _tokenizer_of(found.words or [], elmo_words.MARKS, path)
        notes.append(SPACES)
        if found.fields["reads"] == "characters":
            notes.append("words that its vocabulary lacks are read by how they are written")
    told = {"imported": str(path), "heads": list(found.heads), "report": found.facts(), "notes": notes}
    return _founded(target, "elmo", found.fields | {"borders": 2}, tokenizer, tensors, path, told)


def _tokenizer_of(names: Sequence[str], marks: Mapping[str, str], path: Path) -> Tokenizer:
    """A tokenizer of these words, and of marks that they lack, which stand behind them."""
    known = set(names)
    tokens = [*names, *(mark for mark in marks.values() if mark not in known)]
    blueprint = words.blueprint(
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

    milestone = milestone_named(name)(**fields)
    tensors = {place: torch.from_numpy(array) for place, array in arrays.items()}
    network = milestone.network(tokenizer).only(told["heads"]).load(tensors, file=str(path))

    def write(file: Path) -> None:
        from safetensors.torch import save_file

        save_file(network.tensors(), file)

    return founded(target, milestone, name, tokenizer, write, told)


# -- writing


def to_elmo(run: Run, target: Path) -> list[str]:
    """Writes a run of ELMo as a folder that bilm-tf and AllenNLP read; returns what a person should know of it."""
    from forebear.interop import elmo, elmo_words

    tokenizer, fields = run.tokenizer, run.facts["fields"]
    notes: list[str] = []
    if tokenizer.segmenter is not None:
        notes.append("its words are cut by a segmenter, which others lack: give them text that is cut, words by spaces")
    arrays = {name: value.numpy() for name, value in run.network.tensors().items()}
    heads = [name for name in arrays if name.startswith("heads.")]
    if not all(name.startswith(elmo_words.SCORES) for name in heads):
        arrays = {name: value for name, value in arrays.items() if name not in heads}
        notes.append("its softmax weighs rare words in groups, which such files cannot hold: it is left out")
    end = tokenizer.roles.get("end")
    if end is None:
        raise ForebearError("its vocabulary has no token that ends a text", file=run.folder.path)
    lines = elmo_words.lines_of(tokenizer.tokens(), tokenizer.roles)
    arrays = elmo_words.with_rows(arrays, lines, end, one_border=fields["borders"] == 1)
    aside = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        notes += elmo.write(aside, fields, arrays, lines)
        tokenizer.save(aside / TOKENIZER)
        if target.is_dir():
            target.rmdir()
        aside.rename(target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return notes
