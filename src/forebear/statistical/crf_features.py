"""Feature templates of the CRF, attributes of words, and the index of the features that occur in training."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from unicodedata import category

import numpy as np

from forebear.data.segmentation import has_han
from forebear.data.unicode import SHAPES, word_shapes
from forebear.errors import ForebearError, InputError

# --- Templates such as `word[-1]+word[0]` ---
# A template names attributes and offsets from the word to be labeled; those joined by + are one feature, as in CRF++
# and CRFsuite.


MAX_AFFIX = 4  # characters of the longest prefix and suffix
MAX_OFFSET = 8  # words to either side, at most
MAX_PARTS = 4  # parts of a template, at most
AFFIX_SIZES = range(1, MAX_AFFIX + 1)
AFFIXES = (*(f"prefix{n}" for n in AFFIX_SIZES), *(f"suffix{n}" for n in AFFIX_SIZES))
ATTRIBUTES = ("word", "small", *AFFIXES, "shape", "kind")  # small: in lowercase; shape: Aa0字; kind: one of SHAPES
WORD_TEMPLATES = (
    "word[-2] word[-1] word[0] word[1] word[2] word[-1]+word[0] word[0]+word[1] word[-1]+word[1] small[0]"
    " prefix1[0] prefix2[0] prefix3[0] prefix4[0] suffix1[0] suffix2[0] suffix3[0] suffix4[0]"
    " suffix1[-1] suffix1[1] prefix1[1] suffix2[-1] shape[-1] shape[0] shape[1] shape[-1]+shape[0]+shape[1]"
)
CHARACTER_TEMPLATES = (
    "word[-3] word[-2] word[-1] word[0] word[1] word[2] word[3]"
    " word[-2]+word[-1] word[-1]+word[0] word[0]+word[1] word[1]+word[2] word[-1]+word[1]"
    " word[-2]+word[-1]+word[0] word[-1]+word[0]+word[1] word[0]+word[1]+word[2]"
    " kind[-1] kind[0] kind[1] kind[-1]+kind[0]+kind[1]"
)
_PART = re.compile(r"([a-z]+[1-9]?)\[([+-]?\d+)\]")
_CLASSES = {"Lu": "A", "Lt": "A", "Ll": "a", "Nd": "0", "Nl": "0", "No": "0"}


@dataclass(frozen=True)
class FeatureTemplate:
    """Attribute ids, and the offset of each from the word."""

    parts: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return "+".join(f"{ATTRIBUTES[attribute]}[{offset}]" for attribute, offset in self.parts)


def parse_templates(text: str) -> tuple[FeatureTemplate, ...]:
    """Parse templates separated by spaces or commas; raise InputError for an invalid one."""
    templates = tuple(_parse_template(template) for template in re.split(r"[\s,]+", text.strip()) if template)
    if not templates:
        raise InputError("there is no template", hint="give some, such as word[0] word[-1]+word[0] suffix2[0]")
    duplicates = [str(template) for index, template in enumerate(templates) if template in templates[:index]]
    if duplicates:
        raise InputError(f"the template {duplicates[0]} stands there twice", hint="give it once")
    return templates


def _parse_template(text: str) -> FeatureTemplate:
    parts = []
    for part in re.split(r"\+(?=[a-z])", text):
        match = _PART.fullmatch(part)
        if match is None or match[1] not in ATTRIBUTES:
            hint = f"write NAME[PLACE], joined by + where several count together; names: {', '.join(ATTRIBUTES)}"
            raise InputError(f"{text!r} is no template", hint=hint)
        if abs(int(match[2])) > MAX_OFFSET:
            raise InputError(f"{text!r} looks further than {MAX_OFFSET} words", hint="look nearer to the word")
        parts.append((ATTRIBUTES.index(match[1]), int(match[2])))
    if len(parts) > MAX_PARTS or len(set(parts)) < len(parts):
        raise InputError(f"{text!r} joins too much", hint=f"join at most {MAX_PARTS} different parts by +")
    return FeatureTemplate(tuple(parts))


def word_attributes(word: str) -> tuple[str, ...]:
    """The attributes of a word in the order of ATTRIBUTES; "" for affixes longer than the word."""
    sizes = [size if size <= len(word) else 0 for size in AFFIX_SIZES]
    prefixes, suffixes = (word[:size] for size in sizes), (word[len(word) - size :] for size in sizes)
    kind = SHAPES[int(word_shapes((word,))[0])]
    return (word, word.lower(), *prefixes, *suffixes, shape(word), kind)


def shape(word: str) -> str:
    """Character classes, each run once: 1998年 is 0字, iPhone aAa."""
    return "".join(char_class for char_class, _ in groupby(map(_char_class, word)))


def _char_class(character: str) -> str:
    kind = category(character)
    if kind in _CLASSES:
        return _CLASSES[kind]
    if has_han(character):
        return "字"
    return "l" if kind[0] in "LM" else character if kind[0] == "P" and character in ".,-'" else kind[0].lower()


# --- Ids of attribute values and features ---

NO_FEATURE = -1  # no feature, no value
_LOCK = threading.Lock()  # guards the rows of words outside the vocabulary
MAX_VALUES = 1 << 62  # maximum values of a template: keys must fit into 64 bits


class WordAttributes:
    """Attribute ids of all words of a vocabulary, and of others on demand.

    Values of an attribute are numbered from 1 in vocabulary order; 0 is a position outside the sentence. A word outside
    the vocabulary has no id as a word (NO_FEATURE), but its affixes and shapes have those of other words.

    tokens    the vocabulary
    oov_word  maps an id beyond the vocabulary to its word
    """

    def __init__(self, tokens: Sequence[str], oov_word: Callable[[int], str]) -> None:
        self.size, self._oov_word = len(tokens), oov_word
        self._value_ids: list[dict[str, int]] = [{"": NO_FEATURE} for _ in ATTRIBUTES]
        rows = np.empty((self.size + 1, len(ATTRIBUTES)), np.int32)
        for row, token in enumerate(tokens):
            for column, (value, value_ids) in enumerate(zip(word_attributes(token), self._value_ids, strict=True)):
                rows[row, column] = value_ids.setdefault(value, len(value_ids))
        rows[self.size] = 0
        self._rows = rows
        self._oov_rows: dict[int, int] = {}  # rows of words outside the vocabulary

    def num_values(self) -> list[int]:
        """Number of values of each attribute, including "outside the sentence"."""
        return [len(value_ids) for value_ids in self._value_ids]

    def attribute_rows(self, word_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The table of all rows, and (N,) the row of each word."""
        row_ids = word_ids.astype(np.int64)
        oov_positions = np.flatnonzero(row_ids >= self.size)
        if len(oov_positions):
            distinct, inverse = np.unique(row_ids[oov_positions], return_inverse=True)
            row_ids[oov_positions] = np.array([self._row(word_id) for word_id in distinct.tolist()])[inverse]
        return self._rows, row_ids

    def _row(self, word_id: int) -> int:
        with _LOCK:
            row = self._oov_rows.get(word_id)
            if row is None:
                values = zip(word_attributes(self._oov_word(word_id)), self._value_ids, strict=True)
                new_row = np.array([[value_ids.get(value, NO_FEATURE) for value, value_ids in values]], np.int32)
                row = len(self._rows)
                self._rows = np.concatenate((self._rows, new_row))
                self._oov_rows[word_id] = row  # assigned last, so that an interrupt leaves no id without its row
            return row

    def attribute_text(self, attribute: int, value_id: int) -> str:
        """The text of an attribute value; "" outside the sentence."""
        return next((text for text, i in self._value_ids[attribute].items() if i == value_id), "")


