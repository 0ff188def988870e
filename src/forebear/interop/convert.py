"""Runs to and from other programs: Hugging Face, ELMo, ARPA and word vectors both ways, OpenAI's GPT in, ONNX out."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from forebear.data.io.atomic import explain_disk_errors, share_permissions
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.run import Run
from forebear.interop import elmo_hdf5 as recurrent
from forebear.interop import word_vectors
from forebear.interop.hf_tasks import add_task_heads, exported_task, imported_task
from forebear.interop.word_vectors import VectorFileOptions, export_vectors, import_vectors, vector_export_note
from forebear.registry import model_spec
from forebear.training.create_run import create_run
from forebear.training.run_folder import RunFolder

if TYPE_CHECKING:
    from forebear.interop.arpa import ArpaModel
    from forebear.interop.huggingface import ForeignCheckpoint

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
OF_FILES = (".vec", ".txt", ".bin", ".arpa", ".safetensors", ".gz", ".zst", ".zip", ".npy", ".npz", ".tsv", ".hdf5")
TAKEN = "a folder of transformers or its name on the hub, of ELMo or GPT as published, an ARPA file, or word vectors"
FOLDERS = ("huggingface", "elmo")  # forms that are folders, and may fill an empty one
HUB_FILES = ["config.json", "*.safetensors", "*.safetensors.index.json"]
HUB_FILES += ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model"]


def import_model(
    source: str, to: str, *, heads: int | None = None, task: str | None = None, **vectors: Unpack[VectorFileOptions]
) -> RunFolder:
    """A run from a Hugging Face folder or name, from ELMo or GPT as published, from an ARPA file or from word vectors.

    heads    how many the attention has, where the files do not tell
    task     of a folder with a classifier: "classification" or "pairs", which it does not tell; "none": without the
             head for its task, whatever that is
    vectors  what is asked of a file of word vectors
    """
    from forebear.interop import openai_gpt

    path, target = Path(source), Path(to)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError("exists already", file=target, hint="choose another folder with --to")
    others = openai_gpt.is_openai_gpt(path) or recurrent.is_foreign_recurrent(path)
    if task is not None and path.exists() and (path.is_file() or others):
        raise InputError("--task is for Hugging Face's folders; others have none", file=source, hint="leave it out")
    if path.exists() and openai_gpt.is_openai_gpt(path):
        return _from_found(target, openai_gpt.read_openai_gpt(path, heads), _beside(path), source, path)
    if heads is not None:
        raise InputError(
            "--heads is for OpenAI's own files of GPT; all others tell it", file=source, hint="leave it out"
        )
    if not path.exists() and (path.suffix.lower() in OF_FILES or not HUB_NAME.fullmatch(source) or "form" in vectors):
        raise InputError("there is no such folder or file", file=source, hint=f"check its name and place; give {TAKEN}")
    if "form" not in vectors and recurrent.is_foreign_recurrent(path):
        _no_vectors(source, vectors)
        return recurrent.import_recurrent(path, target)
    form = vectors.get("form") or word_vectors.detect_vector_format(path)
    if form is not None:
        return import_vectors(path, target, **{**vectors, "form": form})
    begin = word_vectors.reject_unsupported_vectors(path) if path.is_file() else b""
    _no_vectors(source, vectors)
    if path.is_file():
        return _from_arpa(path, target, begin)
    if not path.is_dir():
        path = _fetched(source)
    from forebear.interop import huggingface

    found = huggingface.read_huggingface(path, tasks=task != "none")
    return _from_found(target, found, _tokenizer_of(path), source, path, task)


def _no_vectors(source: str, asked: VectorFileOptions) -> None:
    """An error where something was asked of word vectors, and there are none."""
    if odd := [name for name in ("limit", "on_bad_bytes") if name in asked]:
        what = f"--{odd[0].replace('_', '-')} is for word vectors, and this is no file of them"
        raise InputError(what, file=source, hint="leave it out, or say with --format what the file is")


def _from_found(
    target: Path, found: ForeignCheckpoint, tokenizer: Tokenizer, source: str, path: Path, wanted: str | None = None
) -> RunFolder:
    from forebear.interop import huggingface

    milestone = model_spec(found.model)(**found.fields)
    tensors, notes = huggingface.trim_vocabulary(found.tensors, tokenizer.vocab_size, path)
    task = imported_task(found, wanted, path, notes)
    network, told = milestone.build(tokenizer), {"heads": list(found.heads), "report": found.report.to_dict()}
    if task is None:
        network = network.with_heads(found.heads)
    else:
        network, more = add_task_heads(network, task, found, milestone.input_format(tokenizer), path)
        told |= more
    network = network.load(tensors, file=str(path))

    def write(file: Path) -> None:
        from safetensors.torch import save_file

        save_file(network.tensors(), file)

    notes = [*found.report.notes(), *notes]
    told |= {"imported": source, "notes": notes}
    return create_run(target, milestone, found.model, tokenizer, write, told)


def _tokenizer_of(folder: Path) -> Tokenizer:
    """The folder's tokenizer. How text is prepared for a bare vocabulary stands beside it."""
    told: Any = None
    with contextlib.suppress(OSError, ValueError):
        told = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    told = told if isinstance(told, dict) else {}
    lower = told.get("do_lower_case") if isinstance(told.get("do_lower_case"), bool) else None
    tokenizer = Tokenizer.load(folder, lower=lower)
    if tokenizer.describe().get("source") == "vocab.txt":
        odd = {"tokenize_chinese_chars": (None, True), "strip_accents": (None, tokenizer.describe()["lower"])}
        for name, usual in odd.items():
            if told.get(name) not in usual:
                hint = "have a tokenizer.json written: AutoTokenizer.from_pretrained(OLD).save_pretrained(NEW)"
                what = f"{name} is {told[name]!r}, which a vocab.txt alone cannot be given here"
                raise InputError(what, file=folder / "tokenizer_config.json", hint=hint)
    return tokenizer


