"""Sentences, one a line, whose words have their tags behind a slash: `中国/ns 人民/n`, as in the People's Daily."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from forebear.tasks.examples import Example, Place, Tagged
from forebear.tasks.files.forms import Bad, Wanted, shown
from forebear.text.records import numbered_lines, unbracketed
from forebear.text.sources import Source

MOSTLY = 0.75  # of what stands between spaces is word/tag, in a file of such: a small one may have its faults
LONGEST_TAG, MOST_TAGS = 20, 500  # a tag is short, and there are few different ones


def examples(source: Source, wanted: Wanted) -> Iterator[Example]:
    """One example a line; blank lines are passed over."""
    for line, text, _ in numbered_lines(wanted.blocks(source)):
        if not text or text.isspace():
            continue
        try:
            if "\t" in text and is_in_columns(text):
                raise Bad(f"this line has a word and its tag in columns, word/tag is expected: {shown(text)}")
            words, tags = parted(text)
            yield Tagged(words, _checked(words, tags, wanted), Place(source.name, line))
        except Bad as bad:
            wanted.faults.leave_out(line, str(bad))


def parted(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words and tags of a line, a tag of "" where none stands; of [中央/n 电台/n]nt the words with their own tags."""
    words: list[str] = []
    tags: list[str] = []
    compounds, is_open = "[" in text, False
    for item in text.split():
        word, slash, tag = item.rpartition("/")
        if not slash:
            word, tag = item, ""
        elif compounds:
            word, tag, opens = unbracketed(word, tag, is_open=is_open)
            is_open = (is_open or opens) and "]" not in tag
            tag = tag.partition("]")[0] or tag  # ] itself may be a tag
        if not word or (slash and not tag):
            raise Bad(f"{shown(item)} is not word/tag")
        words.append(word)
        tags.append(tag)
    return tuple(words), tuple(tags)


def _checked(words: Sequence[str], tags: tuple[str, ...], wanted: Wanted) -> tuple[str, ...] | None:
    if wanted.labels == "absent" or (wanted.labels == "optional" and not any(tags)):
        return None
    for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
        if not tag:
            raise Bad(f"word {number} of the sentence, {shown(word)}, has no tag: word/tag is expected")
        if wanted.known is not None and tag not in wanted.known:
            known = ", ".join(sorted(wanted.known)[:20])
            raise Bad(f"the tag {shown(tag)} is not among those that are known: {known}")
    return tags


def is_slashed(lines: Sequence[str]) -> bool:
    """Whether most of what stands between spaces is word/tag, with few different tags that come again."""
    tags: Counter[str] = Counter()
    count = 0
    for item in (item for line in lines for item in line.split()):
        count += 1
        if tag := _tag_of(item):
            tags[tag] += 1
    if not count or tags.total() < MOSTLY * count:
        return False
    written = sum(often for tag, often in tags.items() if not tag[0].isdecimal())  # dates are no tags
    return written > count / 2 and len(tags) <= max(2, min(MOST_TAGS, 0.8 * count))


def is_sentence(line: str) -> bool:
    """Whether most of what stands between the spaces of a line is word/tag."""
    items = line.split()
    slashed = sum(not tag[0].isdecimal() for item in items if (tag := _tag_of(item)))
    return slashed > len(items) / 2 and not is_in_columns(line)


def is_in_columns(line: str) -> bool:
    """Whether a line is a word and its tag with a tab between: no column behind the first is word/tag."""
    return "\t" in line and not any(_tag_of(item) for item in line.split("\t")[1:])


def _tag_of(item: str) -> str:
    """The tag of word/tag; "" where it is none."""
    word, _, tag = item.rpartition("/")
    return tag if word and len(tag) <= LONGEST_TAG else ""
