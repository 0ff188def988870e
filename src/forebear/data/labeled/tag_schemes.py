"""Tags of words: the ways in which people write entities as B, I, E, S and O, and from each of them into ours, IOBES.

Tags that say nothing of entities, such as parts of speech, are plain: each word has one by itself, any follows any.

All ways of writing entities are read by one rule, that of conlleval: a word goes on with the entity of the word before
it if its tag says so (I or E), the one before it leaves it open (B or I), and both have the same kind; any other word
that is not O begins an entity. So every sequence of tags has entities, also one that breaks its scheme, and what its
scheme would have written for them is what mends it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np

from forebear.errors import InputError

Scheme = Literal["BIO", "IOB1", "IOBES", "BMES", "BMEWO", "BILOU"]  # the simplest first: it wins where several hold
AnyScheme = Scheme | Literal["plain"]
PLAIN_SCHEME: Literal["plain"] = "plain"  # no scheme of entities: a tag is what it is
Entity = tuple[int, int, str]  # the number of its first word, that after its last, its kind

# How each writes the first word of several, one inside, the last, and the only word. IOB1 has B besides: it begins an
# entity with it where the word before belongs to another of the same kind, and there alone.
SCHEME_LETTERS: dict[str, str] = {
    "BIO": "BIIB", "IOB1": "IIII", "IOBES": "BIES", "BMES": "BMES", "BMEWO": "BMEW", "BILOU": "BILU",
}  # fmt: skip
TAG_ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "W": "S", "U": "S"}  # no two schemes disagree
TAG_SEPARATORS = r"|,;+&/\s"
SINGLE_TAG = f"(?:O|[{''.join(TAG_ROLES)}]-[^{TAG_SEPARATORS}]+)"
MULTIPLE_TAGS = re.compile(f"{SINGLE_TAG}(?:[{TAG_SEPARATORS}]+{SINGLE_TAG})+")


@dataclass(frozen=True)
class SchemeGuess:
    """The scheme of some tags, how many of them break it, and why it was taken."""

    scheme: AnyScheme
    num_violations: int
    reason: str


class TagTransitions(NamedTuple):
    """Of K labels: `moves[i, j]` says whether j may stand right after i; which of them may begin, which may end."""

    allowed_transitions: np.ndarray
    may_start: np.ndarray
    may_end: np.ndarray


def scheme_of(sequences: Iterable[Sequence[str]]) -> AnyScheme:
    """In which way these sequences, best those of a whole file, are tagged."""
    return detect_scheme(sequences).scheme


def detect_scheme(sequences: Iterable[Sequence[str]]) -> SchemeGuess:
    """The scheme that fewest tags break, of several the simplest, and the reason for it; plain if they are no tags of
    entities at all."""
    # Whether a tag is right can be told from its neighbours alone, and different threes are few.
    trigrams: Counter[tuple[str, str, str]] = Counter()
    for tags in sequences:
        trigrams.update(_tag_trigrams(tags))
    total = sum(count for trigram, count in trigrams.items() if trigram[1] != "O")
    other_tags = Counter[str]()
    for trigram, count in trigrams.items():
        if not _is_tag(trigram[1]) and _split(trigram[1]):  # which refuses several tags of one word
            other_tags[trigram[1]] += count
    if other_tags.total() * 2 > total:
        examples = ", ".join(sorted(other_tags)[:5]) + (", …" if len(other_tags) > 5 else "")
        return SchemeGuess("plain", 0, f"{examples} are no tags of entities, so that each word has its own")
    num_violations = {
        scheme: sum(count for trigram, count in trigrams.items() if _expected_tag(*trigram, scheme) != trigram[1])
        for scheme in get_args(Scheme)
    }
    fewest = min(num_violations.values())
    if fewest * 2 > total:
        examples = ", ".join(sorted(other_tags)[:5])
        raise InputError(
            f"these are not tags of entities: {examples or 'most of them break every scheme'}",
            hint="tag each word O, or with B, I, E or S and a kind, as in B-PER",
        )
    best_schemes: list[Scheme] = [scheme for scheme in get_args(Scheme) if num_violations[scheme] == fewest]
    count_text = f"{fewest} of {total} tags break it" if fewest else "no tag breaks it"
    reason = f"; {', '.join(best_schemes)} fit alike, and it is the simplest" if len(best_schemes) > 1 else ", fewer than any other"
    return SchemeGuess(best_schemes[0], fewest, count_text + reason)


def to_iobes(tags: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Tags of this scheme as IOBES; plain ones as they are; an error for tags that break it."""
    if scheme == PLAIN_SCHEME:
        return list(tags)
    _reject_violations(tags, scheme)
    return _expected_tags(tags, "IOBES")


