"""Import and export of runs: Hugging Face, ELMo, ARPA and word vectors; import of OpenAI's GPT; export to ONNX."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from forebear.data.io.atomic import apply_umask, explain_disk_errors, new_folder
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.interop import elmo_hdf5, word_vectors
from forebear.interop.foreign_files import whitespace_tokenizer
from forebear.interop.hf_tasks import check_input_format, exported_task, imported_task
from forebear.interop.word_vectors import VectorFileOptions, export_vectors, import_vectors, vector_export_note
from forebear.registry import model_spec
from forebear.training.adaptation import Adaptation
from forebear.training.create_finished_run import create_run
from forebear.training.run_folder import RunFolder

if TYPE_CHECKING:
    from forebear.interop.exportable import ExportableRun
    from forebear.interop.huggingface import ImportedCheckpoint

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
MODEL_FILE_SUFFIXES = ".vec .txt .bin .arpa .safetensors .gz .zst .zip .npy .npz .tsv .hdf5".split()
ACCEPTED_SOURCES = "a folder of transformers or its name on the hub, of ELMo or GPT as published, "
ACCEPTED_SOURCES += "an ARPA file, or word vectors"
FOLDER_FORMATS = ("huggingface", "elmo")  # written as folders; an empty one may exist already
HUB_FILES = ["config.json", "*.safetensors", "*.safetensors.index.json"]
HUB_FILES += ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model"]


def import_model(
    source: str, to: str, *, heads: int | None = None, task: str | None = None, **vectors: Unpack[VectorFileOptions]
) -> RunFolder:
    """Import a published model as a run.

    Args:
        source: A Hugging Face folder or Hub name, a published ELMo or GPT, an ARPA file or a word-vector file.
        to: The run folder to create.
        heads: Number of attention heads, for GPT as published by OpenAI, whose files do not contain it.
        task: For a folder with a classifier: "classification" or "pairs"; "none" drops the task head.
        vectors: Options for word-vector files.
    """
    from forebear.interop import openai_gpt_weights

    path, target = Path(source), Path(to)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError("exists already", file=target, hint="choose another folder with --to")
    is_openai_or_recurrent = openai_gpt_weights.is_openai_gpt(path) or elmo_hdf5.is_elmo_or_lstm_npz(path)
    if task is not None and path.exists() and (path.is_file() or is_openai_or_recurrent):
        raise InputError("--task is for Hugging Face's folders; others have none", file=source, hint="leave it out")
    if path.exists() and openai_gpt_weights.is_openai_gpt(path):
        checkpoint = openai_gpt_weights.read_openai_gpt(path, heads)
        return _create_imported_run(target, checkpoint, _load_sibling_tokenizer(path), source, path)
    if heads is not None:
        message = "--heads is for OpenAI's own files of GPT; all others tell it"
        raise InputError(message, file=source, hint="leave it out")
    is_hub_name = HUB_NAME.fullmatch(source) and path.suffix.lower() not in MODEL_FILE_SUFFIXES
    if not path.exists() and ("form" in vectors or not is_hub_name):
        hint = f"check its name and place; give {ACCEPTED_SOURCES}"
        raise InputError("there is no such folder or file", file=source, hint=hint)
    if "form" not in vectors and elmo_hdf5.is_elmo_or_lstm_npz(path):
        _reject_vector_options(source, vectors)
        return elmo_hdf5.import_elmo_or_lstm_npz(path, target)
    file_format = vectors.get("form") or word_vectors.detect_vector_format(path)
    if file_format is not None:
        return import_vectors(path, target, **{**vectors, "form": file_format})
    head = word_vectors.reject_unsupported_vectors(path) if path.is_file() else b""
    _reject_vector_options(source, vectors)
    if path.is_file():
        return _import_arpa(path, target, head)
    if not path.is_dir():
        path = _download_from_hub(source)
    from forebear.interop import huggingface

    checkpoint = huggingface.read_huggingface(path, tasks=task != "none")
    return _create_imported_run(target, checkpoint, _load_folder_tokenizer(path), source, path, task)


def _reject_vector_options(source: str, options: VectorFileOptions) -> None:
    """Reject options for word vectors if the source is something else."""
    if unused := [name for name in ("limit", "on_bad_bytes") if name in options]:
        message = f"--{unused[0].replace('_', '-')} is for word vectors, and this is no file of them"
        raise InputError(message, file=source, hint="leave it out, or say with --format what the file is")


def _create_imported_run(
    target: Path, checkpoint: ImportedCheckpoint, tokenizer: Tokenizer, source: str, path: Path, task: str | None = None
) -> RunFolder:
    from forebear.interop import huggingface

    spec = model_spec(checkpoint.model)(**checkpoint.fields)
    tensors, notes = huggingface.trim_vocabulary(checkpoint.tensors, tokenizer.vocab_size, path)
    network, fine_tuning_task = spec.build(tokenizer), imported_task(checkpoint, task, path, notes)
    metadata: dict[str, Any] = {"heads": list(checkpoint.heads), "report": checkpoint.report.to_dict()}
    if fine_tuning_task is None:
        network = network.with_heads(checkpoint.heads)
    else:
        input_format, adaptation = spec.input_format(tokenizer), Adaptation(**checkpoint.adaptation)
        check_input_format(path, input_format, fine_tuning_task)
        network = adaptation.build_model(network, fine_tuning_task, input_format)
        metadata |= {"task": fine_tuning_task.to_dict(), "adaptation": adaptation.to_dict()}
    metadata |= {"imported": source, "notes": [*checkpoint.report.notes(), *notes]}
    network = network.load(tensors, file=str(path))
    return create_run(target, spec, checkpoint.model, tokenizer, network.tensors, metadata)


def _load_folder_tokenizer(folder: Path) -> Tokenizer:
    """The folder's tokenizer; tokenizer_config.json says how a bare vocab.txt normalizes text."""
    config: Any = None
    with contextlib.suppress(OSError, ValueError):
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    config = config if isinstance(config, dict) else {}
    lowercase = config.get("do_lower_case")
    tokenizer = Tokenizer.load(folder, lower=lowercase if isinstance(lowercase, bool) else None)
    if tokenizer.describe().get("source") == "vocab.txt":
        supported = {"tokenize_chinese_chars": (None, True), "strip_accents": (None, tokenizer.describe()["lower"])}
        for name, values in supported.items():
            if config.get(name) not in values:
                hint = "have a tokenizer.json written: AutoTokenizer.from_pretrained(OLD).save_pretrained(NEW)"
                message = f"{name} is {config[name]!r}, which a vocab.txt alone cannot be given here"
                raise InputError(message, file=folder / "tokenizer_config.json", hint=hint)
    return tokenizer


