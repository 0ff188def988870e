"""What transformers wants of a tokenizer beside its model: the marks around a text, and its special tokens by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forebear.interop.families import FAMILIES
from forebear.interop.huggingface import Specials, write_json

# our roles: what they are called there
LOOKING_BACK = {"end": ("bos_token", "eos_token")}
BOTH_WAYS = {"start": ("cls_token",), "end": ("sep_token",)}
ROBERTA = {"start": ("bos_token", "cls_token"), "end": ("eos_token", "sep_token")}
COMMON = {"unknown": ("unk_token",), "padding": ("pad_token",), "mask": ("mask_token",)}


def write_tokenizer(
    folder: Path,
    milestone: str,
    blueprint: Mapping[str, Any],
    specials: Specials,
    context: int,
    *,
    marked: bool = False,
) -> None:
    """tokenizer.json with the marks that this milestone puts around a text, and the files beside it.

    One that looks back puts marks around texts for tasks only: then they are `marked`.
    """
    family = FAMILIES[milestone]
    called, given = LOOKING_BACK, ["input_ids", "attention_mask"]
    if family.always:
        if marked:
            blueprint = {**blueprint, "post_processor": marks(specials["end"], specials["end"])}
    else:
        called = ROBERTA if family.late else BOTH_WAYS
        if {"start", "end"} <= specials.keys():
            around = marks(specials["start"], specials["end"], segments=not family.late, twice=family.late)
            blueprint = {**blueprint, "post_processor": around}
        if not family.late:
            given.insert(1, "token_type_ids")
    called = {**called, **COMMON}
    tokens = {name: specials[role][1] for role, named in called.items() if role in specials for name in named}
    (folder / "tokenizer.json").write_text(json.dumps(blueprint, ensure_ascii=False) + "\n", encoding="utf-8")
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context}
    facts |= {"clean_up_tokenization_spaces": False, "model_input_names": given}
    write_json(folder / "tokenizer_config.json", facts | tokens)
    write_json(folder / "special_tokens_map.json", tokens)
    model = blueprint["model"]
    if model["type"] == "WordPiece":
        lines = sorted(model["vocab"], key=model["vocab"].__getitem__)
        (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def marks(
    start: tuple[int, str], end: tuple[int, str], *, segments: bool = False, twice: bool = False
) -> dict[str, Any]:
    """[CLS] A [SEP] and [CLS] A [SEP] B [SEP], with `segments` B of segment 1; `twice`, as RoBERTa: two between."""

    def mark(special: tuple[int, str], segment: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": special[1], "type_id": segment}}

    def text(name: str, segment: int = 0) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    single, second = [mark(start), text("A"), mark(end)], int(segments)
    pair = [*single, *([mark(end)] if twice else []), text("B", second), mark(end, second)]
    known = {token: {"id": token, "ids": [number], "tokens": [token]} for number, token in (start, end)}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": known}
