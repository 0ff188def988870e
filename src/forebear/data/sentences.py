"""Cuts Chinese, English and mixed text into sentences that together are exactly the text, in linear time.

White space between two sentences stands at the head of the second, as byte-level tokenizers want it. The rules are few:
a full-width mark ends a sentence, with the quotes and brackets that close after it; a half-width mark does so where a
space follows and no small letter after it, or where it stands in Chinese; a short list of abbreviations is spared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from forebear.data.io.documents import Document
from forebear.data.tokenizers.offsets import text_lengths

SentenceMode = Literal["split", "lines", "flow", "whole"]
SENTENCE_RULES_VERSION = 2  # changes when the same text gets other sentences

_HARD = "。！？｡‼⁇⁈⁉"  # ends a sentence wherever it stands
_HARD_SET = frozenset(_HARD)
_SOFT = ".!?…．"  # ends one where its neighbours agree
_MARKS = frozenset(_HARD + _SOFT)
_CLOSING = ")]}”’»」』）】》〉〕］｝｣"
_TAIL = re.escape(_CLOSING) + r"\"'\s"
_OPENING = frozenset("([{“‘«「『（【《〈〔［｛｢")
_CONTINUING = frozenset(",;:，、；：､")  # a sentence goes on after these, whatever mark stands before them
_ADDRESS = frozenset("=&/_%#@+-")  # after a mark without a space these are parts of an address, not of prose
_WIDE = "\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
LINE_END = "\n\r\v\f\x85\u2028\u2029"  # Unicode's mandatory breaks
_TITLES = ("《》", "〈〉")
_TITLE_REACH = 32  # characters; a title mark that never closes must not swallow the rest of the text
_BARE_REACH = 4  # characters; quotes and spaces that may stand before the first word
_INITIAL = 2  # letters between the dots of U.S., Ph.D., J.R.R.
_ENDLESS = 1 << 13  # characters; no sentence of several words is longer, unless one of them is
_WORD_REACH = 16  # characters; longer than any abbreviation listed below

# One pass, possessive throughout, so no character is looked at twice: a mark, the marks after it, then everything that
# may close. The first test drops 3.14, example.com and what?x=1 without a call into Python.
_CANDIDATE = re.compile(
    rf"[{_HARD}{_SOFT}](?:(?![0-9A-Za-z])|(?<=[{_HARD}…])|(?<=[{_WIDE}][!?]))"
    rf"([{_HARD}{_SOFT}]*+)[{_HARD}{_SOFT}{_TAIL}]*+(?:\[[0-9]{{1,3}}\][{_TAIL}]*+)*+"
)
_BREAK = re.compile(rf"[{LINE_END}]\s*+")
_SPACES = re.compile(r"(?<=\S) ++(?=\S)")
_ONE_BREAK = re.compile(rf"\r\n|[{LINE_END}]")
_LETTER = rf"[^\W_{_WIDE}]"
_WORD = re.compile(rf"(?<!{_LETTER})(?<!{_LETTER}[.&]){_LETTER}++(?:[.&]{_LETTER}++)*+\Z")
_NEXT_WORD = re.compile(r"[A-Za-z]{3,12}+|[A-Za-z]{1,2}+(?!\.)")  # in J. A. Smith the A is no article
_NUMBERING = re.compile(
    r"[(（\[]?(?:[0-9]{1,3}(?:\.[0-9]{1,3})*|[ivxlIVXL]{1,4}|[A-Za-z]|[一二三四五六七八九十]{1,3})[)）\]]?"
)

# Abbreviations, by what must follow for a sentence to end there: nothing ever does, ...
_NEVER = frozenset(
    "Mr Mrs Ms Mx Dr Prof Rev Hon Gen Col Maj Capt Lt Sgt Cpl Cmdr Adm Gov Sen Rep Pres Supt Messrs Mme Mlle Msgr "
    "Mt Ft v vs cf viz approx resp e.g i.e eg ie feat ed eds trans".split()
)
# ... anything but a number, ...
_BEFORE_NUMBER = frozenset("No Nos no nos Art art p pp c ca b d r fl n".split())
# ... any capital letter, ...
_BEFORE_CAPITAL = frozenset("etc a.m p.m A.M P.M".split())
# ... or only a word that begins a sentence far more often than a name.
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
    """The sentences of a text; joined they are the text, and none is empty.

    `split` ends a sentence at closing punctuation and at every line end; `lines` takes each line for one sentence;
    `flow` reads hard-wrapped prose: a line end is a space, and only a blank line ends a sentence by itself; `whole`
    takes all of it for one, so that its tokens are those of the text as a whole, whatever tokens reach across. Words
    without any mark, on and on, are parted at a space somewhere by `split` and `flow`.
    """
    if mode == "lines" and text and (plain := _plain_lines(text)) is not None:
        return plain
    ends = sentence_ends(text, mode)
    if len(ends) < 2:
        return [text] if text else []
    return [text[start:end] for start, end in pairwise([0, *ends])]


def sentence_ends(text: str, mode: SentenceMode = "split") -> list[int]:
    """Where each sentence ends, in characters: strictly increasing, the last one the text's length."""
    if not text:
        return []
    if mode == "whole":
        return [len(text)]
    ends: list[int] = []
    for start, end in _stretches(text, mode):
        if mode != "lines":
            _marked_ends(text, start, end, ends)
        ends.append(end)
    if not ends:  # white space only
        return [len(text)]
    ends[-1] = len(text)
    return ends if mode == "lines" or len(text) <= _ENDLESS else _with_ends(text, ends)