def _load_sibling_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer.json in the folder or next to the archive: OpenAI's vocabulary alone needs spaCy to split words."""
    file = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if not file.is_file():
        reason = "OpenAI's own vocabulary is for words that spaCy has cut, which is not done"
        hint = "put the tokenizer.json of openai-gpt there, as Hugging Face publishes it"
        raise InputError(f"there is no tokenizer.json; {reason}", file=file, hint=hint)
    return Tokenizer.load(file)


def _download_from_hub(name: str) -> Path:
    """The files of a model on the Hugging Face Hub, from its local cache if there is no network."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES))
    except Exception as error:  # the network library's errors differ by version and are not OSError
        message = f"neither a file nor a folder here, nor to be had from the hub ({type(error).__name__})"
        hint = f"check the name and the network; give {ACCEPTED_SOURCES}"
        raise InputError(message, file=name, hint=hint) from error


def _import_arpa(path: Path, target: Path, head: bytes) -> RunFolder:
    from forebear.interop import arpa

    first_text = head.decode(errors="replace").removeprefix("\ufeff")
    first_line = first_text.strip().split("\n", 1)[0].strip()
    if first_line != arpa.DATA_HEADER:
        message = f"neither word vectors nor an ARPA file: it begins with {first_line[:40]!r}"
        formats = ", ".join(word_vectors.VECTOR_FORMATS)
        hint = f"say with --format what vectors they are ({formats}); text is trained on with forebear pretrain"
        raise InputError(message, file=path, hint=hint)
    model = arpa.read_arpa(path)
    # If a word equals a marker, the word keeps its spelling and the marker is renamed.
    marker_by_escape = {arpa.escape_word(marker): marker for marker in arpa.ARPA_MARKERS}
    tokens = [marker_by_escape.get(word, word) for word in model.words]
    if tokens != model.words:
        for token_id, token in ((model.unk_id, "[UNK]"), (model.eos_id, "[SEP]")):
            while token in model.words:
                token = f"[{token}]"
            tokens[token_id] = token
    special_tokens = {"unknown": tokens[model.unk_id], "end": tokens[model.eos_id]}
    tokenizer = whitespace_tokenizer(tokens, special_tokens, path)
    spec = model_spec("ngram")(order=len(model.ngrams), smoothing="given", unit="sentence")  # pyright: ignore[reportCallIssue]
    network = spec.build(tokenizer)
    network.load_probabilities(model.ngrams, model.log_probs, model.backoffs)
    spaces_note = "words are what stands between spaces: write text for it as it was cut when it was counted"
    command = "(of a run of forebear's: tokenize --in TEXT --tokenizer RUN --spaced)"
    metadata = {"imported": str(path), "notes": [*model.notes, f"{spaces_note} {command}"]}
    return create_run(target, spec, "ngram", tokenizer, network.arrays, metadata)


def default_export_format(run: ExportableRun) -> str:
    """The format in which this run is exported unless another is requested; "" if it cannot be exported."""
    return next(iter(_exporters(run.folder)), "")


def export_run(run: ExportableRun, file_format: str, to: str) -> Path:
    """Export a run in another program's format; returns the path. Notes on what is missing are added to `run.notes`."""
    target, exporters = Path(to), _exporters(run.folder)
    run.folder.require_float_weights("quantised: other programs have their own small integers", "export")
    if file_format not in exporters:
        adapted = f" that was adapted to {run.task.name}" if run.task else ""
        message = f"a run of {run.metadata['milestone']}{adapted} cannot be written"
        message += f" as {file_format!r}" if file_format else " for others"
        hint = f"it can be written as: {', '.join(exporters)}" if exporters else _export_alternatives(run)
        raise InputError(message, hint=hint)
    if target.exists() and (file_format not in FOLDER_FORMATS or not target.is_dir() or any(target.iterdir())):
        raise InputError("exists already", file=target, hint="choose another place with --to")
    with explain_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        run.notes += exporters[file_format](run, target)
    return target