@dataclass(frozen=True, eq=False)
class FeatureIndex:
    """The features: for each template its sorted values, numbered consecutively."""

    templates: tuple[FeatureTemplate, ...]
    keys: tuple[np.ndarray, ...]  # int64, for each template
    _tables: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def first_feature_ids(self) -> np.ndarray:
        return np.concatenate(([0], np.cumsum([len(template_keys) for template_keys in self.keys])))

    @property
    def size(self) -> int:
        return sum(map(len, self.keys))

    @classmethod
    def fit(
        cls,
        templates: tuple[FeatureTemplate, ...],
        attributes: WordAttributes,
        tokens: np.ndarray,
        lengths: np.ndarray,
        min_count: int,
    ) -> tuple[FeatureIndex, np.ndarray]:
        """The features that occur often enough, and (N, T) those of these words."""
        keys, features = [], np.empty((len(tokens), len(templates)), np.int32)
        num_features = 0
        for column, values in enumerate(_values(templates, attributes, tokens, lengths)):
            distinct, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
            is_kept = (counts >= min_count) & (distinct >= 0)
            feature_ids = np.where(is_kept, num_features + np.cumsum(is_kept) - 1, NO_FEATURE)
            features[:, column] = feature_ids[inverse]
            keys.append(distinct[is_kept])
            num_features += int(is_kept.sum())
        return cls(templates, tuple(keys)), features

    def lookup(self, attributes: WordAttributes, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(N, T) the features of these words; NO_FEATURE where there is none."""
        features = np.full((len(tokens), len(self.templates)), NO_FEATURE, np.int32)
        first_id = 0
        for column, values in enumerate(_values(self.templates, attributes, tokens, lengths)):
            keys = self.keys[column]
            if len(self.templates[column].parts) == 1:
                features[:, column] = self._table(column, attributes)[values]
            elif len(keys):
                positions = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
                features[:, column] = np.where(keys[positions] == values, first_id + positions, NO_FEATURE)
            first_id += len(keys)
        return features

    def _table(self, template_id: int, attributes: WordAttributes) -> np.ndarray:
        """Lookup table of a template with one part: value to feature id; the last entry is for NO_FEATURE."""
        table = self._tables.get(template_id)
        if table is None:
            table = np.full(attributes.num_values()[self.templates[template_id].parts[0][0]] + 1, NO_FEATURE, np.int32)
            table[self.keys[template_id]] = self.first_feature_ids[template_id] + np.arange(len(self.keys[template_id]))
            self._tables[template_id] = table
        return table

    def feature(self, feature_id: int, attributes: WordAttributes) -> tuple[str, list[tuple[int, str]]]:
        """The template of a feature, and (offset, value) of each part."""
        template_id = int(np.searchsorted(self.first_feature_ids, feature_id, side="right")) - 1
        key, parts = int(self.keys[template_id][feature_id - self.first_feature_ids[template_id]]), []
        sizes = attributes.num_values()
        for attribute, offset in reversed(self.templates[template_id].parts):
            key, value = divmod(key, sizes[attribute])
            parts.append((offset, attributes.attribute_text(attribute, value)))
        return str(self.templates[template_id]), parts[::-1]

    def arrays(self) -> dict[str, np.ndarray]:
        templates = np.frombuffer(" ".join(map(str, self.templates)).encode(), np.uint8).copy()
        firsts = self.first_feature_ids.astype(np.int64)
        return {"templates": templates, "keys": np.concatenate(self.keys), "firsts": firsts}


def _values(
    templates: tuple[FeatureTemplate, ...], attributes: WordAttributes, tokens: np.ndarray, lengths: np.ndarray
):
    """For each template (N,) the value of each word as one number; NO_FEATURE if it has none."""
    table, rows = attributes.attribute_rows(tokens)
    sizes, max_offset = (
        attributes.num_values(),
        max(abs(offset) for template in templates for _, offset in template.parts),
    )
    padded = np.full(len(tokens) + 2 * max_offset * len(lengths), attributes.size, np.int64)
    positions = np.arange(len(tokens)) + max_offset * (2 * np.repeat(np.arange(len(lengths)), lengths) + 1)
    padded[positions] = rows
    for template in templates:
        if np.prod([float(sizes[attribute]) for attribute, _ in template.parts]) > MAX_VALUES:
            message = f"the template {template} has more values than numbers can tell apart with so many words"
            raise InputError(message, hint="join fewer parts")
        values, is_missing = np.zeros(len(tokens), np.int64), np.zeros(len(tokens), bool)
        for attribute, offset in template.parts:
            value_ids = table[padded[positions + offset], attribute]
            is_missing |= value_ids < 0
            values = values * sizes[attribute] + value_ids
        values[is_missing] = NO_FEATURE
        yield values


def load_index(arrays: dict[str, np.ndarray], templates: tuple[FeatureTemplate, ...]) -> FeatureIndex:
    """From saved arrays; raise ForebearError if they are inconsistent."""
    keys, firsts = arrays["keys"], arrays["firsts"]
    fits = keys.dtype == firsts.dtype == np.int64 and firsts.shape == (len(templates) + 1,) and firsts[0] == 0
    if not fits or firsts[-1] != len(keys) or (np.diff(firsts) < 0).any():
        raise ForebearError("the features of this chain of labels are damaged", hint="train it again")
    return FeatureIndex(templates, tuple(np.split(keys, firsts[1:-1])))
