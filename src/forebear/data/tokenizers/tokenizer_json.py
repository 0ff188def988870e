"""Tokenizer specifications: tokenizer.json as a dictionary, in Hugging Face's format with additional metadata."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, Unpack

from forebear._version import __version__
from forebear.errors import InputError

if TYPE_CHECKING:
    import tokenizers

TokenizerSpec = dict[str, Any]


class SpecSettings(TypedDict):
    """Settings of every specification: special tokens by role, all in the vocabulary; normalization; metadata."""

    specials: Mapping[str, str]
    normalise: NotRequired[Sequence[str]]
    metadata: Mapping[str, Any]


# The roles of special tokens, and their names in published vocabularies.
SPECIAL_TOKEN_NAMES: dict[str, tuple[str, ...]] = {
    "padding": ("[PAD]", "<pad>"),
    "unknown": ("[UNK]", "<unk>"),
    "start": ("[CLS]", "<s>", "<|endoftext|>"),
    "end": ("[SEP]", "</s>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
}
BERT_SPECIALS = {role: names[0] for role, names in SPECIAL_TOKEN_NAMES.items()}  # ids 0 to 4 in this order
GPT2_SPECIALS = {"start": "<|endoftext|>", "end": "<|endoftext|>"}
# Ids 0 to 4 again.
ROBERTA_SPECIALS = {role: SPECIAL_TOKEN_NAMES[role][1] for role in ("start", "padding", "end", "unknown", "mask")}

DIGEST_KEYS = ("kind", "roles", "segmenter")  # of the metadata; the other keys are only descriptive
NORMALIZE_STEPS = ("nfkc", "lower", "accents")
SEPARATOR = "\x1f"  # Unicode's "unit separator": marks word boundaries in texts for the Rust library
VOCAB_PLACEHOLDER = f"{SEPARATOR} the vocabulary {SEPARATOR}"  # placeholder of the vocabulary in the JSON template
HIDDEN_PREFIX = SEPARATOR + " "  # no pre-tokenizer yields a piece with these two characters
# Kinds whose models need an unknown token, with the error message.
UNKNOWN_TOKEN_NEEDED = {
    "words": "a word vocabulary needs a token for unknown words",
    "characters": "characters need a token for unknown ones",
    "wordpiece": "a WordPiece vocabulary needs a token for unknown words",
}


def build_tokenizer_spec(
    model: dict[str, Any],
    *,
    kind: str,
    normalizer: dict[str, Any] | None = None,
    pre_tokenizer: dict[str, Any] | None,
    decoder: dict[str, Any] | None,
    **settings: Unpack[SpecSettings],
) -> TokenizerSpec:
    """A complete specification; by default, `normalizer` is built from the normalization steps."""
    specials, normalise = settings["specials"], settings.get("normalise", ())
    if kind in UNKNOWN_TOKEN_NEEDED and "unknown" not in specials:
        raise InputError(UNKNOWN_TOKEN_NEEDED[kind], hint="give `specials` the role 'unknown'")
    vocabulary = model["vocab"]
    roles = {role: vocabulary[token] for role, token in specials.items()}
    # In byte-level BPE a space belongs to the next token.
    mask_token = specials.get("mask") if kind == "bytepair" else None
    added = [
        {"id": i, "content": token, "single_word": False, "lstrip": token == mask_token, "rstrip": False}
        | {"normalized": False, "special": True}
        for i, token in sorted({(vocabulary[token], token) for token in specials.values()})
    ]
    identity = {"kind": kind, "roles": roles, "version": __version__, "normalise": list(normalise)}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": normalizer or make_normalizer(normalise), "pre_tokenizer": pre_tokenizer,
        "post_processor": None, "decoder": decoder,
        "model": {**model, "forebear": {**identity, **settings["metadata"]}},
    }  # fmt: skip


def bpe_model(
    vocabulary: Mapping[str, int], merges: Sequence[Sequence[str]], *, unk_token: str | None, no_affix: str | None
) -> dict[str, Any]:
    """A BPE model; `no_affix` ("" or None) is written for both unused affixes."""
    return {
        "type": "BPE", "dropout": None, "unk_token": unk_token,
        "continuing_subword_prefix": no_affix, "end_of_word_suffix": no_affix,
        "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
        "vocab": vocabulary, "merges": [list(pair) for pair in merges],
    }  # fmt: skip


def make_normalizer(steps: Sequence[str]) -> dict[str, Any] | None:
    """A normalizer with the named steps in order, or None; `accents` strips combining marks."""
    definitions: dict[str, list[dict[str, Any]]] = {
        "nfkc": [{"type": "NFKC"}],
        "lower": [{"type": "Lowercase"}],
        "accents": [bert_normalizer(lower=False, accents=True, basic=False), {"type": "NFC"}],
    }
    if unknown := [step for step in steps if step not in definitions]:
        hint = f"the steps are: {', '.join(NORMALIZE_STEPS)}"
        raise InputError(f"no normalisation step named {unknown[0]!r}", hint=hint)
    normalizers = [definition for step in steps for definition in definitions[step]]
    if len(normalizers) > 1:
        return {"type": "Sequence", "normalizers": normalizers}
    return normalizers[0] if normalizers else None


def bert_normalizer(*, lower: bool, accents: bool | None = None, basic: bool = True) -> dict[str, Any]:
    """BERT's normalizer: clean controls and split Han (`basic`), strip accents (None: only if lowercasing), lower."""
    cleaning = {"clean_text": basic, "handle_chinese_chars": basic}
    return {"type": "BertNormalizer", **cleaning, "strip_accents": accents, "lowercase": lower}