def from_iobes(tags: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Tags in IOBES as this scheme writes them; an error for tags that break IOBES."""
    if scheme == PLAIN_SCHEME:
        return list(tags)
    _reject_violations(tags, "IOBES")
    return _expected_tags(tags, scheme)


def scheme_labels(labels: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Labels of IOBES as this scheme writes them by themselves; several of them may be written alike."""
    letters = dict(zip(SCHEME_LETTERS["IOBES"], SCHEME_LETTERS[scheme], strict=True))
    return [label if label == "O" else letters[label[0]] + label[1:] for label in labels]


def entity_spans(tags: Sequence[str]) -> list[Entity]:
    """(first, last + 1, kind) of each entity, in any scheme. What is no tag counts as O: `faults` finds it."""
    spans: list[Entity] = []
    previous, first, kind = "O", 0, ""
    for index, tag in enumerate((*tags, "O")):
        if not _continues_entity(previous, tag):
            if previous != "O":
                spans.append((first, index, kind))
            first = index
        role, kind = _split(tag)
        previous = tag if role != "O" else "O"
    return spans


def entities_to_iobes(entities: Iterable[Entity], num_words: int) -> list[str]:
    """The tags, in IOBES, of so many words with these entities; an error where two of them share a word."""
    tags = ["O"] * num_words
    last_end = 0
    for first, end, kind in sorted(entities):
        if not 0 <= first < end <= num_words:
            raise InputError(f"an entity from word {first} to {end} in a text of {num_words} words", hint="mend its places")
        if first < last_end:
            raise _nesting_error(f"two entities share word {first + 1}")
        suffix = f"-{kind}" if kind else ""
        tags[first:end] = [f"I{suffix}"] * (end - first)
        tags[end - 1] = f"E{suffix}"
        tags[first] = f"B{suffix}" if end - first > 1 else f"S{suffix}"
        last_end = end
    return tags


def scheme_violations(tags: Sequence[str], scheme: AnyScheme = "IOBES") -> list[tuple[int, str]]:
    """(place, reason) of every tag that breaks the scheme."""
    expected = _expected_tags(tags, scheme)
    return [(index, _violation_reason(tags, index, scheme)) for index, tag in enumerate(tags) if tag != expected[index]]


def repair_tags(tags: Sequence[str], scheme: AnyScheme = "IOBES") -> tuple[list[str], int]:
    """The tags with which the scheme writes the entities of these, as conlleval reads them; how many were changed.

    An I after O or after another kind begins an entity, one that is not ended ends with its last word, and what is
    no tag becomes O.
    """
    repaired = _expected_tags(tags, scheme)
    return repaired, sum(tag != repaired_tag for tag, repaired_tag in zip(tags, repaired, strict=True))


def reject_nested_tags(tags: Sequence[str], *, file: str | None = None, line: int | None = None) -> None:
    """An error if a word has several tags (B-PER|B-ORG): of entities inside others one tag a word cannot tell."""
    for index, tag in enumerate(tags):
        if MULTIPLE_TAGS.fullmatch(tag):
            raise _nesting_error(f"word {index + 1} has several tags ({tag})", file, line)


def labels_of(kinds: Iterable[str]) -> list[str]:
    """O, and four labels for each kind: what a tagger chooses from, so that every legal sequence can be said."""
    suffixes = [f"-{kind}" if kind else "" for kind in kinds]
    return ["O", *(f"{letter}{suffix}" for suffix in suffixes for letter in SCHEME_LETTERS["IOBES"])]


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the kind of a tag in IOBES; an error for any other."""
    role, kind = _split(tag)
    if tag[:1] != role or (role == "O" and tag != "O"):
        raise InputError(f"{tag!r} is no tag of IOBES", hint="give O, or B, I, E or S with a kind, as in B-PER")
    return role, kind


def legal_transitions(labels: Sequence[str]) -> TagTransitions:
    """Which of these labels IOBES lets follow which: what is open goes on with its own kind, what is not cannot."""
    split_labels = [split_tag(label) for label in labels]
    roles, kinds = np.array([role for role, _ in split_labels]), np.array([kind for _, kind in split_labels])
    if "O" in roles and "E" not in roles:  # BIO and its kin: nothing says where a name ends, and IOB1 begins with I
        return free_transitions(len(split_labels))
    leaves_open, continues = np.isin(roles, ["B", "I"]), np.isin(roles, ["I", "E"])
    same = kinds[:, None] == kinds[None, :]
    allowed = np.where(leaves_open[:, None], continues[None, :] & same, ~continues[None, :])
    return TagTransitions(allowed, ~continues, ~leaves_open)


def free_transitions(num_labels: int) -> TagTransitions:
    """Of so many labels any may follow any."""
    all_allowed = np.ones(num_labels, bool)
    return TagTransitions(np.ones((num_labels, num_labels), bool), all_allowed, all_allowed)


@lru_cache(maxsize=1 << 16)
def _split(tag: str) -> tuple[str, str]:
    """What the tag says of its word, in IOBES's letters, and the kind: nothing for a bare B, as of Chinese words."""
    if MULTIPLE_TAGS.fullmatch(tag):
        raise _nesting_error(f"a word has several tags ({tag})")
    return (TAG_ROLES[tag[0]], tag[2:]) if _is_tag(tag) and tag != "O" else ("O", "")


def _is_tag(tag: str) -> bool:
    return tag == "O" or (tag[:1] in TAG_ROLES and (len(tag) == 1 or (tag[1] == "-" and len(tag) > 2)))


def _nesting_error(message: str, file: str | None = None, line: int | None = None) -> InputError:
    return InputError(
        f"{message}: entities inside others cannot be learned with one tag a word",
        file=file,
        line=line,
        hint="keep one entity for each word, the outermost or the innermost, or make a data set for each layer",
    )


@lru_cache(maxsize=1 << 16)
def _continues_entity(previous: str, tag: str) -> bool:
    """Whether two words that stand beside each other belong to one entity."""
    (previous_role, previous_kind), (role, kind) = _split(previous), _split(tag)
    return previous_role in ("B", "I") and role in ("I", "E") and previous_kind == kind


@lru_cache(maxsize=1 << 16)
def _expected_tag(previous: str, tag: str, following: str, scheme: Scheme) -> str:
    """How the scheme writes this tag between these two."""
    role, kind = _split(tag)
    if role == "O":
        return "O"
    starts, ends = not _continues_entity(previous, tag), not _continues_entity(tag, following)
    first, inside, last, single = SCHEME_LETTERS[scheme]
    letter = (single if ends else first) if starts else (last if ends else inside)
    previous_role, previous_kind = _split(previous)
    if scheme == "IOB1" and starts and previous_role != "O" and previous_kind == kind:
        letter = "B"
    return f"{letter}-{kind}" if kind else letter


def _tag_trigrams(tags: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    return zip(("O", *tags), tags, (*tags[1:], "O"), strict=False)


def _expected_tags(tags: Sequence[str], scheme: AnyScheme) -> list[str]:
    if scheme == PLAIN_SCHEME:
        return list(tags)
    if scheme not in SCHEME_LETTERS:
        raise InputError(
            f"no scheme of tags is called {scheme!r}",
            hint=f"choose one of {', '.join((*SCHEME_LETTERS, PLAIN_SCHEME))}",
        )
    return [_expected_tag(*trigram, scheme) for trigram in _tag_trigrams(tags)]


def _reject_violations(tags: Sequence[str], scheme: AnyScheme) -> None:
    if violations := scheme_violations(tags, scheme):
        index, reason = violations[0]
        more = f" (and {len(violations) - 1} more faults)" if len(violations) > 1 else ""
        raise InputError(f"word {index + 1}: {reason}{more}", hint="mend the tags, or have them repaired")


def _violation_reason(tags: Sequence[str], index: int, scheme: AnyScheme) -> str:
    tag = tags[index]
    previous = tags[index - 1] if index else "nothing"
    letters = dict.fromkeys("B" + SCHEME_LETTERS[scheme])
    if not _is_tag(tag) or tag[:1] not in letters:
        return f"{tag!r} is no tag of {scheme}, which has O and {', '.join(letters)} with a kind"
    if scheme == "IOB1":
        return f"{tag} follows {previous}, and IOB1 begins with B only right after an entity of the same kind"
    if TAG_ROLES[tag[0]] in ("I", "E") and not _continues_entity(previous, tag):
        return f"{tag} goes on with an entity, but before it stands {previous}"
    return (
        f"{tag} leaves its entity open, but after it stands {tags[index + 1] if index + 1 < len(tags) else 'nothing'}"
    )