def _export_alternatives(run: ExportableRun) -> str:
    """A hint for a run that cannot be exported: export its parent, or use the run here."""
    from forebear.interop.hf_architectures import ARCHITECTURES

    parent, path = run.metadata.get("parent"), run.folder.path
    with contextlib.suppress(ForebearError):  # the parent may have been deleted
        if parent and _exporters(RunFolder.open(parent)):
            return f"export the run that it was adapted from: forebear export {parent} --to PLACE"
    alternative = f"use it here: forebear {', '.join(run.capabilities)}"
    if run.task is not None:
        alternative = f"have its answers in a file instead: forebear {run.task.verb} {path} --in FILE --out FILE"
    elif "next" in run.heads:
        alternative += "; or count n-grams of the same text, which others read: forebear pretrain ngram"
    exportable = f"ngram as arpa; {', '.join(ARCHITECTURES)} as huggingface and onnx; elmo as elmo; "
    exportable += f"vectors of words as {', '.join(word_vectors.VECTOR_FORMATS)}"
    return f"{alternative}. What can be exported: {exportable}"


def export_note(run: ExportableRun, file_format: str, to: str | Path) -> str:
    """A note to show before word vectors are exported, or ""."""
    return vector_export_note(run, file_format, Path(to)) if file_format in _exporters(run.folder) else ""


