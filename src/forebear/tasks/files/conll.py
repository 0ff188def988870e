"""Sentences with a word and its tag a line and a blank line between them, as CoNLL's and many Chinese corpora are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from forebear.errors import BadInput
from forebear.tasks.examples import Example, Place, Tagged
from forebear.tasks.files.forms import Bad, Column, Form, Wanted, shown
from forebear.tasks.files.slashed import is_sentence
from forebear.text.records import numbered_lines
from forebear.text.sources import Source

DOCUMENT = "-DOCSTART-"
# Only these divide columns: a word may itself be white space of another kind, such as the full-width space.
GAP = re.compile(r"[ \t]+")
NO_WORD = re.compile(r"\d+[-.]\d+")  # CoNLL-U's lines about several words, or about none


def examples(source: Source, wanted: Wanted) -> Iterator[Example]:
    """One example a sentence; if one of its lines is bad, all of it is."""
    form, faults = wanted.form, wanted.faults
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []
    begin, fault = 0, None
    cells_of = _cutter(form)

    def sentence() -> Iterator[Example]:
        nonlocal fault
        if words and fault is None:
            place, reason = _fault(words, tags, wanted)
            if reason:
                fault = lines[place], reason
            else:
                yield Tagged(tuple(words), _of_interest(tags, wanted), Place(source.name, begin))
        if fault is not None:
            faults.leave_out(*fault)
            fault = None
        for one in (words, tags, lines):
            one.clear()

    for line, text, _ in numbered_lines(wanted.blocks(source)):
        if not text or text.isspace():
            yield from sentence()
            continue
        if not words:
            if form.comments and text[0] == "#" and "\t" not in text:
                continue
            begin = line
        try:
            word, tag = cells_of(text)
        except Bad as bad:
            fault = fault or (line, str(bad))
            words.append("")  # the sentence has begun
            continue
        if word == DOCUMENT:
            continue
        if word is not None:
            words.append(word)
            tags.append(tag)
            lines.append(line)
    yield from sentence()


def _of_interest(tags: list[str], wanted: Wanted) -> tuple[str, ...] | None:
    """The tags of a sentence; None where it has none and need not have any."""
    return None if wanted.labels == "absent" or (wanted.labels == "optional" and not any(tags)) else tuple(tags)


def _fault(words: list[str], tags: list[str], wanted: Wanted) -> tuple[int, str]:
    """What is wrong with the tags of a sentence, and with which word it begins; "" where all is well."""
    for number, tag in enumerate(_of_interest(tags, wanted) or ()):
        if not tag:
            which = f"word {number + 1} of the sentence, {shown(words[number])}, has no tag"
            return number, f"{which}: a word and its tag are expected in each line"
        if wanted.known is not None and tag not in wanted.known:
            known = ", ".join(sorted(wanted.known)[:20])
            return number, f"the tag {shown(tag)} is not among those that are known: {known}"
    return 0, ""


def _cutter(form: Form) -> Callable[[str], tuple[str | None, str]]:
    """The function that finds word and tag in a line; a tag of "" where the line is a word alone, a word of None where
    the line is about no word. Raises Bad."""
    width, word_at = form.width, _number(form.texts[0])
    tag_at = _number(form.label) if form.label is not None else -1
    is_plain = width == 2 and word_at == 0 and tag_at == 1

    def cut(text: str) -> tuple[str | None, str]:
        between = "\t" if "\t" in text else " "
        if is_plain and len(plain := text.split(between)) == 2 and plain[0] and (between == " " or " " not in text):
            return plain[0], plain[1]
        given = _columns(text, width)
        cells = [cell.strip(" ") for cell in given]
        if len(cells) == 1 and width > 1:
            return cells[0], ""
        if len(cells) != width and not _only_ends(cells, width):
            raise Bad(f"the line has {len(cells)} columns, {width} are expected: {shown(text)}{_parting(text, width)}")
        if form.comments and NO_WORD.fullmatch(cells[0]) and word_at:
            return None, ""
        word = cells[word_at] or given[word_at]  # which may be a space
        if not word:
            raise Bad(f"the line has no word: {shown(text)}")
        tag = cells[tag_at].strip() if tag_at >= 0 else ""
        if " " in tag:  # none of a file that spaces part could
            raise Bad(f"the tag {shown(tag)} holds a space: {shown(text)} (only tabs part the columns of this line)")
        return word, tag

    return cut


def _columns(text: str, width: int) -> list[str]:
    """What stands between the tabs of a line; where it has none, between its spaces."""
    if "\t" in text:
        return text.split("\t")
    given = GAP.split(text.strip(" "))
    if len(given) > 2 and is_sentence(text):
        raise Bad(f"this line is word/tag word/tag, a word and its tag are expected in columns: {shown(text)}")
    return [" ", *given] if width == 2 and len(given) == 1 and text.startswith("  ") else given  # the word is a space


def _parting(text: str, width: int) -> str:
    """What to know of tabs and spaces, where a line has too few or too many columns because of them."""
    if "\t" in text:
        mixed = " " in text and len(GAP.split(text.strip(" "))) == width
        return " (its spaces part no columns, as it has tabs)" if mixed else ""
    return " (words that hold spaces need tabs between the columns)" if width == 2 else ""


def _only_ends(cells: list[str], width: int) -> bool:
    """Whether what is too much are empty columns at the end of the line."""
    if len(cells) > width and not any(cells[width:]):
        del cells[width:]
    return len(cells) == width


def _number(column: Column) -> int:
    if isinstance(column, int) or (column.isascii() and column.isdecimal() and column != "0"):
        return int(column) - 1
    raise BadInput(f"no column of words and tags is called {column!r}", remedy="give its number, counted from 1")
