"""The Tokenizer: encode, decode, offsets, batches for a corpus, and saving to tokenizer.json."""

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
from forebear.data.tokenizers import tokenizer_json, word_level
from forebear.data.tokenizers.char_level import CharacterTable
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
from forebear.data.tokenizers.token_cache import EncodedBatch, TokenCache, pretoken_rule
from forebear.data.tokenizers.tokenizer_json import TokenizerSpec
from forebear.data.unicode import code_points, is_han, replace_surrogates
from forebear.errors import InputError

if TYPE_CHECKING:
    import tokenizers

    from forebear.data.tokenizers.pretokens import WhitespaceWords

# --- Decoding: exact for bytes and characters, readable for words and WordPiece ---

DOUBLED_PUNCTUATION = set("…—")  # doubled in Chinese
CLOSING_PUNCTUATION = set(".,;:!?%)]}'’”")  # no space before
OPENING_PUNCTUATION = set("([{$#“‘")  # no space after
CLITICS = {"s", "t", "d", "m", "ll", "re", "ve", "em"}  # joined to the previous word by an apostrophe


def _join_tokens(tokens: Sequence[str], is_continuation: Sequence[bool], prefix_length: int) -> str:
    """Join words with spaces as in ordinary text: none next to Chinese, none before a full stop."""
    parts: list[str] = []
    previous = ""
    for token, continues in zip(tokens, is_continuation, strict=True):
        if continues:
            parts.append(token[prefix_length:])
        else:
            is_doubled = previous == token and token in DOUBLED_PUNCTUATION
            is_attached = is_doubled or (previous in ("'", "’") and token.lower() in CLITICS)
            if previous and not (
                is_attached
                or _takes_no_space(previous[-1])
                or previous in OPENING_PUNCTUATION
                or _takes_no_space(token[0])
                or token in CLOSING_PUNCTUATION
            ):
                parts.append(" ")
            parts.append(token)
        previous = parts[-1]
    return "".join(parts)


def _takes_no_space(character: str) -> bool:
    """Whether a character is written without spaces around it: Chinese characters, kana, wide punctuation."""
    is_wide_punctuation = unicodedata.east_asian_width(character) in "WF" and unicodedata.category(character)[0] == "P"
    return is_wide_punctuation or "\u3040" <= character <= "\u30ff" or bool(is_han(code_points(character))[0])


@dataclass(frozen=True, slots=True)
class TokenEncoding:
    """The tokens of one text: ids, spans in the original text, and vocabulary entries.

    Spans are code-point offsets in ascending order without overlap. If one character yields several tokens (bytes of an
    emoji, an expanded ligature), the first has its span and the others the empty span at its end.
    """

    ids: np.ndarray
    spans: list[tuple[int, int]]
    texts: list[str]