def _beside(path: Path) -> Tokenizer:
    """The tokenizer.json in the folder, or beside the archive: OpenAI's own vocabulary needs spaCy to cut words."""
    file = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if not file.is_file():
        what = "there is no tokenizer.json; OpenAI's own vocabulary is for words that spaCy has cut, which is not done"
        hint = "put the tokenizer.json of openai-gpt there, as Hugging Face publishes it"
        raise InputError(what, file=file, hint=hint)
    return Tokenizer.load(file)


def _fetched(name: str) -> Path:
    """The files of a model on the Hugging Face hub, or of one that was fetched before where there is no network."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES))
    except Exception as error:  # each version has errors of its network library, which are no OSError
        raise InputError(
            f"neither a file nor a folder here, nor to be had from the hub ({type(error).__name__})",
            file=name,
            hint=f"check the name and the network; give {TAKEN}",
        ) from error


def _from_arpa(path: Path, target: Path, begin: bytes) -> RunFolder:
    from forebear.data.tokenizers import word_level
    from forebear.interop import arpa

    text = begin.decode(errors="replace").removeprefix("\ufeff")
    first = text.strip().split("\n", 1)[0].strip()
    if first != arpa.DATA:
        what = f"neither word vectors nor an ARPA file: it begins with {first[:40]!r}"
        forms = ", ".join(word_vectors.VECTOR_FORMATS)
        hint = f"say with --format what vectors they are ({forms}); text is trained on with forebear pretrain"
        raise InputError(what, file=path, hint=hint)
    read = arpa.read_arpa(path)
    names = _spelled(read)
    specials = {"unknown": names[read.unk_id], "end": names[read.eos_id]}
    blueprint = word_level.word_tokenizer_spec(
        names, specials=specials, normalise=(), split="spaces", segmenter=None, facts={"source": path.name}
    )
    tokenizer = Tokenizer(blueprint, file=path)
    milestone = model_spec("ngram")(order=len(read.ngrams), smoothing="given", unit="sentence")  # pyright: ignore[reportCallIssue]
    network = milestone.build(tokenizer)
    network.give(read.ngrams, read.log_probs, read.backoffs)

    def write(file: Path) -> None:
        from safetensors.numpy import save_file

        save_file(network.arrays(), file)

    spaces = "words are what stands between spaces: write text for it as it was cut when it was counted (of a run of "
    spaces += "forebear's: tokenize --in TEXT --tokenizer RUN --spaced)"
    return create_run(
        target, milestone, "ngram", tokenizer, write, {"imported": str(path), "notes": [*read.notes, spaces]}
    )


def _spelled(read: ArpaModel) -> list[str]:
    """The words of a file; where one of them looks like a mark, it has that name, and the mark another."""
    from forebear.interop import arpa

    marks = {arpa.escape_word(mark): mark for mark in arpa.ARPA_MARKERS}
    if not marks.keys() & set(read.words):
        return read.words
    names = [marks.get(word, word) for word in read.words]
    for place, name in ((read.unk_id, "[UNK]"), (read.eos_id, "[SEP]")):
        while name in read.words:
            name = f"[{name}]"
        names[place] = name
    return names


def default_export_format(run: Run) -> str:
    """How this run is written for others, where nothing else is asked."""
    name = run.metadata["milestone"]
    return next((form for milestone, form in _ways(run) if milestone == name), "")


def export_run(run: Run, form: str, to: str) -> Path:
    """Writes a run as files of another program; returns where. What had to be left out is in the run's notes."""
    name, target, ways = run.metadata["milestone"], Path(to), _ways(run)
    run.folder.require_float_weights("quantised: other programs have their own small integers", "export")
    if (name, form) not in ways:
        offered = ", ".join(other for milestone, other in ways if milestone == name)
        what = f"a run of {name}" + (f" that was adapted to {run.task.name}" if run.task else "")
        hint = f"it can be written as: {offered}" if offered else _instead(run)
        raise InputError(f"{what} cannot be written" + (f" as {form!r}" if form else " for others"), hint=hint)
    if target.exists() and (form not in FOLDERS or not target.is_dir() or any(target.iterdir())):
        raise InputError("exists already", file=target, hint="choose another place with --to")
    with explain_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        ways[name, form](run, target)
    return target


