"""What the columns of a table, or the fields of JSON objects, hold: judged by a sample of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from forebear.data.labeled.row_to_example import BadRowError, ColumnRef, label_text

LONGEST_LABEL = 60  # characters

ID = re.compile(r"(?:.*[\W_])?(?:id|ids|idx|index|guid|uid|qid|pid|no|number|编号|序号|索引)|unnamed:? ?\d*", re.DOTALL)
NUMBERED = re.compile(r"(.*?)[\W_]?([0-9]|[a-h]|[一二三四])?[\W_]*", re.DOTALL)

# Names that people give to columns, folded; the first that is there is taken.
TEXT: Sequence[str] = (
    "text sentence content review text_a sent comment document body utterance message query title question "
    "文本 内容 句子 评论 正文 短文"
).split()
LABEL: Sequence[str] = (
    "label labels class category sentiment target gold_label gold tag quality score similarity is_duplicate polarity "
    "stars rating intent topic emotion y answer 标签 类别 分类 情感 标注 评分 得分"
).split()
PAIRS = (
    ("sentence1", "sentence2"), ("text_a", "text_b"), ("premise", "hypothesis"), ("question", "sentence"),
    ("question", "passage"), ("question", "context"), ("query", "document"), ("query", "passage"),
    ("query", "title"), ("text", "pair"), ("source", "target"),
)  # fmt: skip
QUESTION = "question query 问题".split()
PASSAGE = "context passage paragraph document article text 文章 段落 正文 材料".split()
ANSWER = "answers answer answer_text 答案".split()
START = "answer_start start answer_offset 起始 开始位置".split()
WORDS = "tokens words chars characters token word text sentence 词 字".split()
TAGS = "tags ner_tags labels label pos_tags tag ner bio upos pos 标签 标注".split()
CHOICES = "choices options endings candidates question.choices 选项".split()
CHOICE = "choice option ending answer candidate alternative solution sol opt 选项".split()
RIGHT = "label right correct gold answer answerkey answer_key most-plausible-alternative target 答案 标签".split()
BEGINNING = (
    "text question premise context sentence startphrase ctx sent1 goal passage article question.stem 问题 文本"
).split()
OTHERS = (
    "id idx index guid text_b text1 text2 texta textb sentence1 sentence2 sentence_a sentence_b sent2 s1 s2 "
    "hypothesis question1 question2 query1 query2 string split genre 句子1 句子2 文本1 文本2"
).split()
HEADERS = frozenset(
    [*TEXT, *LABEL, *QUESTION, *PASSAGE, *ANSWER, *START, *WORDS, *TAGS, *CHOICES, *RIGHT, *BEGINNING, *OTHERS]
)
# What also is a usual label: alone it does not make a header.
ALSO_LABELS = frozenset(
    "pos ner bio y tag answer answers question query comment document body message title topic gold right correct "
    "target key start goal passage article string split genre index word token solution review 评论 问题 答案".split()
)


def folded(name: ColumnRef) -> str:
    return str(name).strip().strip("#").strip().casefold().replace(" ", "_")


@dataclass(frozen=True)
class ColumnSample:
    """A column and the values of the first rows; judged as text."""

    column: ColumnRef
    values: tuple[Any, ...]

    @property
    def name(self) -> str:
        return folded(self.column) if isinstance(self.column, str) else ""

    @cached_property
    def text_values(self) -> tuple[str, ...]:
        """The values that are there, as text; none if one of them is a list or an object."""
        try:
            return tuple(text for value in self.values if (text := label_text(value)) is not None)
        except BadRowError:
            return ()

    @cached_property
    def num_distinct(self) -> int:
        return len(set(self.text_values))

    @cached_property
    def mean_length(self) -> float:
        return sum(map(len, self.text_values)) / max(1, len(self.text_values))

    @cached_property
    def numeric_values(self) -> tuple[float, ...]:
        """The values as numbers, if all of them are."""
        try:
            numbers = tuple(map(float, self.text_values))
        except ValueError:
            return ()
        return numbers if all(map(math.isfinite, numbers)) else ()

    @property
    def has_decimals(self) -> bool:
        return any(number != int(number) for number in self.numeric_values)

    @cached_property
    def is_id(self) -> bool:
        """Names and counts of rows are neither text nor label."""
        if self.name and ID.fullmatch(self.name):
            return True
        many = len(self.text_values) >= 5 and self.num_distinct == len(self.text_values)
        return many and all(text.isascii() and text.isdecimal() for text in self.text_values)

    @cached_property
    def is_text(self) -> bool:
        """Whether every value that is there is a piece of writing."""
        return (
            bool(self.text_values)
            and not self.numeric_values
            and not self.is_id
            and any(isinstance(it, str) for it in self.values)
        )

    @cached_property
    def lists(self) -> tuple[list[Any], ...]:
        """The values, if they are lists."""
        there = [value for value in self.values if value is not None]
        return tuple(there) if there and all(isinstance(value, list) for value in there) else ()

    def may_be_label(self, longest_mean: float) -> bool:
        """Few different short values; of very few rows, values much shorter than the text."""
        if self.is_id or not self.text_values or max(map(len, self.text_values)) > LONGEST_LABEL:
            return False
        count = len(self.text_values)
        if self.numeric_values and self.has_decimals:
            return True
        if count >= 20:
            return self.num_distinct <= count / 2
        return self.num_distinct <= count / 2 or (self.mean_length <= longest_mean / 2) or bool(self.numeric_values)


def find_column_named(columns: Sequence[ColumnSample], names: Sequence[str]) -> ColumnSample | None:
    """The column with the first of these names."""
    by_name = {column.name: column for column in reversed(columns) if column.name}
    return next((by_name[name] for name in names if name in by_name), None)


def find_label_column(columns: Sequence[ColumnSample]) -> ColumnSample | None:
    """The column of labels: by its name, else the one with the fewest different values."""
    longest = max((column.mean_length for column in columns), default=0.0)
    by_name = [column for column in columns if column.name in LABEL]
    for column in sorted(by_name, key=lambda it: LABEL.index(it.name)):
        if column.lists or not column.text_values or max(map(len, column.text_values)) <= LONGEST_LABEL:
            return column
    able = [column for column in columns if column.may_be_label(longest)]
    able = [column for column in able if not (column.name and column.name in TEXT)]
    place = {id(column): number for number, column in enumerate(columns)}
    # A column with one value says nothing; it is the label only of a file that is sorted by labels.
    order = {
        id(it): (it.num_distinct < 2, it.num_distinct / len(it.text_values), it.mean_length, -place[id(it)])
        for it in able
    }
    return min(able, key=lambda it: order[id(it)], default=None)


def two_of_a_kind(columns: Sequence[ColumnSample]) -> tuple[ColumnSample, ColumnSample] | None:
    """Two columns of text whose names are a pair: sentence1 and sentence2, text_a and text_b."""
    texts = [column for column in columns if column.is_text and column.name]
    by_name = {column.name: column for column in texts}
    for one, other in PAIRS:
        if one in by_name and other in by_name:
            return by_name[one], by_name[other]
    for number, one in enumerate(texts):
        for other in texts[number + 1 :]:
            differing = [pair for pair in zip(one.name, other.name, strict=False) if pair[0] != pair[1]]
            if len(one.name) == len(other.name) and differing in ([("1", "2")], [("a", "b")], [("一", "二")]):
                return one, other
    return None


def find_text_columns(columns: Sequence[ColumnSample]) -> list[ColumnSample]:
    """The columns of text: a pair by name, one by name, else all that are about as long as the longest."""
    if (pair := two_of_a_kind(columns)) is not None:
        return list(pair)
    texts = [column for column in columns if column.is_text]
    if (one := find_column_named(texts, TEXT)) is not None:
        return [one]
    longest = max((column.mean_length for column in texts), default=0.0)
    texts = [column for column in texts if column.mean_length >= longest / 3]
    # A few words that come again and again are a source or a genre, but for want of anything else.
    return [column for column in texts if column.num_distinct > max(1, len(column.text_values) / 50)] or texts


def find_choice_columns(columns: Sequence[ColumnSample]) -> list[ColumnSample]:
    """choice1, choice2 …, ending0 …, option_a …, or A, B, C, D: a run of columns whose names are counted."""
    families: dict[str, list[tuple[str, ColumnSample]]] = {}
    for column in columns:
        if column.name and (match := NUMBERED.fullmatch(column.name)) and match[2]:
            families.setdefault(match[1], []).append((match[2], column))
    for family, members in families.items():
        marks = [mark for mark, _ in members]
        runs = any(marks == list(run[: len(marks)]) for run in ("01234567", "12345678", "abcdefgh", "一二三四"))
        if runs and len(marks) >= 2 and (family in CHOICE or (family == "" and marks[0] == "a" and len(marks) > 2)):
            return [column for _, column in members]
    return []


def is_header(first: list[str], rest: list[list[str]]) -> bool:
    """Whether the first row of a table names its columns."""
    cells = [cell.strip() for cell in first]
    if len(set(cells)) < len(cells) or any(len(cell) > 50 for cell in cells) or not all(cells[1:]):
        return False
    below = [{row[place].strip() for row in rest if place < len(row)} for place in range(len(cells))]
    names = [folded(cell) for place, cell in enumerate(cells) if cell not in below[place]]
    usual = [name for name in names if name in HEADERS]
    if len(usual) > 1 or any(name not in ALSO_LABELS for name in usual):
        return True
    columns = [
        ColumnSample(place, tuple(row[place] for row in rest if place < len(row))) for place in range(len(cells))
    ]
    for cell, column in zip(cells, columns, strict=True):
        if column.numeric_values and not ColumnSample(0, (cell,)).numeric_values:
            return True
    longest = max((column.mean_length for column in columns), default=0.0)
    namelike = all(len(cell.split()) <= 3 and not re.search(r"[.,!?。，！？]", cell) for cell in cells)
    for place, column in enumerate(columns):
        few = column.may_be_label(longest) and column.num_distinct <= len(column.text_values) / 2
        if few and namelike and cells[place] not in below[place] and longest > 2 * max(map(len, cells)):
            return True
    return False
