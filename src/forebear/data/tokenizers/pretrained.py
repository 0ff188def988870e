"""Loaders of published tokenizers: any tokenizer.json, BERT's and ERNIE's vocab.txt, GPT-2's pair of files."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from forebear.data.tokenizers import bpe, wordpiece
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import SPECIAL_TOKEN_NAMES, TokenizerSpec, rust_tokenizer
from forebear.errors import InputError

GPT2_FILE_PAIRS = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
ACCEPTED_HINT = (
    "accepted are tokenizer.json, BERT's vocab.txt (a token a line), ERNIE's vocab.txt (token, tab, id), GPT-2's "
    "encoder.json + vocab.bpe or vocab.json + merges.txt, and a folder that has one of these"
)
FETCH_AGAIN = "take the file from its publisher again"
DEFAULT_PARTS = {"added_tokens": [], "normalizer": None, "pre_tokenizer": None}
IGNORED_PARTS = {"truncation": None, "padding": None, "post_processor": None}  # irrelevant to plain text
GPT_END_TOKEN = "\n</w>"  # the only end-of-text token of GPT (2018)
KIND_BY_MODEL_TYPE = {"WordPiece": "wordpiece", "BPE": "bytepair", "WordLevel": "words", "Unigram": "unigram"}


def load_tokenizer(path: str | os.PathLike[str], *, lower: bool | None = None) -> Tokenizer:
    """See `Tokenizer.load`."""
    file = _find_file(Path(path))
    if (pair := _gpt2_pair(file)) is not None:
        return Tokenizer(_gpt2_spec(*pair), file=file)
    text = _read_text(file)
    if file.suffix == ".json":
        return _from_json(_parse_json(file, text), file)
    return Tokenizer(_bert_spec(file, text, lower), file=file)


def _find_file(path: Path) -> Path:
    """The file to read for a path, which may be a folder."""
    if not path.is_dir():
        if not path.exists():
            raise InputError("there is no such file", file=path, hint=ACCEPTED_HINT)
        return path
    for name in ("tokenizer.json", "vocab.txt", *(first for first, _ in GPT2_FILE_PAIRS)):
        if (path / name).is_file():
            return path / name
    if sentencepiece_files := [*path.glob("*.model"), *path.glob("*.vocab")]:
        message = f"{sentencepiece_files[0].name} is SentencePiece's, which is not read, and there is no tokenizer.json"
        hint = "have it written where transformers is: AutoTokenizer.from_pretrained(OLD).save_pretrained(NEW)"
        raise InputError(message, file=path, hint=hint)
    raise InputError("the folder has no tokenizer", file=path, hint=ACCEPTED_HINT)


def _gpt2_pair(file: Path) -> tuple[Path, Path] | None:
    """Both files of GPT-2 if this is one of them."""
    for first, second in GPT2_FILE_PAIRS:
        if file.name in (first, second):
            pair = file.with_name(first), file.with_name(second)
            for path in pair:
                if not path.is_file():
                    raise InputError(f"{file.name} needs {path.name} beside it", file=path, hint=ACCEPTED_HINT)
            return pair
    return None


def _read_text(file: Path) -> str:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file, hint="check the path and its rights") from None
    if not content.strip():
        raise InputError("the file is empty", file=file, hint="take it from its publisher again")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = "not a text file in UTF-8, so no vocabulary (a pickle or a SentencePiece .model is not read)"
        raise InputError(message, file=file, byte=error.start, hint=ACCEPTED_HINT) from None
    if "\0" in text:
        raise InputError("not a text file, so no vocabulary", file=file, byte=content.index(0), hint=ACCEPTED_HINT)
    return text


def _parse_json(file: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=file, line=error.lineno, hint=ACCEPTED_HINT) from None
    except RecursionError:
        raise InputError("not a tokenizer: JSON nested too deeply", file=file, hint=ACCEPTED_HINT) from None


# -- tokenizer.json


def _from_json(spec: Any, file: Path) -> Tokenizer:
    """A tokenizer.json of forebear, or of another library, whose kind and special tokens are inferred."""
    model = spec.get("model") if isinstance(spec, dict) else None
    if not isinstance(model, dict) or "vocab" not in model:
        raise InputError("JSON, but not a tokenizer.json", file=file, hint=ACCEPTED_HINT)
    spec = spec | {name: spec.get(name, default) for name, default in DEFAULT_PARTS.items()} | IGNORED_PARTS
    model = spec["model"] = {"type": _infer_model_type(model), **model}
    try:
        if not isinstance(model.get("forebear"), dict):
            spec["model"] = {**model, "forebear": _infer_metadata(spec, file)}
        rust_tokenizer(spec, specials=False)  # the library checks the whole file
        tokenizer = Tokenizer(spec, file=file)
        if any(not isinstance(i, int) or not 0 <= i < tokenizer.vocab_size for i in tokenizer.special_roles.values()):
            message = f"its roles name ids outside 0 to {tokenizer.vocab_size - 1}"
            raise InputError(message, file=file, hint=FETCH_AGAIN)
        tokenizer.encode_many(["a 中 !"])
        tokenizer.decode(tokenizer.encode("a 中 !").ids)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception, an invalid file any error
        message = f"a tokenizer.json that cannot be used: {type(error).__name__}: {error}"
        raise InputError(message, file=file, hint=FETCH_AGAIN) from None
    return tokenizer


def _infer_model_type(model: dict[str, Any]) -> str:
    """Infer the model type of old files from its other keys."""
    if "merges" in model:
        return "BPE"
    if isinstance(model["vocab"], list):
        return "Unigram"
    return "WordPiece" if "continuing_subword_prefix" in model or "max_input_chars_per_word" in model else "WordLevel"


def _infer_metadata(spec: TokenizerSpec, file: Path) -> dict[str, Any]:
    model = spec["model"]
    kind = KIND_BY_MODEL_TYPE.get(model["type"])
    if kind is None:
        raise InputError(f"a tokenizer of unknown type {model.get('type')!r}", file=file, hint=FETCH_AGAIN)
    if kind == "bytepair" and "ByteLevel" not in json.dumps([spec["pre_tokenizer"], spec["normalizer"]]):
        kind = "merges"  # BPE over characters, as in SentencePiece: encodes and decodes, but is not GPT-2's
    vocabulary = model["vocab"]
    ids = dict(vocabulary) if isinstance(vocabulary, dict) else {row[0]: i for i, row in enumerate(vocabulary)}
    ids |= {token["content"]: token["id"] for token in spec["added_tokens"]}
    roles = {role: ids[token] for role, token in _special_roles(ids).items()}
    if kind == "merges" and GPT_END_TOKEN in ids:
        roles.setdefault("end", ids[GPT_END_TOKEN])
    return {"kind": kind, "roles": roles, "source": file.name}


def _special_roles(tokens: Any) -> dict[str, str]:
    """Role → token, for the known special-token names in the vocabulary."""
    known_names = {role: [name for name in names if name in tokens] for role, names in SPECIAL_TOKEN_NAMES.items()}
    return {role: names[0] for role, names in known_names.items() if names}


# -- BERT and ERNIE


def _bert_spec(file: Path, text: str, lower: bool | None) -> TokenizerSpec:
    # Split at \n only: BERT's Chinese vocabulary has U+2028, a line break for str.splitlines, as a token.
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines]
    tokens = _ernie_tokens(file, lines) if "\t" in lines[0] else lines
    line_by_token: dict[str, int] = {}
    for number, token in enumerate(tokens, 1):
        if token in line_by_token:
            message = f"the token {token!r} stands twice, first as number {line_by_token[token]}"
            raise InputError(message, file=file, line=number, hint="take the vocabulary from its publisher again")
        line_by_token[token] = number
    roles = _special_roles(line_by_token)
    if "unknown" not in roles:
        message = "no token for unknown words ([UNK]), so no BERT vocabulary"
        raise InputError(message, file=file, hint=f"add a line [UNK], or give another file: {ACCEPTED_HINT}")
    is_guessed = lower is None
    lower = not any(_has_capital(token) for token in tokens) if lower is None else lower
    metadata = {"source": file.name, "lower_guessed": is_guessed}
    return wordpiece.wordpiece_spec(tokens, specials=roles, lower=lower, metadata=metadata)


def _ernie_tokens(file: Path, lines: list[str]) -> list[str]:
    """Tokens in id order of lines `token <tab> id`."""
    tokens: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        token, tab, digits = line.rpartition("\t")
        if not tab or not re.fullmatch("[0-9]{1,9}", digits):
            message = f"{line[:40]!r} is not `token <tab> id` as the first line is"
            raise InputError(message, file=file, line=number, hint="take the vocabulary from its publisher again")
        if int(digits) in tokens:
            message = f"id {digits} is given twice, to {tokens[int(digits)]!r} and {token!r}"
            raise InputError(message, file=file, line=number, hint="take the vocabulary from its publisher again")
        tokens[int(digits)] = token
    for expected in range(len(tokens)):
        if expected not in tokens:
            message = f"no token has id {expected}; ids must be 0, 1, 2, … without holes"
            raise InputError(message, file=file, hint="take the vocabulary from its publisher again")
    return [tokens[i] for i in range(len(tokens))]


def _has_capital(token: str) -> bool:
    """Whether a token other than special ones ([CLS], <S>) has a capital letter."""
    is_special = len(token) > 2 and (token[0], token[-1]) in (("[", "]"), ("<", ">"))
    return not is_special and any("A" <= character <= "Z" for character in token)


# -- GPT-2


def _gpt2_spec(encoder: Path, merges_file: Path) -> TokenizerSpec:
    vocabulary = _parse_json(encoder, _read_text(encoder))
    if not isinstance(vocabulary, dict) or not all(type(i) is int for i in vocabulary.values()):
        raise InputError("not a vocabulary: wanted one object of token: id", file=encoder, hint=ACCEPTED_HINT)
    merges = []
    for number, line in enumerate(_read_text(merges_file).split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(part in vocabulary for part in (*parts, "".join(parts))):
            message = f"{line[:40]!r} is not a merge of two tokens of {encoder.name} into a third"
            hint = "the two files belong together: take both from the same publisher"
            raise InputError(message, file=merges_file, line=number, hint=hint)
        merges.append(parts)
    from tokenizers import pre_tokenizers

    missing = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(vocabulary))
    if missing and any(token.endswith("</w>") for token in vocabulary):
        message = "its pieces end words with </w>, as in GPT of 2018, whose words spaCy has cut: that is not done here"
        hint = "give the tokenizer.json of openai-gpt: AutoTokenizer.from_pretrained(OLD).save_pretrained(NEW)"
        raise InputError(message, file=encoder, hint=hint)
    if missing:
        message = f"no byte-level vocabulary: {len(missing)} of the 256 bytes are missing, such as {missing[0]!r}"
        raise InputError(message, file=encoder, hint=ACCEPTED_HINT)
    spec = bpe.bpe_spec(vocabulary, merges, specials=_special_roles(vocabulary), metadata={"source": encoder.name})
    for token in spec["added_tokens"]:
        token["lstrip"] = token["content"] == "<mask>"  # RoBERTa's mask includes the space before it
    return spec