def _instead(run: Run) -> str:
    """What to do with a run that no other program reads: export the one it began with, or use it here."""
    from forebear.interop.tensor_names import FAMILIES

    parent, place, forms = run.metadata.get("parent"), run.folder.path, ", ".join(word_vectors.VECTOR_FORMATS)
    with contextlib.suppress(ForebearError):  # it may be gone
        if parent and default_export_format(Run.open(parent)):
            return f"export the run that it was adapted from: forebear export {parent} --to PLACE"
    here = f"use it here: forebear {', '.join(run.capabilities)}"
    if run.task is not None:
        here = f"have its answers in a file instead: forebear {run.task.verb} {place} --in FILE --out FILE"
    elif "next" in run.heads:
        here += "; or count n-grams of the same text, which others read: forebear pretrain ngram"
    others = f"ngram as arpa; {', '.join(FAMILIES)} as huggingface and onnx; elmo as elmo; vectors of words as {forms}"
    return f"{here}. What can be exported: {others}"


def export_note(run: Run, form: str, to: str | Path) -> str:
    """What a person should know before a run's words are written, where that is so."""
    return vector_export_note(run, form, Path(to)) if (run.metadata["milestone"], form) in _ways(run) else ""


def _ways(run: Run) -> dict[tuple[str, str], Callable[[Run, Path], None]]:
    """By milestone and form."""
    from forebear.interop.tensor_names import FAMILIES

    counted = {("ngram", "arpa"): _to_arpa} if run.task is None else {}
    descended = {(name, "huggingface"): _to_huggingface for name in FAMILIES}
    read_both_ways = {("elmo", "elmo"): _to_elmo} if run.task is None else {}
    spoken = {
        (run.metadata["milestone"], form): partial(_to_vectors, form)
        for form in word_vectors.VECTOR_FORMATS
        if _has_words(run)
    }
    return counted | descended | read_both_ways | {(name, "onnx"): _to_onnx for name in FAMILIES} | spoken


