"""A way of cutting text into tokens: encode, decode, and one JSON file that holds all of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.text import blueprint as blueprints
from forebear.text import words
from forebear.text.aside import written_aside
from forebear.text.blueprint import Blueprint
from forebear.text.characters import Table, codes_of, is_han, sound
from forebear.text.decoding import decoded
from forebear.text.memo import Many, Memo, rule_of
from forebear.text.segmentation import Segmenter, has_han
from forebear.text.spans import (
    added_up,
    apart,
    flat,
    last_of,
    lengths_of,
    missed_bytes,
    offsets_of,
    over_all,
    unmarked,
    widths_of,
    words_of_characters,
)
from forebear.text.tokens import Pieces, Tokens

if TYPE_CHECKING:
    import tokenizers

    from forebear.text.spaced import SpacedWords


class Tokenizer:
    """Text to ids and back, over Hugging Face's Rust library; a value made from one tokenizer.json blueprint.

    Lone surrogates, which a Python string can hold and no file can, count as U+FFFD everywhere, one for one.
    """

    def __init__(self, blueprint: Blueprint, *, file: str | os.PathLike[str] | None = None) -> None:
        self._blueprint = blueprint
        self._tokens = blueprints.tokens_of(blueprint, file)
        facts = blueprint["model"]["forebear"]
        self.kind: str = facts["kind"]
        self.roles: dict[str, int] = dict(facts["roles"])
        self.size = len(self._tokens)
        self.split: str | None = facts.get("split")  # of words: at spaces, or at punctuation too
        cutting = facts.get("segmenter")
        self.segmenter = None if cutting is None else Segmenter(tuple(cutting["dictionary"]))

    def __reduce__(self) -> tuple[Any, ...]:  # travels to workers as its blueprint
        return type(self), (self._blueprint,)

    @property
    def unknown(self) -> int | None:
        """The id of what the vocabulary lacks; None where nothing can be unknown."""
        return self.roles.get("unknown")

    @property
    def _lacking(self) -> int:
        """The same as a number, one that no token has where nothing can be unknown."""
        return self.roles.get("unknown", -1)

    # -- text to ids

    def encode(self, text: str, *, specials: bool = False) -> Pieces:
        """The tokens of one text; with `specials`, special tokens written in it ("[MASK]") are themselves.

        Without, they are ordinary text. Neither way adds any that the text does not have.
        """
        text = sound(text)
        places = words.borders(text, self.segmenter)
        rust = self._special if specials else self._rust
        encoding = rust.encode(words.marked(text, places), add_special_tokens=False)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        spans = apart(unmarked(offsets, places))
        ids = np.array(encoding.ids, np.int32)
        return Pieces(ids, [(begin, end) for begin, end in spans.tolist()], [self._tokens[i] for i in ids.tolist()])

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All ids of many texts in one int32 array and the number of tokens of each text.

        Equal to `encode` on each text; special tokens written in the texts are ordinary text.
        """
        if self._table is not None:
            return self._table.many(texts)
        if self._memo is None or self._seldom_repeats(texts):
            return self.encode_plainly(texts)
        many = self._memo.many(texts, self._borders(texts))
        return many.ids, many.counts

    def encode_all(
        self, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None, *, spans: bool = False
    ) -> Tokens:
        """As `encode_many`, with all that a corpus wants to know; `ends` says for each text where its words end.

        A token begins a word if the word of its first character is not that of the last character before it. The
        first token of a text always does, a piece that continues a word ("##ing") never.
        """
        if ends is None:
            return self._counted(texts)
        if self.kind == "words":  # these are the words then, whatever its own segmenter would say
            many = self._cut_at(texts, [at[:-1] for at in ends], spans)
            told = (many.first, many.last) if spans else ()
            return Tokens(many.ids, many.counts, many.unknown, np.ones(len(many.ids), bool), *told)
        if self._memo is None or self._seldom_repeats(texts):
            many = self._plain(texts)
        else:
            many = self._memo.many(texts, self._borders(texts), spans=True)
        word = words_of_characters(texts, ends)
        starts = np.ones(len(many.ids), bool)
        starts[1:] = word[many.first[1:]] != word[many.last[:-1]]
        starts &= ~self.continues[many.ids]
        begins = np.cumsum(many.counts) - many.counts
        starts[begins[many.counts > 0]] = True
        return Tokens(many.ids, many.counts, many.unknown, starts, *((many.first, many.last) if spans else ()))

    def encode_lines(self, data: bytes, ends: np.ndarray) -> Tokens | None:
        """As `encode_all`, of texts in UTF-8 that line feeds part and that end here, if words are found by their bytes
        and there is much text; else None.
        """
        many = self._memo.lines(data, ends) if self._memo is not None and self._memo.is_quick else None
        return None if many is None else Tokens(many.ids, many.counts, many.unknown)

    def _cut_at(self, texts: Sequence[str], places: Sequence[Sequence[int]], spans: bool) -> Many:
        """The tokens of texts of which each is cut at its places."""
        cuts = [np.array(at, np.int64) for at in places]
        if self._memo is None:
            return self._plain(texts, cuts)
        marked = (words.marked(sound(text), at) for text, at in zip(texts, cuts, strict=True))
        many = self._memo.many(list(marked), spans=spans)
        if not spans:
            return many
        marks = over_all(texts, places)
        return replace(many, first=unmarked(many.first, marks), last=unmarked(many.last, marks))

    def encode_plainly(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_many` by the Rust library alone: its readable twin, and the way where nothing faster is exact."""
        marked = [words.marked(text, words.borders(text, self.segmenter)) for text in map(sound, texts)]
        encodings = self._rust.encode_batch_fast(marked, add_special_tokens=False)
        ids = flat(encoding.ids for encoding in encodings).astype(np.int32)
        return ids, np.fromiter(map(len, encodings), np.int32, len(encodings))

    def _counted(self, texts: Sequence[str]) -> Tokens:
        """`encode_all` where nobody tells words."""
        if self._table is None and self._memo is not None and not self._seldom_repeats(texts):
            many = self._memo.many(texts, self._borders(texts))
            return Tokens(many.ids, many.counts, many.unknown)
        ids, counts = self.encode_many(texts)
        missed = np.flatnonzero(ids == self._lacking)
        owners = np.searchsorted(np.cumsum(counts), missed, side="right")
        if self._table is not None:  # a character, a token
            return Tokens(ids, counts, added_up(widths_of(codes_of("".join(texts))[missed]), owners, len(texts)))
        unknown = np.zeros(len(texts), np.int64)
        again: list[int] = np.unique(owners).tolist()
        unknown[again] = self._plain([texts[i] for i in again]).unknown
        return Tokens(ids, counts, unknown)

    def _plain(self, texts: Sequence[str], places: Sequence[np.ndarray] | None = None) -> Many:
        """`Memo.many` with spans, by the Rust library alone; cut at `places`, or else where the own segmenter says."""
        texts = list(map(sound, texts))
        places = places or [words.borders(text, self.segmenter) for text in texts]
        marked = [words.marked(text, at) for text, at in zip(texts, places, strict=True)]
        encodings = self._rust.encode_batch(marked, add_special_tokens=False)
        ids, counts = flat(encoding.ids for encoding in encodings), np.fromiter(map(len, encodings), np.int32)
        offsets, done = offsets_of(encodings), 0
        for at, count in zip(places, counts.tolist(), strict=True):
            part = slice(done, done := done + count)
            offsets[part] = unmarked(offsets[part], at)
        unknown = missed_bytes(texts, ids == self._lacking, counts, offsets)
        base = np.repeat(over_all(texts, [[0]] * len(texts)), counts)
        return Many(ids.astype(np.int32), counts, unknown, base + offsets[:, 0], base + last_of(offsets))

    def _borders(self, texts: Sequence[str]) -> np.ndarray | None:
        """`words.borders` of each text by the own segmenter, counted over all texts as the memory does."""
        if self.segmenter is None or not texts:
            return None
        chinese = [number for number, text in enumerate(texts) if has_han(text)]
        if not chinese:
            return None
        mine = [texts[number] for number in chinese]
        ends = [self.segmenter.cuts(text) for text in mine]
        cuts, han = over_all(mine, ends), is_han(codes_of(" ".join(mine) + " "))
        telling = han[cuts - 1] | han[cuts]
        here, there = (over_all(some, [[0]] * len(some)) for some in (mine, texts))
        return (cuts + np.repeat(there[chinese] - here, lengths_of(ends)))[telling]

    def _seldom_repeats(self, texts: Sequence[str]) -> bool:
        """Whether remembering would not pay: byte-level BPE takes an unspaced Chinese clause for one word."""
        if self.kind != "bytepair":
            return False
        sample = codes_of("".join(texts[:16]))
        return bool(len(sample)) and float(is_han(sample).mean()) > 0.2

    # -- ids to text

    def decode(self, ids: Iterable[int] | np.ndarray, *, specials: bool = False) -> str:
        """Text again; special tokens are left out unless asked for, except the unknown one, which stands for text."""
        return decoded(self, [int(i) for i in ids], specials=specials)

    def token(self, id: int) -> str:  # noqa: A002 - the word for it
        """The token of an id."""
        if not 0 <= id < self.size:
            raise BadInput(f"no token has id {id}", remedy=f"ids of this tokenizer are 0 to {self.size - 1}")
        return self._tokens[id]

    def id(self, token: str) -> int | None:
        """The id of a token, None where the vocabulary lacks it."""
        return self._numbers.get(token)

    def tokens(self) -> list[str]:
        """All tokens in id order."""
        return list(self._tokens)

    @cached_property
    def specials(self) -> frozenset[int]:
        """The ids of all special tokens, those without a role too."""
        added = {token["id"] for token in self._blueprint["added_tokens"] if token["special"]}
        return frozenset(added | set(self.roles.values()))

    @cached_property
    def continues(self) -> np.ndarray:
        """True for pieces that continue a word ("##ing"). Only WordPiece marks them: False everywhere otherwise.

        (Byte-level BPE marks spaces instead; a piece without one may begin a word, after a quote for example.)
        """
        prefix = self.prefix
        if not prefix:
            return np.zeros(self.size, bool)
        return np.array([len(token) > len(prefix) and token.startswith(prefix) for token in self._tokens])

    @property
    def prefix(self) -> str:
        """What marks a piece that continues a word; empty where nothing does."""
        model = self._blueprint["model"]
        return model.get("continuing_subword_prefix") or "" if self.kind == "wordpiece" else ""

    @cached_property
    def forgets(self) -> tuple[str, ...]:
        """What of a text its tokens do not tell, so that no model of them pays for it."""
        normalised, _ = blueprints.stages(self._blueprint["normalizer"], None)
        lost = {"case": "A", "accents": "é", "compatibility forms": "①"}
        spaced = "a \n b"
        covered = sum(end - begin for begin, end in self.encode(spaced).spans)
        told = ["white space"] if covered < len(spaced) else []
        return (*told, *(name for name, sample in lost.items() if normalised(sample) != sample))

    # -- itself

    @property
    def blueprint(self) -> Blueprint:
        """All of it, as its tokenizer.json tells it; not to be changed."""
        return self._blueprint

    @cached_property
    def digest(self) -> str:
        """sha256 over all that decides which ids a text gets: equal digests, equal ids."""
        return blueprints.digest_of(self._blueprint)

    def describe(self) -> dict[str, Any]:
        """What a person should know of it, as JSON values."""
        facts: Mapping[str, Any] = self._blueprint["model"]["forebear"]
        told = {
            "kind": self.kind,
            "size": self.size,
            "roles": {role: {"id": i, "token": self._tokens[i]} for role, i in self.roles.items()},
            "digest": self.digest,
        }
        told |= {name: value for name, value in facts.items() if name not in ("kind", "roles", "segmenter")}
        if self.segmenter is not None:
            recorded = told["segmenter"] = facts["segmenter"]["made_with"]
            if recorded != self.segmenter.describe():
                told["warning"] = (
                    f"trained with the word segmenter {recorded}, used with {self.segmenter.describe()}: "
                    "Chinese words may be cut otherwise than in training"
                )
        return told

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer.json, whole or not at all."""
        with written_aside(path) as file:
            file.write(self._file)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, lower: bool | None = None) -> Tokenizer:
        """Read a tokenizer.json, a published vocabulary (BERT's, ERNIE's, GPT-2's) or a folder that has one of them.

        `lower` says whether a vocabulary file without that fact is for lower-cased text; None: told from its entries.
        """
        from forebear.text import published

        return published.load(path, lower=lower)

    @cached_property
    def _file(self) -> bytes:  # kept, since a run, its corpus and the cache each want one
        return blueprints.as_file(self._blueprint)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        vocabulary = self._blueprint["model"]["vocab"]
        if isinstance(vocabulary, dict) and len(vocabulary) == self.size:
            return vocabulary
        return {token: i for i, token in enumerate(self._tokens)}

    @cached_property
    def _rust(self) -> tokenizers.Tokenizer:
        return blueprints.rust(self._blueprint, specials=False)

    @cached_property
    def _special(self) -> tokenizers.Tokenizer:
        return blueprints.rust(self._blueprint, specials=True)

    @cached_property
    def _memo(self) -> Memo | None:
        rule = rule_of(self._blueprint)
        return None if rule is None else Memo(lambda: self._rust, rule, self._lacking)

    @property
    def is_quick(self) -> bool:
        """Whether nothing but white space parts its words, which are then found sooner than they are read."""
        return self._memo is not None and self._memo.is_quick

    def remember(self, words: SpacedWords, ids: np.ndarray) -> None:
        """Takes over what counting these words has found, of each its id: they need not be looked at again."""
        if self._memo is not None:
            self._memo.remember(words, np.where(ids < 0, self._lacking, ids))

    def forget(self) -> None:
        """Gives back the memory that is used to encode and to save sooner; what is wanted again is made anew."""
        for kept in ("_memo", "_file"):
            self.__dict__.pop(kept, None)

    @cached_property
    def _table(self) -> Table | None:
        plain = self.kind == "characters" and self._blueprint["normalizer"] is None and self.unknown is not None
        return Table(self._tokens, self.specials, self.unknown or 0) if plain else None