def preprocessing_steps(
    normalizer: dict[str, Any] | None, pre_tokenizer: dict[str, Any] | None
) -> tuple[Callable[[str], str], Callable[[str], list[str]]]:
    """Two functions of the Rust library: normalize a text, and split a text into pretokens."""
    empty_parts = {"added_tokens": [], "decoder": None, "model": {"type": "BPE", "vocab": {}, "merges": []}}
    spec = {"version": "1.0", "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, **empty_parts}
    tokenizer = rust_tokenizer(spec, specials=True)

    def normalize(text: str) -> str:
        return tokenizer.normalizer.normalize_str(text) if normalizer is not None else text

    def pretokenize(text: str) -> list[str]:
        return [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalize(text))]

    return normalize, pretokenize


def rust_tokenizer(spec: TokenizerSpec, *, specials: bool) -> tokenizers.Tokenizer:
    """The Rust tokenizer of a specification; without `specials`, no text can become a special token.

    The library's switch (`encode_special_tokens`) is state of the object and only stops the search for special tokens:
    a whitespace tokenizer would still find the word "[MASK]" in its vocabulary. So without `specials` these tokens are
    renamed to strings that no text can contain.
    """
    import tokenizers

    backend_spec = {**spec, "truncation": None, "padding": None, "post_processor": None}
    if not specials:
        backend_spec = _hide_special_tokens(backend_spec)
    backend = tokenizers.Tokenizer.from_str(json.dumps(backend_spec, ensure_ascii=False))
    backend.encode_special_tokens = not specials
    return backend


def _hide_special_tokens(spec: TokenizerSpec) -> TokenizerSpec:
    """Rename special tokens to strings that no text can contain."""
    model = spec["model"]
    hidden = {token["content"] for token in spec["added_tokens"] if token["special"]}
    if isinstance(model.get("unk_token"), str):
        hidden.add(model["unk_token"])
    if not isinstance(model["vocab"], dict) or model.get("merges"):
        return spec  # merges cannot yield a special token, and must not be renamed

    def hidden_name(token: str) -> str:
        return HIDDEN_PREFIX + token if token in hidden else token

    model = {**model, "vocab": {hidden_name(token): i for token, i in model["vocab"].items()}}
    if isinstance(model.get("unk_token"), str):
        model["unk_token"] = hidden_name(model["unk_token"])
    added = [{**token, "content": hidden_name(token["content"])} for token in spec["added_tokens"]]
    return {**spec, "model": model, "added_tokens": added}


def spec_tokens(spec: TokenizerSpec, file: str | os.PathLike[str] | None = None) -> list[str]:
    """All tokens in id order; ids must be 0, 1, 2, … without holes."""
    vocabulary, added = spec["model"]["vocab"], [(token["content"], token["id"]) for token in spec["added_tokens"]]
    if not isinstance(vocabulary, dict):
        pairs = [(row[0], i) for i, row in enumerate(vocabulary)]
    elif dict(added).keys() <= vocabulary.keys() and list(vocabulary.values()) == list(range(len(vocabulary))):
        return list(vocabulary)  # as `build_tokenizer_spec` orders it
    else:
        pairs = list(vocabulary.items())
    vocab_tokens = {token for token, _ in pairs}
    pairs += [(token, i) for token, i in added if token not in vocab_tokens]
    pairs.sort(key=lambda pair: pair[1])
    for expected, (token, i) in enumerate(pairs):
        if i != expected:
            duplicate_message = f"id {i} is given twice, the second time to {token!r}"
            message = duplicate_message if i < expected else f"no token has id {expected}"
            hint = "take the vocabulary from its publisher again, or train one with `forebear tokenizer train`"
            raise InputError(f"{message}; ids must be 0, 1, 2, … without holes", file=file, hint=hint)
    return [token for token, _ in pairs]


def spec_digest(spec: TokenizerSpec) -> str:
    """SHA-256 of everything that determines the ids of a text; other metadata, such as training, is excluded."""
    model = dict(spec["model"])
    model["forebear"] = {name: value for name, value in model["forebear"].items() if name in DIGEST_KEYS}
    return hashlib.sha256(_as_json({**spec, "model": model}, canonical=True)).hexdigest()


def spec_bytes(spec: TokenizerSpec) -> bytes:
    return _as_json(spec) + b"\n"


def _as_json(spec: TokenizerSpec, *, canonical: bool = False) -> bytes:
    """JSON as `json.dumps` writes it, up to spaces; large vocabularies are written faster."""
    import orjson

    format_options: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")} if canonical else {}
    model = spec["model"]
    if not isinstance(model["vocab"], dict):
        return json.dumps(spec, ensure_ascii=False, **format_options).encode("utf-8")
    spec = {**spec, "model": {**model, "vocab": VOCAB_PLACEHOLDER}}
    template = json.dumps(spec, ensure_ascii=False, **format_options)
    head, _, tail = template.partition(json.dumps(VOCAB_PLACEHOLDER))
    vocab_bytes = orjson.dumps(model["vocab"], option=orjson.OPT_SORT_KEYS if canonical else 0)
    return b"".join((head.encode("utf-8"), vocab_bytes, tail.encode("utf-8")))