def _plain_lines(text: str) -> list[str] | None:
    """The lines of a text that line feeds part and no other mark, none of them blank; None where some are not.

    That is how text mostly is, and no pattern has to be tried at every line. As everywhere, white space between two
    lines stands at the head of the second.
    """
    lines = text.split("\n")
    ended = not lines[-1]
    if ended:
        lines.pop()
    visible = [line.rstrip() for line in lines]
    if not all(visible) or any(mark in text for mark in LINE_END[1:]):
        return None
    if visible == lines:  # mostly nothing was stripped, and they are the very same
        made = [visible[0], *["\n" + line for line in visible[1:]]]
    else:
        tails = [line[len(bare) :] for line, bare in zip(lines, visible, strict=True)]
        made = [visible[0], *[f"{tail}\n{line}" for tail, line in zip(tails, visible[1:], strict=False)]]
        made[-1] += tails[-1]
    made[-1] += "\n" if ended else ""
    return made


def _with_ends(text: str, ends: list[int]) -> list[int]:
    """More ends, before spaces, where a sentence is endless: words in a row without any mark."""
    made: list[int] = []
    for start, end in pairwise([0, *ends]):
        last = start  # where it might end
        for gap in _SPACES.finditer(text, start, end) if end - start > _ENDLESS else ():
            if gap.start() - start > _ENDLESS and last > start:
                made.append(start := last)
            last = gap.start()
        if end - start > _ENDLESS and last > start:
            made.append(last)
        made.append(end)
    return made


def _stretches(text: str, mode: SentenceMode) -> list[tuple[int, int]]:
    """The lines or, in flow, the paragraphs: never empty, without the white space around their ends."""
    stretches: list[tuple[int, int]] = []
    start = 0
    for gap in _BREAK.finditer(text):
        if mode == "flow" and not _parts_paragraphs(gap[0]):
            continue
        end = gap.start()
        while end > start and text[end - 1].isspace():  # spaces before this break: no other break looks at them again
            end -= 1
        if end > start:
            stretches.append((start, end))
        start = gap.end()
    if start < len(text):
        stretches.append((start, len(text)))
    return stretches


def _parts_paragraphs(gap: str) -> bool:
    """Whether this white space, which begins with a line end, holds an empty line or a mark of its own."""
    return (len(gap) > 1 and len(_ONE_BREAK.findall(gap)) > 1) or "\f" in gap or "\u2029" in gap


