"""A way of cutting text into tokens: encode, decode, and one JSON file that holds all of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.text import blueprint as blueprints
from forebear.text import words
from forebear.text.blueprint import Blueprint
from forebear.text.characters import Table, codes_of, is_han, sound
from forebear.text.decoding import decoded
from forebear.text.memo import Many, Memo, characters_of, flat, rule_of
from forebear.text.segmentation import Segmenter, has_han

if TYPE_CHECKING:
    import tokenizers


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tokens of one text: ids, the span of the original text each stands for, and their names in the vocabulary.

    Spans are code-point offsets, rise and never overlap. Where several tokens come from one character (bytes of an
    emoji, an expanded ligature) the first owns it and the others have the empty span at its end.
    """

    ids: np.ndarray
    spans: list[tuple[int, int]]
    texts: list[str]


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
        cutting = facts.get("segmenter")
        self.segmenter = None if cutting is None else Segmenter(tuple(cutting["dictionary"]))

    def __reduce__(self) -> tuple[Any, ...]:  # travels to workers as its blueprint
        return type(self), (self._blueprint,)

    @property
    def unknown(self) -> int | None:
        """The id of what the vocabulary lacks; None where nothing can be unknown."""
        return self.roles.get("unknown")

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
        spans = _apart(_unmarked(offsets, places))
        ids = np.array(encoding.ids, np.int32)
        return Pieces(ids, [(begin, end) for begin, end in spans.tolist()], [self._tokens[i] for i in ids.tolist()])

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All ids of many texts in one int32 array and the number of tokens of each text: what corpora are made with.

        Equal to `encode` on each text; special tokens written in the texts are ordinary text.
        """
        if self._table is not None:
            return self._table.many(texts)
        if self._memo is None or self._seldom_repeats(texts):
            return self.encode_plainly(texts)
        many = self._memo.many(texts, self._borders(texts))
        return many.ids, many.counts

    def encode_cut(
        self, texts: Sequence[str], ends: Sequence[Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `encode_many`, and True where a token begins a word; `ends` says for each text where its words end.

        A token begins a word if the word of its first character is not that of the last character before it. The
        first token of a text always does, a piece that continues a word ("##ing") never.
        """
        if self.kind == "words":  # these are the words then, whatever its own segmenter would say
            cut = [words.marked(sound(text), np.array(at[:-1], np.int64)) for text, at in zip(texts, ends, strict=True)]
            many = self._memo.many(cut) if self._memo is not None else None
            ids, counts = self._by_rust(cut) if many is None else (many.ids, many.counts)
            return ids, counts, np.ones(len(ids), bool)
        if self._memo is None or self._seldom_repeats(texts):
            many = self._plain(texts)
        else:
            many = self._memo.many(texts, self._borders(texts), spans=True)
        word = _words_of_characters(texts, ends)
        starts = np.ones(len(many.ids), bool)
        starts[1:] = word[many.first[1:]] != word[many.last[:-1]]
        starts &= ~self.continues[many.ids]
        begins = np.cumsum(many.counts) - many.counts
        starts[begins[many.counts > 0]] = True
        return many.ids, many.counts, starts

    def encode_plainly(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_many` by the Rust library alone: its readable twin, and the way where nothing faster is exact."""
        return self._by_rust([words.marked(text, words.borders(text, self.segmenter)) for text in map(sound, texts)])

    def _by_rust(self, marked: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        encodings = self._rust.encode_batch_fast(marked, add_special_tokens=False)
        ids = flat(encoding.ids for encoding in encodings).astype(np.int32)
        return ids, np.fromiter(map(len, encodings), np.int32, len(encodings))

    def _plain(self, texts: Sequence[str]) -> Many:
        """`Memo.many` with spans, by the Rust library alone."""
        texts = [sound(text) for text in texts]
        places = [words.borders(text, self.segmenter) for text in texts]
        marked = [words.marked(text, at) for text, at in zip(texts, places, strict=True)]
        encodings = self._rust.encode_batch(marked, add_special_tokens=False)
        counts = np.fromiter(map(len, encodings), np.int32, len(encodings))
        first, last = characters_of(encodings)
        begins = np.concatenate(([0], np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)))
        done = 0
        for at, begin, count in zip(places, begins.tolist(), counts.tolist(), strict=False):
            part = slice(done, done := done + count)
            first[part] = begin + _unmarked(first[part], at)
            last[part] = begin + _unmarked(last[part], at)
        return Many(flat(encoding.ids for encoding in encodings).astype(np.int32), counts, first, last)

    def _borders(self, texts: Sequence[str]) -> np.ndarray | None:
        """`words.borders` of each text by the own segmenter, counted over all texts as the memory does."""
        if self.segmenter is None or not texts:
            return None
        ends = [self.segmenter.cuts(text) if has_han(text) else [] for text in texts]
        cuts = _over_all(texts, ends)
        han = is_han(codes_of(" ".join(texts) + " "))
        return cuts[han[cuts - 1] | han[cuts]]

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

    # -- itself

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
        blueprints.write(self._blueprint, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, lower: bool | None = None) -> Tokenizer:
        """Read a tokenizer.json, a published vocabulary (BERT's, ERNIE's, GPT-2's) or a folder that has one of them.

        `lower` says whether a vocabulary file without that fact is for lower-cased text; None: told from its entries.
        """
        from forebear.text import published

        return published.load(path, lower=lower)

    @cached_property
    def _numbers(self) -> dict[str, int]:
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
        return None if rule is None else Memo(self._rust, rule)

    @cached_property
    def _table(self) -> Table | None:
        plain = self.kind == "characters" and self._blueprint["normalizer"] is None and self.unknown is not None
        return Table(self._tokens, self.specials, self.unknown or 0) if plain else None


def _unmarked(positions: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Positions in a text with separators as positions in the text without them."""
    if not len(places):
        return positions
    separators = places + np.arange(len(places))
    return positions - np.searchsorted(separators, positions)


def _apart(spans: np.ndarray) -> np.ndarray:
    """Spans that never overlap: what an earlier one covers is no longer the later one's."""
    if not len(spans):
        return spans
    ends = np.maximum.accumulate(spans.max(axis=1))
    begins = spans[:, 0].copy()
    begins[1:] = np.maximum(begins[1:], ends[:-1])
    return np.stack((begins, ends), axis=1)


def _over_all(texts: Sequence[str], places: Sequence[Sequence[int]]) -> np.ndarray:
    """Places in each text as places in all texts, where one more character follows each text."""
    begins = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
    return flat(places) + np.repeat(begins, np.fromiter(map(len, places), np.int64, len(places)))


def _words_of_characters(texts: Sequence[str], ends: Sequence[Sequence[int]]) -> np.ndarray:
    """For each character of all texts, one more after each text, the number of its word."""
    begins_word = np.zeros(sum(map(len, texts)) + len(texts) + 1, np.int32)
    begins_word[_over_all(texts, ends)] = 1
    begins_word[_over_all(texts, [[0]] * len(texts))] = 1
    return np.cumsum(begins_word)