def _exporters(folder: RunFolder) -> dict[str, Callable[[ExportableRun, Path], list[str]]]:
    """The export functions for this run, by format; the first is its default. They return notes on the file."""
    from forebear.interop.hf_architectures import ARCHITECTURES

    name, spec, is_adapted = folder.metadata["milestone"], folder.spec, folder.task is not None
    exporters: dict[str, Callable[[ExportableRun, Path], list[str]]] = {}
    if name == "ngram" and not is_adapted:
        exporters["arpa"] = _export_arpa
    if name == "elmo" and not is_adapted:
        exporters["elmo"] = elmo_hdf5.export_elmo
    if name in ARCHITECTURES:
        exporters |= {"huggingface": _export_huggingface, "onnx": _export_onnx}
    has_vectors = spec.learning == "descending" or (spec.learning == "sweeping" and not is_adapted)
    if has_vectors and spec.learns_from == "text" and folder.tokenizer.kind == "words":
        formats = word_vectors.VECTOR_FORMATS
        exporters |= {file_format: partial(export_vectors, file_format=file_format) for file_format in formats}
    return exporters


def _export_huggingface(run: ExportableRun, target: Path) -> list[str]:
    from forebear.interop import huggingface

    tokenizer, model_name, fields = run.tokenizer, run.metadata["milestone"], run.metadata["fields"]
    if tokenizer.segmenter is not None:
        message = "its tokenizer cuts Chinese into words, which other programs cannot do"
        hint = "train with --tokenizer bytepair, characters or wordpiece"
        raise ForebearError(message, file=run.folder.path, hint=hint)
    task, task_notes = exported_task(run)
    roles = tokenizer.special_roles.items()
    special_tokens = {role: (token_id, tokenizer.id_to_token(token_id)) for role, token_id in roles}
    with new_folder(target) as folder:
        tensors = run.network.tensors()
        notes = huggingface.write_huggingface(folder, model_name, fields, tensors, special_tokens, task)
        for file in folder.glob("*.safetensors"):
            apply_umask(file)
        tokenizer.save(folder / "tokenizer.json")
        tokenizer_json = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        huggingface.write_tokenizer(
            folder, model_name, tokenizer_json, special_tokens, fields["context"], add_special=task is not None
        )
    return notes + task_notes


def _export_onnx(run: ExportableRun, target: Path) -> list[str]:
    from forebear.interop.onnx import export_onnx

    return export_onnx(run, target)


def _export_arpa(run: ExportableRun, target: Path) -> list[str]:
    import numpy as np

    from forebear.interop import arpa

    tokenizer = run.tokenizer
    eos_id, words = tokenizer.special_roles["end"], tokenizer.vocabulary()
    ngrams, log_probs, backoffs = run.network.to_arpa()
    arpa.write_arpa(target, words, ngrams, log_probs, backoffs, eos_id=eos_id, unk_id=tokenizer.unk_id)
    notes = []
    if any(np.isneginf(values).any() for values in (*log_probs, *backoffs)):
        value = f"log10 P = {arpa.LOG10_ZERO:g}, as SRILM does"
        readers = "forebear import reads it so, KenLM takes it for a very small probability"
        notes.append(f"what is impossible to the run is written as {value}: {readers}")
    # Ordinary words that other programs would mistake for markers.
    ordinary_words = {word for token_id, word in enumerate(words) if token_id not in tokenizer.special_ids}
    return notes + [
        f"the word {word} is written as {arpa.escape_word(word)}: other programs take {word} for a mark of their own, "
        "so write it otherwise in text for them"
        for word in sorted(ordinary_words.intersection(arpa.ARPA_MARKERS))
    ]