class Tokenizer:
    """Text to ids and back, by Hugging Face's Rust library; an immutable value built from a tokenizer.json.

    Lone surrogates, which no file can hold, count as U+FFFD everywhere, one for one.
    """

    def __init__(self, spec: TokenizerSpec, *, file: str | os.PathLike[str] | None = None) -> None:
        self._spec = spec
        self._tokens = tokenizer_json.spec_tokens(spec, file)
        settings = spec["model"]["forebear"]
        self.kind: str = settings["kind"]
        self.special_roles: dict[str, int] = dict(settings["roles"])
        self.vocab_size = len(self._tokens)
        self.split: str | None = settings.get("split")  # of word tokenizers: spaces or punctuation
        segmenter_settings = settings.get("segmenter")
        self.segmenter = None if segmenter_settings is None else Segmenter(tuple(segmenter_settings["dictionary"]))

    def __reduce__(self) -> tuple[Any, ...]:  # pickled as its specification
        return type(self), (self._spec,)

    @property
    def unk_id(self) -> int | None:
        """The id of unknown tokens; None if nothing can be unknown."""
        return self.special_roles.get("unknown")

    @property
    def _unk_index(self) -> int:
        """`unk_id`, or -1."""
        return self.special_roles.get("unknown", -1)

    # -- text to ids

    def encode(self, text: str, *, specials: bool = False) -> TokenEncoding:
        """Encode one text; with `specials`, special tokens written in it ("[MASK]") are recognized.

        Otherwise they are ordinary text. No special tokens are added.
        """
        text = replace_surrogates(text)
        boundaries = word_level.segment_boundaries(text, self.segmenter)
        backend = self._backend_with_specials if specials else self._backend
        encoding = backend.encode(word_level.insert_separators(text, boundaries), add_special_tokens=False)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        spans = without_overlap(without_separators(offsets, boundaries))
        ids = encoding.ids
        tokens = [self._tokens[i] for i in ids]
        return TokenEncoding(np.array(ids, np.int32), [(begin, end) for begin, end in spans.tolist()], tokens)

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All ids of many texts as one int32 array, and the number of tokens of each text.

        Equal to `encode` on each text; special tokens written in the texts are ordinary text.
        """
        if self._character_table is not None:
            return self._character_table.encode_many(texts)
        if self._cache is None or self._rarely_repeats(texts):
            return self.encode_many_reference(texts)
        encoded = self._cache.encode_many(texts, self._segmenter_boundaries(texts))
        return encoded.ids, encoded.counts

    def encode_batch(
        self, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None, *, with_offsets: bool = False
    ) -> EncodedBatch:
        """As `encode_many`, with unknown bytes and, if `ends` has the word ends of each text, word starts.

        A token starts a word if its first character is in another word than the last character before it. The first
        token of a text always does, a continuation piece ("##ing") never.
        """
        if ends is None:
            return self._encode_counts(texts)
        if self.kind == "words":  # the given words override the tokenizer's segmenter
            encoded = self._encode_at_boundaries(texts, [word_ends[:-1] for word_ends in ends], with_offsets)
            return replace(encoded, is_word_start=np.ones(len(encoded.ids), bool))
        if self._cache is None or self._rarely_repeats(texts):
            encoded = self._encode_uncached(texts)
        else:
            encoded = self._cache.encode_many(texts, self._segmenter_boundaries(texts), with_offsets=True)
        word_ids = char_word_ids(texts, ends)
        is_word_start = np.ones(len(encoded.ids), bool)
        is_word_start[1:] = word_ids[encoded.first_offsets[1:]] != word_ids[encoded.last_offsets[:-1]]
        is_word_start &= ~self.continuation_mask[encoded.ids]
        text_starts = np.cumsum(encoded.counts) - encoded.counts
        is_word_start[text_starts[encoded.counts > 0]] = True
        return replace(encoded, is_word_start=is_word_start)

    def encode_lines(self, data: bytes, ends: np.ndarray) -> EncodedBatch | None:
        """`encode_batch` of UTF-8 texts separated by line feeds, which end at `ends`; None if that is not faster."""
        cache = self._cache
        return cache.encode_lines(data, ends) if cache is not None and cache.splits_on_whitespace_only else None

    def _encode_at_boundaries(
        self, texts: Sequence[str], word_boundaries: Sequence[Sequence[int]], with_offsets: bool
    ) -> EncodedBatch:
        """Encode texts that are split at given positions."""
        boundaries = [np.array(positions, np.int64) for positions in word_boundaries]
        if self._cache is None:
            return self._encode_uncached(texts, boundaries)
        separated = list(map(word_level.insert_separators, map(replace_surrogates, texts), boundaries))
        encoded = self._cache.encode_many(separated, with_offsets=with_offsets)
        if not with_offsets:
            return encoded
        separator_offsets = global_offsets(texts, word_boundaries)
        first_offsets = without_separators(encoded.first_offsets, separator_offsets)
        last_offsets = without_separators(encoded.last_offsets, separator_offsets)
        return replace(encoded, first_offsets=first_offsets, last_offsets=last_offsets)

    def encode_many_reference(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_many` by the Rust library alone: the reference, and the fallback where nothing faster is exact."""
        texts = list(map(replace_surrogates, texts))
        boundaries = [word_level.segment_boundaries(text, self.segmenter) for text in texts]
        separated = list(map(word_level.insert_separators, texts, boundaries))
        encodings = self._backend.encode_batch_fast(separated, add_special_tokens=False)
        ids = flatten_ints(encoding.ids for encoding in encodings).astype(np.int32)
        return ids, np.fromiter(map(len, encodings), np.int32, len(encodings))

    def _encode_counts(self, texts: Sequence[str]) -> EncodedBatch:
        """`encode_batch` without word ends."""
        if self._character_table is None and self._cache is not None and not self._rarely_repeats(texts):
            return self._cache.encode_many(texts, self._segmenter_boundaries(texts))
        ids, counts = self.encode_many(texts)
        unknown_positions = np.flatnonzero(ids == self._unk_index)
        text_ids = np.searchsorted(np.cumsum(counts), unknown_positions, side="right")
        if self._character_table is not None:  # one token per character
            widths = utf8_widths(code_points("".join(texts))[unknown_positions])
            return EncodedBatch(ids, counts, sum_by_index(widths, text_ids, len(texts)))
        unknown = np.zeros(len(texts), np.int64)
        affected: list[int] = np.unique(text_ids).tolist()
        unknown[affected] = self._encode_uncached([texts[i] for i in affected]).unknown_bytes
        return EncodedBatch(ids, counts, unknown)

    def _encode_uncached(self, texts: Sequence[str], boundaries: Sequence[np.ndarray] | None = None) -> EncodedBatch:
        """`TokenCache.encode_many` with offsets, by the Rust library; split at `boundaries` or by the segmenter."""
        texts = list(map(replace_surrogates, texts))
        boundaries = boundaries or [word_level.segment_boundaries(text, self.segmenter) for text in texts]
        separated = list(map(word_level.insert_separators, texts, boundaries))
        encodings = self._backend.encode_batch(separated, add_special_tokens=False)
        ids, counts = flatten_ints(encoding.ids for encoding in encodings), np.fromiter(map(len, encodings), np.int32)
        offsets, start = token_offsets(encodings), 0
        for positions, count in zip(boundaries, counts.tolist(), strict=True):
            rows = slice(start, start := start + count)
            offsets[rows] = without_separators(offsets[rows], positions)
        unknown = unknown_bytes(texts, ids == self._unk_index, counts, offsets)
        text_starts = np.repeat(global_offsets(texts, [[0]] * len(texts)), counts)
        first_offsets, last_offsets = text_starts + offsets[:, 0], text_starts + last_characters(offsets)
        return EncodedBatch(ids.astype(np.int32), counts, unknown, None, first_offsets, last_offsets)

    def _segmenter_boundaries(self, texts: Sequence[str]) -> np.ndarray | None:
        """`segment_boundaries` of each text, as offsets over all texts."""
        if self.segmenter is None or not texts:
            return None
        han_indices = [index for index, text in enumerate(texts) if has_han(text)]
        if not han_indices:
            return None
        han_texts = [texts[index] for index in han_indices]
        ends = [self.segmenter.word_ends(text) for text in han_texts]
        word_ends, is_han_char = global_offsets(han_texts, ends), is_han(code_points(" ".join(han_texts) + " "))
        is_relevant = is_han_char[word_ends - 1] | is_han_char[word_ends]
        han_starts, text_starts = (global_offsets(selected, [[0]] * len(selected)) for selected in (han_texts, texts))
        return (word_ends + np.repeat(text_starts[han_indices] - han_starts, text_lengths(ends)))[is_relevant]

    def _rarely_repeats(self, texts: Sequence[str]) -> bool:
        """Whether a cache is useless: byte-level BPE takes an unspaced Chinese clause for one word."""
        if self.kind != "bytepair":
            return False
        sample = code_points("".join(texts[:16]))
        return bool(len(sample)) and float(is_han(sample).mean()) > 0.2

    # -- ids to text

    def decode(self, ids: Iterable[int] | np.ndarray, *, specials: bool = False) -> str:
        """The text of ids; special tokens except the unknown one are skipped unless `specials`."""
        hidden = set() if specials else self.special_ids - {self.unk_id}
        visible_ids = [i for i in map(int, ids) if i not in hidden]
        tokens = [self.id_to_token(i) for i in visible_ids]
        if self.kind == "characters":
            return "".join(tokens)
        if self.kind == "words" and self.segmenter is None and self.split == "spaces":
            return " ".join(tokens)
        if self.kind in ("words", "wordpiece"):
            is_continuation = self.continuation_mask[visible_ids].tolist() if visible_ids else []
            return _join_tokens(tokens, is_continuation, len(self.continuation_prefix))
        return self._backend_with_specials.decode(visible_ids, skip_special_tokens=False)

    def id_to_token(self, id: int) -> str:  # noqa: A002 - the field's word
        if not 0 <= id < self.vocab_size:
            raise InputError(f"no token has id {id}", hint=f"ids of this tokenizer are 0 to {self.vocab_size - 1}")
        return self._tokens[id]

    def token_to_id(self, token: str) -> int | None:
        """The id of a token; None if it is not in the vocabulary."""
        return self._token_ids.get(token)

    def vocabulary(self) -> list[str]:
        """All tokens in id order."""
        return list(self._tokens)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of all special tokens, with and without a role."""
        added = {token["id"] for token in self._spec["added_tokens"] if token["special"]}
        return frozenset(added | set(self.special_roles.values()))

    @cached_property
    def continuation_mask(self) -> np.ndarray:
        """True for continuation pieces ("##ing"), which only WordPiece marks.

        (Byte-level BPE marks spaces instead; a token without one may start a word, after a quote for example.)
        """
        prefix = self.continuation_prefix
        if not prefix:
            return np.zeros(self.vocab_size, bool)
        return np.array([len(token) > len(prefix) and token.startswith(prefix) for token in self._tokens])

    @property
    def continuation_prefix(self) -> str:
        """The prefix of continuation pieces; "" without one."""
        model = self._spec["model"]
        return model.get("continuing_subword_prefix") or "" if self.kind == "wordpiece" else ""

    @cached_property
    def lossy_features(self) -> tuple[str, ...]:
        """Features of a text that tokenization loses, so that bits per byte do not include them."""
        normalize, _ = tokenizer_json.preprocessing_steps(self._spec["normalizer"], None)
        samples = {"case": "A", "accents": "é", "compatibility forms": "①"}
        spaced_text = "a \n b"
        num_covered = sum(end - begin for begin, end in self.encode(spaced_text).spans)
        lost_whitespace = ["white space"] if num_covered < len(spaced_text) else []
        return (*lost_whitespace, *(name for name, sample in samples.items() if normalize(sample) != sample))

    # -- specification, saving, caches

    @property
    def spec(self) -> TokenizerSpec:
        """The specification, as in tokenizer.json; not to be modified."""
        return self._spec

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that determines the ids of a text: equal digests, equal ids."""
        return tokenizer_json.spec_digest(self._spec)

    def describe(self) -> dict[str, Any]:
        """A description for users, as JSON values."""
        settings: Mapping[str, Any] = self._spec["model"]["forebear"]
        roles = {role: {"id": i, "token": self._tokens[i]} for role, i in self.special_roles.items()}
        description = {"kind": self.kind, "size": self.vocab_size, "roles": roles, "digest": self.digest}
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
        """Write tokenizer.json atomically."""
        with atomic_write(path) as file:
            file.write(self._file)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, lower: bool | None = None) -> Tokenizer:
        """Read a tokenizer.json, a published vocabulary (BERT's, ERNIE's, GPT-2's) or a folder that has one of them.

        `lower` says whether a plain vocabulary file is for lowercased text; None: inferred from its entries.
        """
        from forebear.data.tokenizers import pretrained

        return pretrained.load_tokenizer(path, lower=lower)

    @cached_property
    def _file(self) -> bytes:  # cached: a run, its corpus and the token cache each need it
        return tokenizer_json.spec_bytes(self._spec)

    @cached_property
    def _token_ids(self) -> dict[str, int]:
        vocabulary = self._spec["model"]["vocab"]
        if isinstance(vocabulary, dict) and len(vocabulary) == self.vocab_size:
            return vocabulary
        return {token: i for i, token in enumerate(self._tokens)}

    @cached_property
    def _backend(self) -> tokenizers.Tokenizer:
        return tokenizer_json.rust_tokenizer(self._spec, specials=False)

    @cached_property
    def _backend_with_specials(self) -> tokenizers.Tokenizer:
        return tokenizer_json.rust_tokenizer(self._spec, specials=True)

    @cached_property
    def _cache(self) -> TokenCache | None:
        rule = pretoken_rule(self._spec)
        return None if rule is None else TokenCache(lambda: self._backend, rule, self._unk_index)

    @property
    def splits_on_whitespace_only(self) -> bool:
        """Whether only white space separates words, so that they are found by their bytes."""
        return self._cache is not None and self._cache.splits_on_whitespace_only

    def preload_cache(self, words: WhitespaceWords, ids: np.ndarray) -> None:
        """Fill the token cache with counted words and their ids."""
        if self._cache is not None:
            self._cache.preload(words, np.where(ids < 0, self._unk_index, ids))

    def clear_cache(self) -> None:
        """Free the memory of caches; they are rebuilt on demand."""
        for attribute in ("_cache", "_file"):
            self.__dict__.pop(attribute, None)

    @cached_property
    def _character_table(self) -> CharacterTable | None:
        is_applicable = self.kind == "characters" and self._spec["normalizer"] is None and self.unk_id is not None
        return CharacterTable(self._tokens, self.special_ids, self.unk_id or 0) if is_applicable else None
