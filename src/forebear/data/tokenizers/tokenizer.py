"""A way of cutting text into tokens: encode, decode, and one JSON file that holds all of it."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.atomic import atomic_write
from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers import tokenizer_json as blueprints
from forebear.data.tokenizers import word_level
from forebear.data.tokenizers.char_level import CharacterTable, code_points, is_han, replace_surrogates
from forebear.data.tokenizers.offsets import (
    char_word_ids,
    flatten_ints,
    global_offsets,
    last_characters,
    sum_by_index,
    text_lengths,
    token_offsets,
    unknown_bytes,
    utf8_widths,
    without_overlap,
    without_separators,
)
from forebear.data.tokenizers.token_cache import EncodedSpans, TokenCache, pretoken_rule
from forebear.data.tokenizers.tokenizer_json import TokenizerSpec
from forebear.errors import InputError

if TYPE_CHECKING:
    import tokenizers

    from forebear.data.tokenizers.pretokens import WhitespaceWords

# From ids back to text: exact for bytes and characters, readable for words and pieces of words.


DOUBLED_PUNCTUATION = set("…—")  # Chinese writes two of them for one
CLOSING_PUNCTUATION = set(".,;:!?%)]}'’”")  # no space before
OPENING_PUNCTUATION = set("([{$#“‘")  # no space after
CLITICS = {"s", "t", "d", "m", "ll", "re", "ve", "em"}  # what an apostrophe joins to the word before it


def decode_ids(tokenizer: Tokenizer, ids: Sequence[int], *, specials: bool) -> str:
    """The text of these ids; see `Tokenizer.decode`."""
    hidden = set() if specials else tokenizer.special_ids - {tokenizer.unk_id}
    visible_ids = [i for i in ids if i not in hidden]
    tokens = [tokenizer.id_to_token(i) for i in visible_ids]
    if tokenizer.kind == "characters":
        return "".join(tokens)
    if tokenizer.kind == "words" and tokenizer.segmenter is None and tokenizer.split == "spaces":
        return " ".join(tokens)
    if tokenizer.kind in ("words", "wordpiece"):
        return _join_tokens(
            tokens,
            tokenizer.continuation_mask[visible_ids].tolist() if visible_ids else [],
            len(tokenizer.continuation_prefix),
        )
    return tokenizer._backend_with_specials.decode(visible_ids, skip_special_tokens=False)


def _join_tokens(tokens: Sequence[str], is_continuation: Sequence[bool], prefix: int) -> str:
    """Words with spaces between them as people write: none beside Chinese, none before a full stop."""
    parts: list[str] = []
    previous = ""
    for token, continues in zip(tokens, is_continuation, strict=True):
        if continues:
            parts.append(token[prefix:])
        else:
            is_doubled = previous == token and token in DOUBLED_PUNCTUATION
            is_attached = is_doubled or (previous in ("'", "’") and token.lower() in CLITICS)
            if previous and not (
                is_attached
                or _is_written_tight(previous[-1])
                or previous in OPENING_PUNCTUATION
                or _is_written_tight(token[0])
                or token in CLOSING_PUNCTUATION
            ):
                parts.append(" ")
            parts.append(token)
        previous = parts[-1]
    return "".join(parts)


def _is_written_tight(character: str) -> bool:
    """Whether a character is written without spaces around it: Chinese characters, kana, wide punctuation."""
    wide = unicodedata.east_asian_width(character) in "WF" and unicodedata.category(character)[0] == "P"
    return wide or "\u3040" <= character <= "\u30ff" or bool(is_han(code_points(character))[0])


# What a tokenizer tells of texts: of one in detail, of many in arrays.


@dataclass(frozen=True, slots=True)
class TokenEncoding:
    """The tokens of one text: ids, the span of the original text each stands for, and their names in the vocabulary.

    Spans are code-point offsets, rise and never overlap. Where several tokens come from one character (bytes of an
    emoji, an expanded ligature) the first owns it and the others have the empty span at its end.
    """

    ids: np.ndarray
    spans: list[tuple[int, int]]
    texts: list[str]


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The tokens of many texts: all ids in a row, how many each text has, the bytes of each text that became unknown
    tokens, and, where somebody asked, True where a token begins a word, and the characters each token stands for, as in
    `Many`.
    """

    ids: np.ndarray
    counts: np.ndarray
    unknown_bytes: np.ndarray
    starts: np.ndarray | None = None
    first: np.ndarray | None = None
    last: np.ndarray | None = None