def _marked_ends(text: str, start: int, end: int, ends: list[int]) -> None:
    """Adds the places inside text[start:end] where a sentence ends at a mark."""
    quotes = _QuoteState(text, start, end)
    for match in _CANDIDATE.finditer(text, start, end):
        following = match.end()
        if following == end:
            return
        after_marks = place = match.end(1)
        if following > place and not text[place:following].isspace():
            place, following = _closed(text, place, following, quotes)
        if _is_end(text, start, match.start(), after_marks, place, following):
            ends.append(place)
            start = place


class _QuoteState:
    """Which straight double quotes of a stretch are open, counted once from left to right."""

    __slots__ = ("counted", "end", "odd", "text")

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.counted, self.end, self.odd = text, start, end, 0

    def closes(self, place: int) -> bool:
        """Whether the straight quote here closes what stands before it: white space tells, else the count does."""
        text = self.text
        spaced_before = text[place - 1].isspace()
        spaced_after = place + 1 == self.end or text[place + 1].isspace()
        if text[place] == "'":  # as often an apostrophe, so counting says nothing
            return not spaced_before
        if spaced_before != spaced_after:
            return spaced_after
        self.odd ^= text.count('"', self.counted, place) & 1
        self.counted = place
        return self.odd == 1


def _closed(text: str, place: int, stop: int, quotes: _QuoteState) -> tuple[int, int]:
    """From the end of the marks: where what closes after them ends, and where the next visible character stands."""
    at = place
    while at < stop:
        character = text[at]
        if character.isspace():
            at += 1
            continue
        if character in _MARKS and text[at - 1].isspace():  # tokenised `. . .`, but not `He left. .NET stayed.`
            while at + 1 < stop and text[at + 1] in _MARKS:
                at += 1
            if at + 1 == stop:
                return place, _first_visible(text, place)
        elif character == "[":  # a note's number, [12], belongs to the sentence it touches
            if at > place:
                return place, at
            at = text.index("]", at, stop)
        elif character in "\"'" and not quotes.closes(at):
            return place, at
        at += 1
        place = at
    return place, stop


