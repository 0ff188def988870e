"""Runs to and from other programs: Hugging Face folders and ARPA files in, the same out."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forebear.errors import BadInput, ForebearError
from forebear.lineage import milestone_named
from forebear.milestones.milestone import Milestone
from forebear.text.aside import disk_told, sync_folder
from forebear.text.tokenizer import Tokenizer
from forebear.training import machine
from forebear.training.card import write_card
from forebear.training.checkpoint import digest
from forebear.training.folder import RunFolder
from forebear.training.learner import WEIGHTS
from forebear.using.run import Run

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
HUB_FILES = ["config.json", "*.safetensors", "*.safetensors.index.json", "tokenizer.json", "vocab.json", "merges.txt"]


def imported(source: str, to: str) -> RunFolder:
    """A run from a Hugging Face folder or name, or from an ARPA file."""
    path, target = Path(source), Path(to)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput("exists already", file=target, remedy="choose another folder with --to")
    if path.is_file():
        return _from_arpa(path, target)
    if not path.is_dir():
        path = _fetched(source)
    from forebear.interop import huggingface

    name = huggingface.milestone_of(path)
    fields, tensors = huggingface.read_folder(path)
    milestone, tokenizer = milestone_named(name)(**fields), Tokenizer.load(path)
    tensors, notes = huggingface.without_padding(tensors, tokenizer.size)
    network = milestone.network(tokenizer).load(tensors, file=str(path))

    def write(file: Path) -> None:
        from safetensors.torch import save_file

        save_file(network.tensors(), file)

    return _begun(target, milestone, name, tokenizer, source, write, notes)


def _fetched(name: str) -> Path:
    """The files of a model on the Hugging Face hub."""
    if not HUB_NAME.fullmatch(name):
        raise BadInput("there is no such folder or file", file=name, remedy="give a folder, an ARPA file or a hub name")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise BadInput(
            f"neither a folder here nor to be had from the hub ({type(error).__name__})",
            file=name,
            remedy="check the name and the network, or give a folder that holds config.json and model.safetensors",
        ) from error


def _from_arpa(path: Path, target: Path) -> RunFolder:
    from forebear.interop import arpa
    from forebear.text import words

    read = arpa.read(path)
    specials = {"unknown": read.words[read.unknown], "end": read.words[read.end]}
    blueprint = words.blueprint(
        read.words, specials=specials, normalise=(), split="spaces", segmenter=None, facts={"source": path.name}
    )
    tokenizer = Tokenizer(blueprint, file=path)
    milestone = milestone_named("ngram")(order=len(read.ngrams), smoothing="given", unit="sentence")  # pyright: ignore[reportCallIssue]
    network = milestone.network(tokenizer)
    network.give(read.ngrams, read.logs, read.backoffs)

    def write(file: Path) -> None:
        from safetensors.numpy import save_file

        save_file(network.arrays(), file)

    spaces = "words are what stands between spaces: write text for it as it was cut when it was counted"
    return _begun(target, milestone, "ngram", tokenizer, str(path), write, [*read.notes, spaces])


def _begun(
    target: Path,
    milestone: Milestone,
    name: str,
    tokenizer: Tokenizer,
    source: str,
    write: Callable[[Path], None],
    notes: list[str] | None = None,
) -> RunFolder:
    """A finished run around weights that came from elsewhere; it has its name only when it is whole."""
    aside = target.with_name(f".{target.name}.tmp")
    with disk_told(target):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            write(aside / WEIGHTS)
            facts: dict[str, Any] = {
                "name": target.name,
                "milestone": name,
                "size": None,
                "fields": asdict(milestone),
                "parent": None,
                "imported": source,
                "recipe": {},
                "tokenizer": {key: tokenizer.describe()[key] for key in ("kind", "size", "digest")},
                "data": None,
                "began": datetime.now(UTC).isoformat(timespec="seconds"),
                "versions": machine.versions(),
                "hardware": machine.hardware(),
                "weights": {"sha256": digest(aside / WEIGHTS), "bytes": (aside / WEIGHTS).stat().st_size, "step": 0},
                "step": 0,
                "seconds": 0.0,
                "notes": notes or [],
                "state": "finished",
            }
            run = RunFolder.begin(aside, facts, tokenizer, None)
            run.tell(parameters=Run(run).parameters)
            write_card(run)
            if target.is_dir():
                target.rmdir()
            aside.rename(target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        sync_folder(target.parent)
    return RunFolder.open(target)


def form_of(run: Run) -> str:
    """How this run is written for others, where nothing else is asked."""
    name = run.facts["milestone"]
    return next((form for milestone, form in _ways() if milestone == name), "")


def exported(run: Run, form: str, to: str) -> Path:
    """Writes a run as files of another program; returns where."""
    name, target, ways = run.facts["milestone"], Path(to), _ways()
    if (name, form) not in ways:
        offered = ", ".join(other for milestone, other in ways if milestone == name) or "nothing yet"
        raise BadInput(f"a run of {name} cannot be written as {form!r}", remedy=f"it can be written as: {offered}")
    if target.exists() and (form == "arpa" or not target.is_dir() or any(target.iterdir())):
        raise BadInput("exists already", file=target, remedy="choose another place with --to")
    with disk_told(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        ways[name, form](run, target)
    return target


def _ways() -> dict[tuple[str, str], Callable[[Run, Path], None]]:
    """By milestone and form."""
    return {("gpt2", "huggingface"): _to_huggingface, ("ngram", "arpa"): _to_arpa}


def _to_huggingface(run: Run, target: Path) -> None:
    from forebear.interop import huggingface

    tokenizer = run.tokenizer
    if tokenizer.segmenter is not None:
        raise ForebearError(
            "its tokenizer cuts Chinese into words, which other programs cannot do",
            file=run.folder.path,
            remedy="train with --tokenizer bytepair, characters or wordpiece",
        )
    aside = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        specials = {role: (number, tokenizer.token(number)) for role, number in tokenizer.roles.items()}
        huggingface.write_folder(aside, run.facts["fields"], run.network.tensors(), specials)
        tokenizer.save(aside / "tokenizer.json")
        if target.is_dir():
            target.rmdir()
        aside.rename(target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _to_arpa(run: Run, target: Path) -> None:
    from forebear.interop import arpa

    tokenizer = run.tokenizer
    end = tokenizer.roles["end"]
    arpa.write(target, tokenizer.tokens(), *run.network.written(), end=end, unknown=tokenizer.unknown)