class Tokenizer:
    """Text to ids and back, over Hugging Face's Rust library; a value made from one tokenizer.json blueprint.

    Lone surrogates, which a Python string can hold and no file can, count as U+FFFD everywhere, one for one.
    """

    def __init__(self, spec: TokenizerSpec, *, file: str | os.PathLike[str] | None = None) -> None:
        self._spec = spec
        self._tokens = blueprints.spec_tokens(spec, file)
        settings = spec["model"]["forebear"]
        self.kind: str = settings["kind"]
        self.special_roles: dict[str, int] = dict(settings["roles"])
        self.vocab_size = len(self._tokens)
        self.split: str | None = settings.get("split")  # of words: at spaces, or at punctuation too
        segmenter_settings = settings.get("segmenter")
        self.segmenter = None if segmenter_settings is None else Segmenter(tuple(segmenter_settings["dictionary"]))

    def __reduce__(self) -> tuple[Any, ...]:  # travels to workers as its blueprint
        return type(self), (self._spec,)

    @property
    def unk_id(self) -> int | None:
        """The id of what the vocabulary lacks; None where nothing can be unknown."""
        return self.special_roles.get("unknown")

    @property
    def _unk_index(self) -> int:
        """The same as a number, one that no token has where nothing can be unknown."""
        return self.special_roles.get("unknown", -1)

    # -- text to ids

    def encode(self, text: str, *, specials: bool = False) -> TokenEncoding:
        """The tokens of one text; with `specials`, special tokens written in it ("[MASK]") are themselves.

        Without, they are ordinary text. Neither way adds any that the text does not have.
        """
        text = replace_surrogates(text)
        boundaries = word_level.segment_boundaries(text, self.segmenter)
        backend = self._backend_with_specials if specials else self._backend
        encoding = backend.encode(word_level.insert_separators(text, boundaries), add_special_tokens=False)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        spans = without_overlap(without_separators(offsets, boundaries))
        ids = np.array(encoding.ids, np.int32)
        return TokenEncoding(
            ids, [(begin, end) for begin, end in spans.tolist()], [self._tokens[i] for i in ids.tolist()]
        )

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All ids of many texts in one int32 array and the number of tokens of each text.

        Equal to `encode` on each text; special tokens written in the texts are ordinary text.
        """
        if self._character_table is not None:
            return self._character_table.encode_many(texts)
        if self._cache is None or self._rarely_repeats(texts):
            return self.encode_many_reference(texts)
        encoded = self._cache.encode_many(texts, self._segmenter_boundaries(texts))
        return encoded.ids, encoded.counts

    def encode_batch(
        self, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None, *, spans: bool = False
    ) -> EncodedBatch:
        """As `encode_many`, with all that a corpus wants to know; `ends` says for each text where its words end.

        A token begins a word if the word of its first character is not that of the last character before it. The
        first token of a text always does, a piece that continues a word ("##ing") never.
        """
        if ends is None:
            return self._encode_counts(texts)
        if self.kind == "words":  # these are the words then, whatever its own segmenter would say
            encoded = self._encode_at_boundaries(texts, [word_ends[:-1] for word_ends in ends], spans)
            token_spans = (encoded.first, encoded.last) if spans else ()
            return EncodedBatch(
                encoded.ids, encoded.counts, encoded.num_unknown, np.ones(len(encoded.ids), bool), *token_spans
            )
        if self._cache is None or self._rarely_repeats(texts):
            encoded = self._encode_uncached(texts)
        else:
            encoded = self._cache.encode_many(texts, self._segmenter_boundaries(texts), spans=True)
        word_ids = char_word_ids(texts, ends)
        starts = np.ones(len(encoded.ids), bool)
        starts[1:] = word_ids[encoded.first[1:]] != word_ids[encoded.last[:-1]]
        starts &= ~self.continuation_mask[encoded.ids]
        begins = np.cumsum(encoded.counts) - encoded.counts
        starts[begins[encoded.counts > 0]] = True
        return EncodedBatch(
            encoded.ids, encoded.counts, encoded.num_unknown, starts, *((encoded.first, encoded.last) if spans else ())
        )

    def encode_lines(self, data: bytes, ends: np.ndarray) -> EncodedBatch | None:
        """As `encode_all`, of texts in UTF-8 that line feeds part and that end here, if words are found by their bytes
        and there is much text; else None.
        """
        encoded = self._cache.encode_lines(data, ends) if self._cache is not None and self._cache.is_fast else None
        return None if encoded is None else EncodedBatch(encoded.ids, encoded.counts, encoded.num_unknown)

    def _encode_at_boundaries(
        self, texts: Sequence[str], word_boundaries: Sequence[Sequence[int]], spans: bool
    ) -> EncodedSpans:
        """The tokens of texts of which each is cut at its places."""
        boundaries = [np.array(positions, np.int64) for positions in word_boundaries]
        if self._cache is None:
            return self._encode_uncached(texts, boundaries)
        separated = (
            word_level.insert_separators(replace_surrogates(text), positions)
            for text, positions in zip(texts, boundaries, strict=True)
        )
        encoded = self._cache.encode_many(list(separated), spans=spans)
        if not spans:
            return encoded
        separator_offsets = global_offsets(texts, word_boundaries)
        return replace(
            encoded,
            first=without_separators(encoded.first, separator_offsets),
            last=without_separators(encoded.last, separator_offsets),
        )

    def encode_many_reference(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_many` by the Rust library alone: its readable twin, and the way where nothing faster is exact."""
        separated = [
            word_level.insert_separators(text, word_level.segment_boundaries(text, self.segmenter))
            for text in map(replace_surrogates, texts)
        ]
        encodings = self._backend.encode_batch_fast(separated, add_special_tokens=False)
        ids = flatten_ints(encoding.ids for encoding in encodings).astype(np.int32)
        return ids, np.fromiter(map(len, encodings), np.int32, len(encodings))

    def _encode_counts(self, texts: Sequence[str]) -> EncodedBatch:
        """`encode_all` where nobody tells words."""
        if self._character_table is None and self._cache is not None and not self._rarely_repeats(texts):
            encoded = self._cache.encode_many(texts, self._segmenter_boundaries(texts))
            return EncodedBatch(encoded.ids, encoded.counts, encoded.num_unknown)
        ids, counts = self.encode_many(texts)
        unknown_positions = np.flatnonzero(ids == self._unk_index)
        text_ids = np.searchsorted(np.cumsum(counts), unknown_positions, side="right")
        if self._character_table is not None:  # a character, a token
            return EncodedBatch(
                ids,
                counts,
                sum_by_index(utf8_widths(code_points("".join(texts))[unknown_positions]), text_ids, len(texts)),
            )
        unknown = np.zeros(len(texts), np.int64)
        affected: list[int] = np.unique(text_ids).tolist()
        unknown[affected] = self._encode_uncached([texts[i] for i in affected]).num_unknown
        return EncodedBatch(ids, counts, unknown)

    def _encode_uncached(self, texts: Sequence[str], boundaries: Sequence[np.ndarray] | None = None) -> EncodedSpans:
        """`Memo.many` with spans, by the Rust library alone; cut at `places`, or else where the own segmenter says."""
        texts = list(map(replace_surrogates, texts))
        boundaries = boundaries or [word_level.segment_boundaries(text, self.segmenter) for text in texts]
        separated = [
            word_level.insert_separators(text, positions) for text, positions in zip(texts, boundaries, strict=True)
        ]
        encodings = self._backend.encode_batch(separated, add_special_tokens=False)
        ids, counts = flatten_ints(encoding.ids for encoding in encodings), np.fromiter(map(len, encodings), np.int32)
        offsets, start = token_offsets(encodings), 0
        for positions, count in zip(boundaries, counts.tolist(), strict=True):
            rows = slice(start, start := start + count)
            offsets[rows] = without_separators(offsets[rows], positions)
        unknown = unknown_bytes(texts, ids == self._unk_index, counts, offsets)
        text_starts = np.repeat(global_offsets(texts, [[0]] * len(texts)), counts)
        return EncodedSpans(
            ids.astype(np.int32), counts, unknown, text_starts + offsets[:, 0], text_starts + last_characters(offsets)
        )

    def _segmenter_boundaries(self, texts: Sequence[str]) -> np.ndarray | None:
        """`words.borders` of each text by the own segmenter, counted over all texts as the memory does."""
        if self.segmenter is None or not texts:
            return None
        han_indices = [index for index, text in enumerate(texts) if has_han(text)]
        if not han_indices:
            return None
        han_texts = [texts[index] for index in han_indices]
        ends = [self.segmenter.word_ends(text) for text in han_texts]
        word_ends, han = global_offsets(han_texts, ends), is_han(code_points(" ".join(han_texts) + " "))
        is_relevant = han[word_ends - 1] | han[word_ends]
        han_starts, text_starts = (
            global_offsets(text_list, [[0]] * len(text_list)) for text_list in (han_texts, texts)
        )
        return (word_ends + np.repeat(text_starts[han_indices] - han_starts, text_lengths(ends)))[is_relevant]

    def _rarely_repeats(self, texts: Sequence[str]) -> bool:
        """Whether remembering would not pay: byte-level BPE takes an unspaced Chinese clause for one word."""
        if self.kind != "bytepair":
            return False
        sample = code_points("".join(texts[:16]))
        return bool(len(sample)) and float(is_han(sample).mean()) > 0.2

    # -- ids to text

    def decode(self, ids: Iterable[int] | np.ndarray, *, specials: bool = False) -> str:
        """Text again; special tokens are left out unless asked for, except the unknown one, which stands for text."""
        return decode_ids(self, [int(i) for i in ids], specials=specials)

    def id_to_token(self, id: int) -> str:  # noqa: A002 - the word for it
        """The token of an id."""
        if not 0 <= id < self.vocab_size:
            raise InputError(f"no token has id {id}", hint=f"ids of this tokenizer are 0 to {self.vocab_size - 1}")
        return self._tokens[id]

    def token_to_id(self, token: str) -> int | None:
        """The id of a token, None where the vocabulary lacks it."""
        return self._numbers.get(token)

    def vocabulary(self) -> list[str]:
        """All tokens in id order."""
        return list(self._tokens)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of all special tokens, those without a role too."""
        added = {token["id"] for token in self._spec["added_tokens"] if token["special"]}
        return frozenset(added | set(self.special_roles.values()))

    @cached_property
    def continuation_mask(self) -> np.ndarray:
        """True for pieces that continue a word ("##ing"). Only WordPiece marks them: False everywhere otherwise.

        (Byte-level BPE marks spaces instead; a piece without one may begin a word, after a quote for example.)
        """
        prefix = self.continuation_prefix
        if not prefix:
            return np.zeros(self.vocab_size, bool)
        return np.array([len(token) > len(prefix) and token.startswith(prefix) for token in self._tokens])

    @property
    def continuation_prefix(self) -> str:
        """What marks a piece that continues a word; empty where nothing does."""
        model = self._spec["model"]
        return model.get("continuing_subword_prefix") or "" if self.kind == "wordpiece" else ""

    @cached_property
    def lossy_features(self) -> tuple[str, ...]:
        """What of a text its tokens do not tell, so that no model of them pays for it."""
        normalize, _ = blueprints.preprocessing_steps(self._spec["normalizer"], None)
        samples = {"case": "A", "accents": "é", "compatibility forms": "①"}
        spaced = "a \n b"
        covered = sum(end - begin for begin, end in self.encode(spaced).spans)
        lost_spaces = ["white space"] if covered < len(spaced) else []
        return (*lost_spaces, *(name for name, sample in samples.items() if normalize(sample) != sample))

    # -- itself

    @property
    def spec(self) -> TokenizerSpec:
        """All of it, as its tokenizer.json tells it; not to be changed."""
        return self._spec

    @cached_property
    def digest(self) -> str:
        """sha256 over all that decides which ids a text gets: equal digests, equal ids."""
        return blueprints.spec_digest(self._spec)

    def describe(self) -> dict[str, Any]:
        """What a person should know of it, as JSON values."""
        settings: Mapping[str, Any] = self._spec["model"]["forebear"]
        description = {
            "kind": self.kind,
            "size": self.vocab_size,
            "roles": {role: {"id": i, "token": self._tokens[i]} for role, i in self.special_roles.items()},
            "digest": self.digest,
        }
        description |= {name: value for name, value in settings.items() if name not in ("kind", "roles", "segmenter")}
        if self.segmenter is not None:
            recorded = description["segmenter"] = settings["segmenter"]["made_with"]
            if recorded != self.segmenter.describe():
                description["warning"] = (
                    f"trained with the word segmenter {recorded}, used with {self.segmenter.describe()}: "
                    "Chinese words may be cut otherwise than in training"
                )
        return description

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer.json, whole or not at all."""
        with atomic_write(path) as file:
            file.write(self._file)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, lower: bool | None = None) -> Tokenizer:
        """Read a tokenizer.json, a published vocabulary (BERT's, ERNIE's, GPT-2's) or a folder that has one of them.

        `lower` says whether a vocabulary file without that fact is for lower-cased text; None: told from its entries.
        """
        from forebear.data.tokenizers import pretrained

        return pretrained.load_tokenizer(path, lower=lower)

    @cached_property
    def _file(self) -> bytes:  # kept, since a run, its corpus and the cache each want one
        return blueprints.spec_bytes(self._spec)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        vocabulary = self._spec["model"]["vocab"]
        if isinstance(vocabulary, dict) and len(vocabulary) == self.vocab_size:
            return vocabulary
        return {token: i for i, token in enumerate(self._tokens)}

    @cached_property
    def _backend(self) -> tokenizers.Tokenizer:
        return blueprints.rust_tokenizer(self._spec, specials=False)

    @cached_property
    def _backend_with_specials(self) -> tokenizers.Tokenizer:
        return blueprints.rust_tokenizer(self._spec, specials=True)

    @cached_property
    def _cache(self) -> TokenCache | None:
        rule = pretoken_rule(self._spec)
        return None if rule is None else TokenCache(lambda: self._backend, rule, self._unk_index)

    @property
    def is_fast(self) -> bool:
        """Whether nothing but white space parts its words, which are then found sooner than they are read."""
        return self._cache is not None and self._cache.is_fast

    def preload_cache(self, words: WhitespaceWords, ids: np.ndarray) -> None:
        """Takes over what counting these words has found, of each its id: they need not be looked at again."""
        if self._cache is not None:
            self._cache.preload(words, np.where(ids < 0, self._unk_index, ids))

    def clear_cache(self) -> None:
        """Gives back the memory that is used to encode and to save sooner; what is wanted again is made anew."""
        for attribute in ("_cache", "_file"):
            self.__dict__.pop(attribute, None)

    @cached_property
    def _character_table(self) -> CharacterTable | None:
        plain = self.kind == "characters" and self._spec["normalizer"] is None and self.unk_id is not None
        return CharacterTable(self._tokens, self.special_ids, self.unk_id or 0) if plain else None