def _first_visible(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at


def _is_end(text: str, start: int, mark: int, after_marks: int, place: int, following: int) -> bool:
    """Whether the sentence begun at `start` ends at `place`, its marks at `mark`, the next visible one `following`."""
    after, spaced = text[following], following > place
    if after in _CONTINUING or (after == "—" and not spaced):
        return False
    before = text[mark - 1] if mark > start else " "
    if place > after_marks and text[max(start, mark - 1 - (before == " ")) : mark].strip() in _OPENING:
        return False  # (?) and “！” and [ … ] talk about a mark or stand for a gap
    if mark - start <= _BARE_REACH and not any(map(str.isalnum, text[start:mark])):
        return False  # `" ... Thirteen Years Later "`: nothing has been said yet
    if not _HARD_SET.isdisjoint(text[mark:place]):
        return not _in_title(text, start, mark)
    marks, wide_before = text[mark:after_marks], before >= "\u2e80"
    if not spaced:
        if not wide_before and after < "\u2e80":
            return False
        return _ends_unspaced(marks, wide_before, after) and not _in_title(text, start, mark)
    if after.islower() and not wide_before:
        return False
    return marks != "." or before.isspace() or not _is_abbreviation(text, start, mark, following)


def _ends_unspaced(marks: str, wide_before: bool, after: str) -> bool:
    """Half-width marks without a space after them, one neighbour at least being Chinese."""
    wide_after = after >= "\u2e80"
    if marks == ".":
        return wide_before and wide_after  # not Inc.是 nor 1.首先
    if marks == "．":
        return False  # 喬治．華盛頓
    return wide_after or not (after.islower() or after.isdigit() or after in _ADDRESS)


def _in_title(text: str, start: int, mark: int) -> bool:
    """Whether the mark is part of a name, as in 《你好吗？》."""
    low = max(start, mark - _TITLE_REACH)
    for opening, closing in _TITLES:
        opened = text.rfind(opening, low, mark)
        if opened >= 0 and text.rfind(closing, opened, mark) < 0:
            return True
    return False


def _is_abbreviation(text: str, start: int, dot: int, following: int) -> bool:
    """Whether the single full stop at `dot` shortens a word or follows a list's number, and ends no sentence."""
    if dot - start <= 2 * _WORD_REACH and _NUMBERING.fullmatch(text[start:dot].strip()):
        return True
    found = _WORD.search(text[max(start, dot - _WORD_REACH) : dot])
    if not found:
        return False
    word, after = found[0], text[following]
    if len(word) > 1 and word.isupper() and "." not in word:
        word = word.capitalize()
    if word in _NEVER:
        return True
    if word in _BEFORE_NUMBER:
        return after.isdigit()
    if word in _BEFORE_CAPITAL:
        return not after.isupper()
    initials = word[0].isalpha() and ("." in word or word.isupper()) and max(map(len, word.split("."))) <= _INITIAL
    if word in _BEFORE_STARTER or initials:
        starter = _NEXT_WORD.match(text, following)
        return not starter or starter[0] not in _STARTERS
    return False


# Where the lines of documents end, by their bytes: for text in which a line is a sentence and nobody wants its string.
#
# The readable twin is `sentences.split_sentences` with the mode `lines`.


LINE_FEED, TAILS = b"\n", 8  # what parts lines; and how much white space may end one before this is left to the twin
_WHITE = np.array([chr(code).isspace() for code in range(128)] + [False] * 128)  # bytes that are white space
_LINES_WIDE = [c.encode() for c in map(chr, range(128, 0x3001)) if c.isspace()]
_WIDE_TWO, _WIDE_THREE = ([int.from_bytes(c, "big") for c in _LINES_WIDE if len(c) == size] for size in (2, 3))


class DocumentLines(NamedTuple):
    """The lines of documents, one after the other."""

    data: bytes  # all documents, a line feed at the end of each
    ends: np.ndarray  # where each line ends there, white space before the next one not counted
    sizes: np.ndarray  # the bytes of each, as its document has them
    many: np.ndarray  # how many each document has


def document_lines(documents: Sequence[Document]) -> DocumentLines | None:
    """Their lines, if line feeds part them and no other mark, and none is blank; else None."""
    if any(mark in document.text for document in documents for mark in LINE_END[1:]):
        return None
    ended = np.array([document.text.endswith("\n") for document in documents])
    parts = [d.utf8 if done else d.utf8 + LINE_FEED for d, done in zip(documents, ended.tolist(), strict=True)]
    data, borders = b"".join(parts), np.cumsum(text_lengths(parts))
    ends = _visible_ends(np.frombuffer(data, np.uint8))
    if ends is None:
        return None
    many = np.diff(np.searchsorted(ends, borders), prepend=0)
    lasts = np.cumsum(many) - 1
    ends[lasts] = borders  # white space behind its last line is still the document's
    sizes = np.diff(ends, prepend=0)
    sizes[lasts] -= ~ended
    return DocumentLines(data, ends, sizes, many)


def _visible_ends(data: np.ndarray) -> np.ndarray | None:
    """Behind the last visible character of each line of a text that ends with a line feed; None where one has none."""
    ends = np.flatnonzero(data == ord(LINE_FEED))
    begins = np.concatenate(([0], ends[:-1] + 1))
    for _ in range(TAILS):
        if (ends <= begins).any():
            return None
        white = _WHITE[data[ends - 1]]
        if not white.any():
            break
        ends -= white
    else:
        return None
    wide = ends[data[ends - 1] >= 128]
    two = data[wide - 2].astype(np.int64) << 8 | data[wide - 1]
    three = data[np.maximum(wide - 3, 0)].astype(np.int64) << 16 | two
    return None if np.isin(two, _WIDE_TWO).any() or np.isin(three, _WIDE_THREE).any() else ends
