"""Splitting of Chinese, English and mixed text into sentences, whose concatenation is the text, in linear time.

White space between two sentences belongs to the second, as byte-level tokenizers expect. The rules: full-width
punctuation ends a sentence, with the closing quotes and brackets after it; half-width punctuation does so if a space
and no lowercase letter follow, or within Chinese; there is a short list of abbreviations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from forebear.data.io.document import Document
from forebear.data.tokenizers.offsets import text_lengths

SentenceMode = Literal["split", "lines", "flow", "whole"]
SENTENCE_RULES_VERSION = 2  # incremented when the rules change

_HARD = "。！？｡‼⁇⁈⁉"  # marks that end a sentence in any context
_HARD_SET = frozenset(_HARD)
_SOFT = ".!?…．"  # marks that end a sentence in some contexts
_MARKS = frozenset(_HARD + _SOFT)
_CLOSING = ")]}”’»」』）】》〉〕］｝｣"
_TAIL = re.escape(_CLOSING) + r"\"'\s"
_OPENING = frozenset("([{“‘«「『（【《〈〔［｛｢")
_CONTINUING = frozenset(",;:，、；：､")  # a sentence continues after these, whatever precedes them
_ADDRESS = frozenset("=&/_%#@+-")  # directly after a mark, these are part of an address
_WIDE = "\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
LINE_END = "\n\r\v\f\x85\u2028\u2029"  # Unicode's mandatory breaks
_TITLES = ("《》", "〈〉")
_TITLE_REACH = 32  # characters after an opening title mark, so that an unclosed one does not affect the whole text
_MAX_PREFIX = 4  # characters of quotes and spaces before the first word of a sentence
_MAX_INITIAL_LENGTH = 2  # letters between the dots of U.S., Ph.D., J.R.R.
_MAX_LENGTH = 1 << 13  # characters; the maximum length of a sentence, unless a word is longer
_WORD_REACH = 16  # characters; longer than any abbreviation listed below

# A mark, the marks after it, then closing quotes, brackets and footnote numbers; possessive, so that no character is
# examined twice. The first test excludes 3.14, example.com and what?x=1 without a call into Python.
_CANDIDATE = re.compile(
    rf"[{_HARD}{_SOFT}](?:(?![0-9A-Za-z])|(?<=[{_HARD}…])|(?<=[{_WIDE}][!?]))"
    rf"([{_HARD}{_SOFT}]*+)[{_HARD}{_SOFT}{_TAIL}]*+(?:\[[0-9]{{1,3}}\][{_TAIL}]*+)*+"
)
_BREAK = re.compile(rf"[{LINE_END}]\s*+")
_SPACES = re.compile(r"(?<=\S) ++(?=\S)")
_ONE_BREAK = re.compile(rf"\r\n|[{LINE_END}]")
_LETTER = rf"[^\W_{_WIDE}]"
_WORD = re.compile(rf"(?<!{_LETTER})(?<!{_LETTER}[.&]){_LETTER}++(?:[.&]{_LETTER}++)*+\Z")
_NEXT_WORD = re.compile(r"[A-Za-z]{3,12}+|[A-Za-z]{1,2}+(?!\.)")  # in J. A. Smith the A is not an article
_NUMBERING = re.compile(
    r"[(（\[]?(?:[0-9]{1,3}(?:\.[0-9]{1,3})*|[ivxlIVXL]{1,4}|[A-Za-z]|[一二三四五六七八九十]{1,3})[)）\]]?"
)

# Abbreviations, by what must follow for a sentence to end after them. A sentence never ends after these, ...
_NEVER = frozenset(
    "Mr Mrs Ms Mx Dr Prof Rev Hon Gen Col Maj Capt Lt Sgt Cpl Cmdr Adm Gov Sen Rep Pres Supt Messrs Mme Mlle Msgr "
    "Mt Ft v vs cf viz approx resp e.g i.e eg ie feat ed eds trans".split()
)
# ... it ends if anything but a number follows, ...
_BEFORE_NUMBER = frozenset("No Nos no nos Art art p pp c ca b d r fl n".split())
# ... if a capital letter follows, ...
_BEFORE_CAPITAL = frozenset("etc a.m p.m A.M P.M".split())
# ... or only if a word follows that starts a sentence far more often than it is part of a name.
_BEFORE_STARTER = frozenset(
    "St Ste Ave Blvd Rd Inc Ltd Co Corp Cos Bros Jr Sr Esq al Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue "
    "Tues Thu Thur Thurs Fri Fig Figs fig figs Eq Eqs Sec Secs Vol Vols vol vols Ch Chap Ref Refs Tab Univ Dept Assn "
    "Ph est op cit ft".split()
)
_STARTERS = frozenset(
    "The A An In On At By He She It They We I You This That These Those There Then But And Or So If When While After "
    "Before Although Though Because Since However Also As For From To With Without During Under Until Not No Yes His "
    "Her Its Their My Our Your What Why How Where Which Who Is Was Are Were Do Did Does Once One Some Many Most Both "
    "Each All Another Other Several Such Despite Instead Later Meanwhile Moreover Thus Therefore Today Now".split()
)


def split_sentences(text: str, mode: SentenceMode = "split") -> list[str]:
    """The sentences of a text, none of which is empty; their concatenation is the text.

    `split` ends a sentence at closing punctuation and at every line end; in `lines` each line is a sentence; `flow` is
    for hard-wrapped prose, in which a line end is a space and only blank lines end a sentence; in `whole` the text is
    one sentence. Very long text without punctuation is split at a space by `split` and `flow`.
    """
    if mode == "lines" and text and (plain := _split_plain_lines(text)) is not None:
        return plain
    ends = sentence_ends(text, mode)
    if len(ends) < 2:
        return [text] if text else []
    return [text[start:end] for start, end in pairwise([0, *ends])]


def sentence_ends(text: str, mode: SentenceMode = "split") -> list[int]:
    """The end of each sentence in characters, strictly increasing; the last one is the length of the text."""
    if not text:
        return []
    if mode == "whole":
        return [len(text)]
    ends: list[int] = []
    for start, end in _line_spans(text, mode):
        if mode != "lines":
            _add_punctuation_ends(text, start, end, ends)
        ends.append(end)
    if not ends:  # white space only
        return [len(text)]
    ends[-1] = len(text)
    return ends if mode == "lines" or len(text) <= _MAX_LENGTH else _split_long(text, ends)


def _split_plain_lines(text: str) -> list[str] | None:
    """The lines of a text that is separated by line feeds only and has no blank lines; None for other text.

    A fast path for most text. As everywhere, white space between two lines belongs to the second.
    """
    lines = text.split("\n")
    has_final_newline = not lines[-1]
    if has_final_newline:
        lines.pop()
    visible = [line.rstrip() for line in lines]
    if not all(visible) or any(line_end in text for line_end in LINE_END[1:]):
        return None
    if visible == lines:  # mostly nothing was stripped
        sentences = [visible[0], *["\n" + line for line in visible[1:]]]
    else:
        tails = [line[len(bare) :] for line, bare in zip(lines, visible, strict=True)]
        sentences = [visible[0], *[f"{tail}\n{line}" for tail, line in zip(tails, visible[1:], strict=False)]]
        sentences[-1] += tails[-1]
    sentences[-1] += "\n" if has_final_newline else ""
    return sentences


def _split_long(text: str, ends: list[int]) -> list[int]:
    """Add ends before spaces in sentences that are longer than _MAX_LENGTH."""
    result: list[int] = []
    for start, end in pairwise([0, *ends]):
        candidate = start  # where the sentence may be split
        for space in _SPACES.finditer(text, start, end) if end - start > _MAX_LENGTH else ():
            if space.start() - start > _MAX_LENGTH and candidate > start:
                result.append(start := candidate)
            candidate = space.start()
        if end - start > _MAX_LENGTH and candidate > start:
            result.append(candidate)
        result.append(end)
    return result


def _line_spans(text: str, mode: SentenceMode) -> list[tuple[int, int]]:
    """The spans of lines or, in flow, of paragraphs; not empty, without white space around them."""
    spans: list[tuple[int, int]] = []
    start = 0
    for gap in _BREAK.finditer(text):
        if mode == "flow" and not _separates_paragraphs(gap[0]):
            continue
        end = gap.start()
        while end > start and text[end - 1].isspace():  # spaces before this break
            end -= 1
        if end > start:
            spans.append((start, end))
        start = gap.end()
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def _separates_paragraphs(gap: str) -> bool:
    """Whether this white space, which starts with a line end, has a blank line, form feed or paragraph separator."""
    return (len(gap) > 1 and len(_ONE_BREAK.findall(gap)) > 1) or "\f" in gap or "\u2029" in gap


def _add_punctuation_ends(text: str, start: int, end: int, ends: list[int]) -> None:
    """Add the ends of sentences at punctuation inside text[start:end]."""
    quotes = _QuoteState(text, start, end)
    for match in _CANDIDATE.finditer(text, start, end):
        next_position = match.end()
        if next_position == end:
            return
        after_marks = end_of_marks = match.end(1)
        if next_position > end_of_marks and not text[end_of_marks:next_position].isspace():
            end_of_marks, next_position = _skip_closing(text, end_of_marks, next_position, quotes)
        if _is_end(text, start, match.start(), after_marks, end_of_marks, next_position):
            ends.append(end_of_marks)
            start = end_of_marks


class _QuoteState:
    """Tracks which straight double quotes of a span are open, from left to right."""

    __slots__ = ("counted", "end", "parity", "text")

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.counted, self.end, self.parity = text, start, end, 0

    def closes(self, position: int) -> bool:
        """Whether the straight quote here is a closing one, by white space around it, else by counting."""
        text = self.text
        has_space_before = text[position - 1].isspace()
        has_space_after = position + 1 == self.end or text[position + 1].isspace()
        if text[position] == "'":  # often an apostrophe, so that counting does not help
            return not has_space_before
        if has_space_before != has_space_after:
            return has_space_after
        self.parity ^= text.count('"', self.counted, position) & 1
        self.counted = position
        return self.parity == 1


def _skip_closing(text: str, closed_end: int, limit: int, quotes: _QuoteState) -> tuple[int, int]:
    """The end of closing quotes and brackets after the marks, and the position of the next visible character."""
    position = closed_end
    while position < limit:
        character = text[position]
        if character.isspace():
            position += 1
            continue
        if character in _MARKS and text[position - 1].isspace():  # tokenized `. . .`, but not `He left. .NET stayed.`
            while position + 1 < limit and text[position + 1] in _MARKS:
                position += 1
            if position + 1 == limit:
                return closed_end, limit - len(text[closed_end:limit].lstrip())
        elif character == "[":  # the number of a footnote, [12], belongs to the sentence before
            if position > closed_end:
                return closed_end, position
            position = text.index("]", position, limit)
        elif character in "\"'" and not quotes.closes(position):
            return closed_end, position
        position += 1
        closed_end = position
    return closed_end, limit


def _is_end(text: str, start: int, mark: int, after_marks: int, position: int, next_position: int) -> bool:
    """Whether a sentence from `start` ends at `position`: punctuation at `mark`, before `next_position` only spaces."""
    after, has_space = text[next_position], next_position > position
    if after in _CONTINUING or (after == "—" and not has_space):
        return False
    before = text[mark - 1] if mark > start else " "
    if position > after_marks and text[max(start, mark - 1 - (before == " ")) : mark].strip() in _OPENING:
        return False  # (?) and “！” and [ … ] quote punctuation or mark an omission
    if mark - start <= _MAX_PREFIX and not any(map(str.isalnum, text[start:mark])):
        return False  # `" ... Thirteen Years Later "`: no word yet
    if not _HARD_SET.isdisjoint(text[mark:position]):
        return not _is_in_title(text, start, mark)
    marks, wide_before = text[mark:after_marks], before >= "\u2e80"
    if not has_space:
        if not wide_before and after < "\u2e80":
            return False
        return _ends_unspaced(marks, wide_before, after) and not _is_in_title(text, start, mark)
    if after.islower() and not wide_before:
        return False
    return marks != "." or before.isspace() or not _is_abbreviation(text, start, mark, next_position)


def _ends_unspaced(marks: str, wide_before: bool, after: str) -> bool:
    """Whether half-width marks without a space after them end a sentence; at least one neighbor is Chinese."""
    wide_after = after >= "\u2e80"
    if marks == ".":
        return wide_before and wide_after  # not Inc.是 nor 1.首先
    if marks == "．":
        return False  # 喬治．華盛頓
    return wide_after or not (after.islower() or after.isdigit() or after in _ADDRESS)


def _is_in_title(text: str, start: int, mark: int) -> bool:
    """Whether the mark is part of a title, as in 《你好吗？》."""
    low = max(start, mark - _TITLE_REACH)
    for opening, closing in _TITLES:
        opened = text.rfind(opening, low, mark)
        if opened >= 0 and text.rfind(closing, opened, mark) < 0:
            return True
    return False


def _is_abbreviation(text: str, start: int, dot: int, next_position: int) -> bool:
    """Whether the single full stop at `dot` belongs to an abbreviation or a list number."""
    if dot - start <= 2 * _WORD_REACH and _NUMBERING.fullmatch(text[start:dot].strip()):
        return True
    match = _WORD.search(text[max(start, dot - _WORD_REACH) : dot])
    if not match:
        return False
    word, next_char = match[0], text[next_position]
    if len(word) > 1 and word.isupper() and "." not in word:
        word = word.capitalize()
    if word in _NEVER:
        return True
    if word in _BEFORE_NUMBER:
        return next_char.isdigit()
    if word in _BEFORE_CAPITAL:
        return not next_char.isupper()
    has_short_parts = max(map(len, word.split("."))) <= _MAX_INITIAL_LENGTH
    is_initials = word[0].isalpha() and ("." in word or word.isupper()) and has_short_parts
    if word in _BEFORE_STARTER or is_initials:
        starter = _NEXT_WORD.match(text, next_position)
        return not starter or starter[0] not in _STARTERS
    return False


# --- Lines of documents by their bytes, without creating strings; the reference is `split_sentences` with `lines` ---

LINE_FEED = b"\n"
MAX_TRAILING_SPACES = 8  # at the end of a line; text with more is split into strings
_IS_ASCII_SPACE = np.array([chr(code).isspace() for code in range(128)] + [False] * 128)  # ASCII white space
_WIDE_SPACES = [c.encode() for c in map(chr, range(128, 0x3001)) if c.isspace()]
_TWO_BYTE_SPACES = [int.from_bytes(c, "big") for c in _WIDE_SPACES if len(c) == 2]
_THREE_BYTE_SPACES = [int.from_bytes(c, "big") for c in _WIDE_SPACES if len(c) == 3]


class DocumentLines(NamedTuple):
    """The lines of documents, concatenated."""

    data: bytes  # all documents, a line feed at the end of each
    ends: np.ndarray  # the end of each line, without the white space before the next one
    sizes: np.ndarray  # the bytes of each in its document
    line_counts: np.ndarray  # lines of each document


def document_lines(documents: Sequence[Document]) -> DocumentLines | None:
    """The lines, if they are separated by line feeds only and none is blank; else None."""
    if any(line_end in document.text for document in documents for line_end in LINE_END[1:]):
        return None
    has_final_newlines = np.array([document.text.endswith("\n") for document in documents])
    encoded_documents = [d.utf8 if d.text.endswith("\n") else d.utf8 + LINE_FEED for d in documents]
    data, document_ends = b"".join(encoded_documents), np.cumsum(text_lengths(encoded_documents))
    ends = _visible_ends(np.frombuffer(data, np.uint8))
    if ends is None:
        return None
    num_lines = np.diff(np.searchsorted(ends, document_ends), prepend=0)
    last_lines = np.cumsum(num_lines) - 1
    ends[last_lines] = document_ends  # white space after its last line belongs to the document
    sizes = np.diff(ends, prepend=0)
    sizes[last_lines] -= ~has_final_newlines
    return DocumentLines(data, ends, sizes, num_lines)


def _visible_ends(data: np.ndarray) -> np.ndarray | None:
    """The end of the visible part of each line of a text that ends with a line feed; None if a line is blank."""
    ends = np.flatnonzero(data == ord(LINE_FEED))
    starts = np.concatenate(([0], ends[:-1] + 1))
    for _ in range(MAX_TRAILING_SPACES):
        if (ends <= starts).any():
            return None
        is_space = _IS_ASCII_SPACE[data[ends - 1]]
        if not is_space.any():
            break
        ends -= is_space
    else:
        return None
    wide_ends = ends[data[ends - 1] >= 128]
    last_two_bytes = data[wide_ends - 2].astype(np.int64) << 8 | data[wide_ends - 1]
    last_three_bytes = data[np.maximum(wide_ends - 3, 0)].astype(np.int64) << 16 | last_two_bytes
    ends_with_space = np.isin(last_two_bytes, _TWO_BYTE_SPACES) | np.isin(last_three_bytes, _THREE_BYTE_SPACES)
    return None if ends_with_space.any() else ends