def _has_words(run: Run) -> bool:
    """Whether it has a vector for each word: it learns them, and its tokens are words."""
    milestone = run.folder.spec
    if milestone.learns_from != "text" or run.tokenizer.kind != "words":
        return False
    return milestone.learning == "descending" or (milestone.learning == "sweeping" and run.task is None)


def _to_huggingface(run: Run, target: Path) -> None:
    from forebear.interop import huggingface
    from forebear.interop.huggingface import write_tokenizer

    tokenizer, name, fields = run.tokenizer, run.metadata["milestone"], run.metadata["fields"]
    if tokenizer.segmenter is not None:
        raise ForebearError(
            "its tokenizer cuts Chinese into words, which other programs cannot do",
            file=run.folder.path,
            hint="train with --tokenizer bytepair, characters or wordpiece",
        )
    task, remarks = exported_task(run)
    aside = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        specials = {role: (number, tokenizer.id_to_token(number)) for role, number in tokenizer.special_roles.items()}
        tensors = run.network.tensors()
        run.notes += huggingface.write_huggingface(aside, name, fields, tensors, specials, task) + remarks
        for file in aside.glob("*.safetensors"):
            share_permissions(file)
        tokenizer.save(aside / "tokenizer.json")
        blueprint = json.loads((aside / "tokenizer.json").read_text(encoding="utf-8"))
        write_tokenizer(aside, name, blueprint, specials, fields["context"], marked=task is not None)
        if target.is_dir():
            target.rmdir()
        aside.rename(target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _to_elmo(run: Run, target: Path) -> None:
    run.notes += recurrent.export_elmo(run, target)


def _to_onnx(run: Run, target: Path) -> None:
    from forebear.interop.onnx import export_onnx, onnx_notes

    apart = export_onnx(run, target)
    run.notes += onnx_notes(run)
    run.notes.append(f"ONNX Runtime's answers differ by {apart:.1e} at most from the run's, for batches of five shapes")


def _to_vectors(form: str, run: Run, target: Path) -> None:
    run.notes += export_vectors(run, form, target)


def _like_marks(tokenizer: Tokenizer) -> set[str]:
    """Words of a text that readers of ARPA files take for marks."""
    from forebear.interop import arpa

    return {
        word
        for i, word in enumerate(tokenizer.vocabulary())
        if word in arpa.ARPA_MARKERS and i not in tokenizer.special_ids
    }


def _to_arpa(run: Run, target: Path) -> None:
    import numpy as np

    from forebear.interop import arpa

    tokenizer = run.tokenizer
    end = tokenizer.special_roles["end"]
    ngrams, logs, backoffs = run.network.to_foreign()
    arpa.write_arpa(target, tokenizer.vocabulary(), ngrams, logs, backoffs, end=end, unknown=tokenizer.unk_id)
    if any(np.isneginf(values).any() for values in (*logs, *backoffs)):
        told = f"what is impossible to the run is written as log10 P = {arpa.LOG_ZERO:g}, as SRILM does"
        run.notes.append(f"{told}: forebear import reads it so, KenLM takes it for a very small probability")
    for word in sorted(_like_marks(tokenizer)):
        told = f"the word {word} is written as {arpa.escape_word(word)}: other programs take {word} for a mark of their own"
        run.notes.append(f"{told}, so write it otherwise in text for them")
