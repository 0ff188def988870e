"""Column roles of labeled files (text, label, choices, …), from options, or detected by header names and values."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

from forebear.data.io.text_formats import is_column_number
from forebear.data.labeled.labeled_format import BadRowError, ColumnRef, LabeledFormat
from forebear.data.labeled.row_to_example import choice_index, label_text, parse_choices, parse_json_list
from forebear.errors import InputError, list_names

LABEL_SEPARATORS = ("|", ";", "；", "、", ",", "，", " ")
MAX_LABEL_LENGTH = 60  # characters
MAX_NAMES = 12  # classes or tags that a note lists

ID_NAME = re.compile(
    r"(?:.*[\W_])?(?:id|ids|idx|index|guid|uid|qid|pid|no|number|编号|序号|索引)|unnamed:? ?\d*", re.DOTALL
)
NUMBERED_NAME = re.compile(r"(.*?)[\W_]?([0-9]|[a-h]|[一二三四])", re.DOTALL)  # of a name without separators at its end

# Common column names, normalized; the first one present is used.
TEXT_NAMES: Sequence[str] = (
    "text sentence content review text_a sent comment document body utterance message query title question "
    "文本 内容 句子 评论 正文 短文"
).split()
LABEL_NAMES: Sequence[str] = (
    "label labels class category sentiment target gold_label gold tag quality score similarity is_duplicate polarity "
    "stars rating intent topic emotion y answer 标签 类别 分类 情感 标注 评分 得分"
).split()
PAIR_NAMES = (
    ("sentence1", "sentence2"), ("text_a", "text_b"), ("premise", "hypothesis"), ("question", "sentence"),
    ("question", "passage"), ("question", "context"), ("query", "document"), ("query", "passage"),
    ("query", "title"), ("text", "pair"), ("source", "target"),
)  # fmt: skip
QUESTION_NAMES = "question query 问题".split()
PASSAGE_NAMES = "context passage paragraph document article text 文章 段落 正文 材料".split()
ANSWER_NAMES = "answers answer answer_text 答案".split()
START_NAMES = "answer_start start answer_offset 起始 开始位置".split()
WORD_NAMES = "tokens words chars characters token word text sentence 词 字".split()
TAG_NAMES = "tags ner_tags labels label pos_tags tag ner bio upos pos 标签 标注".split()
CHOICE_LIST_NAMES = "choices options endings candidates question.choices 选项".split()
CHOICE_NAMES = "choice option ending answer candidate alternative solution sol opt 选项".split()
GOLD_CHOICE_NAMES = (
    "label right correct gold answer answerkey answer_key most-plausible-alternative target 答案 标签".split()
)
CHOICE_TEXT_NAMES = (
    "text question premise context sentence startphrase ctx sent1 goal passage article question.stem 问题 文本"
).split()
OTHER_NAMES = (
    "id idx index guid text_b text1 text2 texta textb sentence1 sentence2 sentence_a sentence_b sent2 s1 s2 "
    "hypothesis question1 question2 query1 query2 string split genre 句子1 句子2 文本1 文本2"
).split()
HEADER_NAMES = frozenset[str]().union(
    TEXT_NAMES, LABEL_NAMES, QUESTION_NAMES, PASSAGE_NAMES, ANSWER_NAMES, START_NAMES, WORD_NAMES, TAG_NAMES,
    CHOICE_LIST_NAMES, GOLD_CHOICE_NAMES, CHOICE_TEXT_NAMES, OTHER_NAMES,
)  # fmt: skip
# Names that are also common labels: a single one of them does not make a row a header.
HEADER_OR_LABEL_NAMES = frozenset(
    "pos ner bio y tag answer answers question query comment document body message title topic gold right correct "
    "target key start goal passage article string split genre index word token solution review 评论 问题 答案".split()
)


def normalize_column_name(name: ColumnRef) -> str:
    return str(name).strip().strip("#").strip().casefold().replace(" ", "_")


@dataclass(frozen=True)
class Column:
    """A column with its values in the first rows, and their types and statistics."""

    ref: ColumnRef  # its name, or its number from 1
    values: tuple[Any, ...]

    @property
    def name(self) -> str:
        return normalize_column_name(self.ref) if isinstance(self.ref, str) else ""

    @cached_property
    def text_values(self) -> tuple[str, ...]:
        """The present values as text; empty if one of them is a list or an object."""
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
        """The values as numbers; empty unless all of them are finite numbers."""
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
        """Whether the column holds row ids, which are neither text nor label."""
        if self.name and ID_NAME.fullmatch(self.name):
            return True
        is_unique = len(self.text_values) >= 5 and self.num_distinct == len(self.text_values)
        return is_unique and all(text.isascii() and text.isdecimal() for text in self.text_values)

    @cached_property
    def is_text(self) -> bool:
        """Whether the present values are text: not all numbers, not ids."""
        has_text = bool(self.text_values) and any(isinstance(value, str) for value in self.values)
        return has_text and not self.numeric_values and not self.is_id

    @cached_property
    def list_values(self) -> tuple[list[Any], ...]:
        """The present values, if all of them are lists."""
        values = [value for value in self.values if value is not None]
        return tuple(values) if values and all(isinstance(value, list) for value in values) else ()

    def may_be_label(self, max_mean_length: float) -> bool:
        """Whether the column has few distinct short values; with very few rows, values much shorter than the text."""
        if self.is_id or not self.text_values or max(map(len, self.text_values)) > MAX_LABEL_LENGTH:
            return False
        count = len(self.text_values)
        if self.num_distinct <= count / 2 or (self.numeric_values and self.has_decimals):
            return True
        return count < 20 and (self.mean_length <= max_mean_length / 2 or bool(self.numeric_values))


def find_column_named(columns: Sequence[Column], names: Sequence[str]) -> Column | None:
    """The column with the earliest of these names."""
    by_name = {column.name: column for column in reversed(columns) if column.name}
    return next((by_name[name] for name in names if name in by_name), None)


def find_label_column(columns: Sequence[Column]) -> Column | None:
    """The label column: by its name, otherwise the one with the fewest distinct values."""
    max_mean_length = max((column.mean_length for column in columns), default=0.0)
    by_name = [column for column in columns if column.name in LABEL_NAMES]
    for column in sorted(by_name, key=lambda column: LABEL_NAMES.index(column.name)):
        if column.list_values or not column.text_values or max(map(len, column.text_values)) <= MAX_LABEL_LENGTH:
            return column
    # A column with a single value is the label only if the file is sorted by label; the last of equal columns is taken.
    others = [column for column in reversed(columns) if column.name not in TEXT_NAMES]
    return min(
        (column for column in others if column.may_be_label(max_mean_length)),
        key=lambda column: (column.num_distinct < 2, column.num_distinct / len(column.text_values), column.mean_length),
        default=None,
    )


def find_text_columns(columns: Sequence[Column]) -> list[Column]:
    """The text columns: a pair by name (sentence1, sentence2), one by name, otherwise all of about the same length."""
    texts = [column for column in columns if column.is_text]
    by_name = {column.name: column for column in texts if column.name}
    for first, second in PAIR_NAMES:
        if first in by_name and second in by_name:
            return [by_name[first], by_name[second]]
    for first, second in combinations([column for column in texts if column.name], 2):
        differences = [pair for pair in zip(first.name, second.name, strict=False) if pair[0] != pair[1]]
        if len(first.name) == len(second.name) and differences in ([("1", "2")], [("a", "b")], [("一", "二")]):
            return [first, second]
    if (column := find_column_named(texts, TEXT_NAMES)) is not None:
        return [column]
    max_mean_length = max((column.mean_length for column in texts), default=0.0)
    texts = [column for column in texts if column.mean_length >= max_mean_length / 3]
    # A few recurring values are a source or a genre: such a column is used only if there is no other.
    return [column for column in texts if column.num_distinct > max(1, len(column.text_values) / 50)] or texts


def find_choice_columns(columns: Sequence[Column]) -> list[Column]:
    """Columns with consecutively numbered names: choice1, choice2 …, ending0 …, option_a …, or A, B, C, D."""
    groups: dict[str, list[tuple[str, Column]]] = {}
    for column in columns:
        end = max((index for index, character in enumerate(column.name, 1) if character.isalnum()), default=0)
        if column.name and (match := NUMBERED_NAME.fullmatch(column.name, 0, end)):
            groups.setdefault(match[1], []).append((match[2], column))
    for prefix, members in groups.items():
        suffixes = [suffix for suffix, _ in members]
        numberings = ("01234567", "12345678", "abcdefgh", "一二三四")
        is_consecutive = any(suffixes == list(numbering[: len(suffixes)]) for numbering in numberings)
        are_choices = prefix in CHOICE_NAMES or (prefix == "" and suffixes[0] == "a" and len(suffixes) > 2)
        if is_consecutive and len(suffixes) >= 2 and are_choices:
            return [column for _, column in members]
    return []


def is_header(first_row: list[str], rest: list[list[str]]) -> bool:
    """Whether the first row of a table names its columns."""
    cells = [cell.strip() for cell in first_row]
    if len(set(cells)) < len(cells) or any(len(cell) > 50 for cell in cells) or not all(cells[1:]):
        return False
    values_below = [{row[index].strip() for row in rest if index < len(row)} for index in range(len(cells))]
    names = [normalize_column_name(cell) for index, cell in enumerate(cells) if cell not in values_below[index]]
    known_names = [name for name in names if name in HEADER_NAMES]
    if len(known_names) > 1 or any(name not in HEADER_OR_LABEL_NAMES for name in known_names):
        return True
    columns = [Column(i, tuple(row[i] for row in rest if i < len(row))) for i in range(len(cells))]
    for cell, column in zip(cells, columns, strict=True):
        if column.numeric_values and not Column(0, (cell,)).numeric_values:
            return True
    max_mean_length = max((column.mean_length for column in columns), default=0.0)
    looks_like_names = all(len(cell.split()) <= 3 and not re.search(r"[.,!?。，！？]", cell) for cell in cells)
    if not looks_like_names or max_mean_length <= 2 * max(map(len, cells)):
        return False
    return any(
        cell not in values
        and column.may_be_label(max_mean_length)
        and 2 * column.num_distinct <= len(column.text_values)
        for cell, values, column in zip(cells, values_below, columns, strict=True)
    )


# --- Requested columns, and the notes on detected roles ---


class FormatGuess(NamedTuple):
    """The detected task and file format, with notes; the first says which column has which role."""

    task: str
    file_format: LabeledFormat
    notes: list[str]

    def with_prefix(self, description: str) -> FormatGuess:
        """The same with the kind of file before the first note."""
        return self._replace(notes=[description + self.notes[0], *self.notes[1:]])


@dataclass(frozen=True)
class RequestedColumns:
    """The task, columns and label type that the caller requested for a file; the others are detected."""

    file: str
    task: str | None
    text_columns: tuple[ColumnRef, ...]
    label_column: ColumnRef | None
    choice_columns: tuple[ColumnRef, ...]
    multi_label: bool | str  # or the separator of labels
    is_regression: bool | None

    def locate(self, column: ColumnRef, width: int) -> int:
        """The number of a column in a file without column names."""
        if is_column_number(str(column)) and 1 <= int(column) <= width:
            return int(column)
        message = f"there is no column {column}; a row has {width}"
        raise InputError(message, file=self.file, hint="give its number, counted from 1")

    def find_column(self, columns: Sequence[Column], reference: ColumnRef) -> Column:
        """The column with this name in the file, or with this number."""
        for column in columns:
            if column.ref == reference or str(column.ref) == str(reference):
                return column
        number = int(reference) if is_column_number(str(reference)) else 0
        if 1 <= number <= len(columns):
            return columns[number - 1]
        names = ", ".join(str(column.ref) for column in columns)
        message = f"there is no column {reference!r}; there are: {names[:300]}"
        raise InputError(message, file=self.file, hint="choose one")

    def find_texts(self, columns: Sequence[Column]) -> list[Column]:
        """The requested text columns."""
        return [self.find_column(columns, text) for text in self.text_columns]

    def find_label(self, columns: Sequence[Column], names: Sequence[str] = ()) -> Column | None:
        """The requested label column; if none is requested, the column with the earliest of these names."""
        if self.label_column is not None:
            return self.find_column(columns, self.label_column)
        return find_column_named(columns, names)


def column_name(column: Column) -> str:
    return f"column {column.ref}" if isinstance(column.ref, int) else repr(column.ref)


def build_format_guess(
    task: str,
    columns: list[Column],
    file_format: LabeledFormat,
    roles: list[tuple[Column, str]],
    notes: Sequence[str] = (),
) -> FormatGuess:
    """The guess, with the id column, if there is exactly one, and notes on used and unused columns."""
    used = [column for column, _ in roles]
    rest = [column for column in columns if column not in used]
    ids = [column for column in rest if column.name and column.is_id and column.text_values]
    ids = [column.ref for column in ids if column.num_distinct == len(column.text_values)]
    id_column = ids[0] if len(ids) == 1 else None
    description = ", ".join(
        f"{column_name(column)} {'is ' * (index == 0)}{role}" for index, (column, role) in enumerate(roles)
    )

    def is_nested(name: str) -> bool:  # inside a used field, or a used field is inside it
        return any(name.startswith(f"{other.ref}.") or f"{other.ref}".startswith(f"{name}.") for other in used)

    unused = [item for item in rest if item.ref != id_column and not is_nested(str(item.ref))]
    unused_notes = [f"not used: {', '.join(map(column_name, unused))}"] if unused else []
    return FormatGuess(task, replace(file_format, name=id_column), [description, *notes, *unused_notes])


# --- Roles of tagging, question answering and multiple choice ---


def assign_tagging_columns(
    columns: list[Column], requested: RequestedColumns, file_format: LabeledFormat
) -> FormatGuess | None:
    """Assign lists of words and of equally many tags, or a text and one tag for each character."""
    tags = requested.find_label(columns)
    texts = [requested.find_column(columns, text) for text in requested.text_columns[:1]]
    lists = [column for column in columns if column.list_values and column not in texts]
    tags = tags or find_column_named(lists, TAG_NAMES)
    if tags is None:
        return None
    candidates = texts or [column for column in columns if column is not tags and _is_aligned(column, tags)]
    words = find_column_named(candidates, WORD_NAMES) or (candidates[0] if candidates else None)
    if words is None or not _is_aligned(words, tags):
        return None
    names = sorted({str(tag) for row_tags in tags.list_values for tag in row_tags})
    roles = [(words, "the words"), (tags, f"the tags ({len(names)} in the first rows: {list_names(names, MAX_NAMES)})")]
    return build_format_guess("tagging", columns, replace(file_format, texts=(words.ref,), label=tags.ref), roles)


def _is_aligned(words: Column, tags: Column) -> bool:
    aligned = [
        isinstance(row_words, list | str) and isinstance(row_tags, list) and len(row_words) == len(row_tags)
        for row_words, row_tags in zip(words.values, tags.values, strict=True)
        if row_words and row_tags
    ]
    return bool(aligned) and sum(aligned) >= 0.9 * len(aligned)


def assign_qa_columns(
    columns: list[Column], requested: RequestedColumns, file_format: LabeledFormat
) -> FormatGuess | None:
    """Assign a question and a passage by name, and answers that occur in the passage."""
    if requested.text_columns:
        if len(requested.text_columns) != 2 or requested.task != "answering":
            return None
        question, passage = requested.find_texts(columns)
    else:
        texts = [column for column in columns if column.is_text]
        question = find_column_named(texts, QUESTION_NAMES)
        passage = find_column_named([column for column in texts if column is not question], PASSAGE_NAMES)
    if question is None or passage is None:
        return None
    answer = requested.find_label(columns, ANSWER_NAMES)
    if answer is None and (requested.task is None and find_column_named(columns, LABEL_NAMES) is not None):
        return None  # question, passage and label: sentence pairs
    if (
        answer is not None
        and requested.task is None
        and answer.text_values
        and not _answers_in_passage(answer, passage)
    ):
        return None  # answers such as yes and no
    roles, notes = [(question, "the question"), (passage, "the passage")], []
    file_format = replace(file_format, texts=(question.ref, passage.ref))
    if answer is None:
        notes.append("no column looks like an answer")
    else:
        roles.append((answer, "the answer"))
        file_format = replace(file_format, label=answer.ref)
        if (start := find_column_named(columns, START_NAMES)) is not None:
            roles.append((start, "where it begins"))
            file_format = replace(file_format, start=start.ref)
        elif answer.text_values:
            notes.append("nothing says where an answer begins: it is taken where it first stands in the passage")
    return build_format_guess("answering", columns, file_format, roles, notes)


def _answers_in_passage(answer: Column, passage: Column) -> bool:
    occurs = [
        isinstance(answer_text, str) and isinstance(passage_text, str) and answer_text in passage_text
        for answer_text, passage_text in zip(answer.values, passage.values, strict=True)
        if answer_text
    ]
    return sum(occurs) >= len(occurs) / 2


def assign_choice_columns(
    columns: list[Column], requested: RequestedColumns, file_format: LabeledFormat
) -> FormatGuess | None:
    """Assign a text, choices (one list column, or one column each), and the gold choice."""
    lists = [item for item in columns if item.list_values or any(isinstance(value, dict) for value in item.values)]
    if requested.choice_columns:
        choices = [requested.find_column(columns, choice) for choice in requested.choice_columns]
    elif (list_column := find_column_named(lists, CHOICE_LIST_NAMES)) is not None:
        choices = [list_column]
    else:
        choices = find_choice_columns(columns)
    if not choices and requested.task == "choice" and len(columns) >= 4 and not columns[0].name:
        choices = columns[1:-1]  # no names: the text, the choices, the gold choice
    rest = [column for column in columns if column not in choices]
    text_columns = [column for column in rest if column.is_text]
    named_text = find_column_named(text_columns, CHOICE_TEXT_NAMES)
    texts = requested.find_texts(columns) or ([named_text] if named_text else text_columns[:1])
    if not choices or not texts:
        return None
    gold = requested.find_label(columns) or find_column_named(rest, GOLD_CHOICE_NAMES)
    if gold is None and not columns[0].name and columns[-1] in rest:
        gold = columns[-1]
    gold = None if gold in texts else gold
    roles = [(text, "the text") for text in texts]
    roles += [(choices[0], "the choices")] if len(choices) == 1 else [(column, "a choice") for column in choices]
    file_format = replace(file_format, texts=tuple(text.ref for text in texts))
    file_format = replace(file_format, choices=tuple(choice.ref for choice in choices))
    if gold is None:
        return build_format_guess("choice", columns, file_format, roles, ["no column looks like the right choice"])
    first_choice_name, numbering_note = _detect_choice_numbering(gold, choices)
    file_format = replace(file_format, first=first_choice_name, label=gold.ref)
    return build_format_guess("choice", columns, file_format, [*roles, (gold, f"the right one ({numbering_note})")])


def _detect_choice_numbering(gold: Column, choices: list[Column]) -> tuple[str, str]:
    """The name of the first choice in the gold column ("0", "1", "A"; "": choices by their text), and a note."""
    counts, num_texts, values = [], 0, []
    for row, value in enumerate(gold.values):
        try:
            texts, choice_labels = parse_choices([column.values[row] for column in choices])
            gold_text = label_text(value)
        except BadRowError:
            continue
        if gold_text is None or gold_text in choice_labels:
            continue
        values.append(gold_text)
        counts.append(len(texts))
        num_texts += gold_text in [text.strip() for text in texts] and isinstance(value, str)
    for first, note in (("0", "counted from 0"), ("1", "counted from 1"), ("A", "A is the first")):
        numbers = [choice_index(value, first) for value in values]
        in_range = [number is not None and 0 <= number < count for number, count in zip(numbers, counts, strict=True)]
        # If 0 never occurs in many rows, counting starts at 1 although no index exceeds the last choice.
        is_zero_unused = first == "0" and len(values) >= 20 and 0 not in numbers
        are_texts = num_texts == len(values) and gold.num_distinct > max(counts, default=0)
        if values and all(in_range) and not is_zero_unused and not are_texts:
            return first, note
    if num_texts and num_texts >= len(values) / 2:
        return "", "spelled out"
    return "0", "counted from 0"


# --- Roles of classification; choice of the task ---

# For each task, the function that assigns its columns, and their description.
ASSIGNERS: dict[str, tuple[Callable[[list[Column], RequestedColumns, LabeledFormat], FormatGuess | None], str]] = {
    "tagging": (assign_tagging_columns, "a list of words and a list of tags"),
    "choice": (assign_choice_columns, "a text and at least two choices"),
    "answering": (assign_qa_columns, "a question, a passage and an answer"),
}


def assign_columns(columns: list[Column], requested: RequestedColumns, file_format: LabeledFormat) -> FormatGuess:
    """The task and the format with all column roles; the first note names the role of each column."""
    for task, (assign, _) in ASSIGNERS.items():
        if requested.task in (None, task) and (guess := assign(columns, requested, file_format)) is not None:
            return guess
    if requested.task not in ASSIGNERS:
        return _assign_classification_columns(columns, requested, file_format)
    try:
        likely_task = assign_columns(columns, replace(requested, task=None), file_format).task
    except InputError:
        likely_task = ""
    hint = "name the columns with --text-column, --choice-column and --label-column"
    if likely_task and likely_task != requested.task:
        hint = f"the likely task is {likely_task}: --task {likely_task}; or {hint}"
    names = ", ".join(str(column.ref) for column in columns)
    message = f"{requested.task} needs {ASSIGNERS[requested.task][1]}; the columns are: {names[:300]}"
    raise InputError(message, file=requested.file, hint=hint)


def _assign_classification_columns(
    columns: list[Column], requested: RequestedColumns, file_format: LabeledFormat
) -> FormatGuess:
    """Assign text and label columns for classification of one text or of a text pair."""
    named_columns = requested.find_texts(columns)
    others = [column for column in columns if column not in named_columns]
    label = requested.find_label(columns) or find_label_column(others)
    texts = named_columns or find_text_columns([column for column in columns if column is not label])
    if requested.task == "pairs" and len(texts) == 1 and not named_columns:
        rest = [column for column in columns if column.is_text and column not in (label, *texts)]
        texts = sorted([*texts, *rest], key=columns.index) if len(rest) == 1 else texts
    if label is None and not texts:
        raise InputError("no column holds text", file=requested.file, hint="name it with --text-column")
    task = requested.task or {1: "classification", 2: "pairs"}.get(len(texts), "")
    if len(texts) != {"classification": 1, "pairs": 2}.get(task):
        names = ", ".join(map(column_name, texts)) or "none"
        message = f"{len(texts)} column{'s' * (len(texts) != 1)} may hold text ({names})"
        hint = "say which: --text-column, once or twice"
        if requested.task is not None and (likely_task := {1: "classification", 2: "pairs"}.get(len(texts))):
            message += f", which does not fit {requested.task}"
            hint = f"the likely task is {likely_task}: --task {likely_task}; or name the columns with --text-column"
        raise InputError(message, file=requested.file, hint=hint)
    roles = list(zip(texts, ["the text"] if len(texts) == 1 else ["the first text", "the second"], strict=True))
    file_format = replace(file_format, texts=tuple(text.ref for text in texts))
    if label is None:
        return build_format_guess(task, columns, file_format, roles, ["no column looks like a label"])
    file_format, description = _describe_label(label, requested, replace(file_format, label=label.ref))
    return build_format_guess(task, columns, file_format, [*roles, (label, description)])


def _describe_label(
    label: Column, requested: RequestedColumns, file_format: LabeledFormat
) -> tuple[LabeledFormat, str]:
    """The format with the type of the label (one class, several, a number), and a description."""
    cells, lists = label.text_values, label.list_values
    if not lists and file_format.kind in ("tsv", "csv"):
        with contextlib.suppress(BadRowError):
            lists = tuple(map(parse_json_list, cells))
    if requested.multi_label or lists:
        separator = requested.multi_label if isinstance(requested.multi_label, str) else ""
        if not separator and not lists:
            separator = next((mark for mark in LABEL_SEPARATORS if any(mark in cell for cell in cells)), ",")
        if separator:
            parts = [part.strip() for cell in cells for part in cell.split(separator)]
        else:
            parts = [str(part) for labels in lists for part in labels]
        separator_note = f" between {separator!r}" if separator else ", a list"
        description = _describe_classes([*filter(None, parts)], len(label.values))
        file_format = replace(file_format, answer="several", separator=separator)
        return file_format, f"the labels{separator_note} ({description})"
    looks_numeric = bool(label.numeric_values) and label.has_decimals
    if looks_numeric if requested.is_regression is None else requested.is_regression:
        return replace(file_format, answer="number"), f"the label, a number (such as {', '.join(cells[:3])})"
    return file_format, f"the label ({_describe_classes(cells, len(label.values))})"


def _describe_classes(labels: Sequence[str], num_rows: int) -> str:
    names = sorted(set(labels))
    count = f"{len(names)} class{'es' * (len(names) != 1)}"
    return f"{count} in the first {num_rows} rows: {list_names(names, MAX_NAMES)}"
