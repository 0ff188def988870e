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
PARTED_BY = r"|,;+&/\s"
ONE = f"(?:O|[{''.join(TAG_ROLES)}]-[^{PARTED_BY}]+)"
SEVERAL = re.compile(f"{ONE}(?:[{PARTED_BY}]+{ONE})+")


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
    threes: Counter[tuple[str, str, str]] = Counter()
    for tags in sequences:
        threes.update(_threes(tags))
    total = sum(often for three, often in threes.items() if three[1] != "O")
    other = Counter[str]()
    for three, often in threes.items():
        if not _reads(three[1]) and _split(three[1]):  # which refuses several tags of one word
            other[three[1]] += often
    if other.total() * 2 > total:
        some = ", ".join(sorted(other)[:5]) + (", …" if len(other) > 5 else "")
        return SchemeGuess("plain", 0, f"{some} are no tags of entities, so that each word has its own")
    broken = {
        scheme: sum(often for three, often in threes.items() if _right(*three, scheme) != three[1])
        for scheme in get_args(Scheme)
    }
    fewest = min(broken.values())
    if fewest * 2 > total:
        some = ", ".join(sorted(other)[:5])
        raise InputError(
            f"these are not tags of entities: {some or 'most of them break every scheme'}",
            hint="tag each word O, or with B, I, E or S and a kind, as in B-PER",
        )
    alike: list[Scheme] = [scheme for scheme in get_args(Scheme) if broken[scheme] == fewest]
    holds = f"{fewest} of {total} tags break it" if fewest else "no tag breaks it"
    why = f"; {', '.join(alike)} fit alike, and it is the simplest" if len(alike) > 1 else ", fewer than any other"
    return SchemeGuess(alike[0], fewest, holds + why)


def to_iobes(tags: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Tags of this scheme as IOBES; plain ones as they are; an error for tags that break it."""
    if scheme == PLAIN_SCHEME:
        return list(tags)
    _refuse_faults(tags, scheme)
    return _written(tags, "IOBES")


def from_iobes(tags: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Tags in IOBES as this scheme writes them; an error for tags that break IOBES."""
    if scheme == PLAIN_SCHEME:
        return list(tags)
    _refuse_faults(tags, "IOBES")
    return _written(tags, scheme)


def scheme_labels(labels: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Labels of IOBES as this scheme writes them by themselves; several of them may be written alike."""
    letters = dict(zip(SCHEME_LETTERS["IOBES"], SCHEME_LETTERS[scheme], strict=True))
    return [label if label == "O" else letters[label[0]] + label[1:] for label in labels]


def entity_spans(tags: Sequence[str]) -> list[Entity]:
    """(first, last + 1, kind) of each entity, in any scheme. What is no tag counts as O: `faults` finds it."""
    found: list[Entity] = []
    before, first, kind = "O", 0, ""
    for place, tag in enumerate((*tags, "O")):
        if not _goes_on(before, tag):
            if before != "O":
                found.append((first, place, kind))
            first = place
        role, kind = _split(tag)
        before = tag if role != "O" else "O"
    return found


def spelled(found: Iterable[Entity], words: int) -> list[str]:
    """The tags, in IOBES, of so many words with these entities; an error where two of them share a word."""
    tags = ["O"] * words
    done = 0
    for first, end, kind in sorted(found):
        if not 0 <= first < end <= words:
            raise InputError(f"an entity from word {first} to {end} in a text of {words} words", hint="mend its places")
        if first < done:
            raise _no_nesting(f"two entities share word {first + 1}")
        tail = f"-{kind}" if kind else ""
        tags[first:end] = [f"I{tail}"] * (end - first)
        tags[end - 1] = f"E{tail}"
        tags[first] = f"B{tail}" if end - first > 1 else f"S{tail}"
        done = end
    return tags


def scheme_violations(tags: Sequence[str], scheme: AnyScheme = "IOBES") -> list[tuple[int, str]]:
    """(place, reason) of every tag that breaks the scheme."""
    right = _written(tags, scheme)
    return [(place, _reason(tags, place, scheme)) for place, tag in enumerate(tags) if tag != right[place]]


def repair_tags(tags: Sequence[str], scheme: AnyScheme = "IOBES") -> tuple[list[str], int]:
    """The tags with which the scheme writes the entities of these, as conlleval reads them; how many were changed.

    An I after O or after another kind begins an entity, one that is not ended ends with its last word, and what is
    no tag becomes O.
    """
    right = _written(tags, scheme)
    return right, sum(tag != other for tag, other in zip(tags, right, strict=True))


def reject_nested_tags(tags: Sequence[str], *, file: str | None = None, line: int | None = None) -> None:
    """An error if a word has several tags (B-PER|B-ORG): of entities inside others one tag a word cannot tell."""
    for place, tag in enumerate(tags):
        if SEVERAL.fullmatch(tag):
            raise _no_nesting(f"word {place + 1} has several tags ({tag})", file, line)


def labels_of(kinds: Iterable[str]) -> list[str]:
    """O, and four labels for each kind: what a tagger chooses from, so that every legal sequence can be said."""
    tails = [f"-{kind}" if kind else "" for kind in kinds]
    return ["O", *(f"{letter}{tail}" for tail in tails for letter in SCHEME_LETTERS["IOBES"])]


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the kind of a tag in IOBES; an error for any other."""
    role, kind = _split(tag)
    if tag[:1] != role or (role == "O" and tag != "O"):
        raise InputError(f"{tag!r} is no tag of IOBES", hint="give O, or B, I, E or S with a kind, as in B-PER")
    return role, kind


def legal_transitions(labels: Sequence[str]) -> TagTransitions:
    """Which of these labels IOBES lets follow which: what is open goes on with its own kind, what is not cannot."""
    parts = [split_tag(label) for label in labels]
    roles, kinds = np.array([role for role, _ in parts]), np.array([kind for _, kind in parts])
    if "O" in roles and "E" not in roles:  # BIO and its kin: nothing says where a name ends, and IOB1 begins with I
        return free_transitions(len(parts))
    leaves_open, goes_on = np.isin(roles, ["B", "I"]), np.isin(roles, ["I", "E"])
    same = kinds[:, None] == kinds[None, :]
    moves = np.where(leaves_open[:, None], goes_on[None, :] & same, ~goes_on[None, :])
    return TagTransitions(moves, ~goes_on, ~leaves_open)


def free_transitions(labels: int) -> TagTransitions:
    """Of so many labels any may follow any."""
    one = np.ones(labels, bool)
    return TagTransitions(np.ones((labels, labels), bool), one, one)


@lru_cache(maxsize=1 << 16)
def _split(tag: str) -> tuple[str, str]:
    """What the tag says of its word, in IOBES's letters, and the kind: nothing for a bare B, as of Chinese words."""
    if SEVERAL.fullmatch(tag):
        raise _no_nesting(f"a word has several tags ({tag})")
    return (TAG_ROLES[tag[0]], tag[2:]) if _reads(tag) and tag != "O" else ("O", "")


def _reads(tag: str) -> bool:
    return tag == "O" or (tag[:1] in TAG_ROLES and (len(tag) == 1 or (tag[1] == "-" and len(tag) > 2)))


def _no_nesting(what: str, file: str | None = None, line: int | None = None) -> InputError:
    return InputError(
        f"{what}: entities inside others cannot be learned with one tag a word",
        file=file,
        line=line,
        hint="keep one entity for each word, the outermost or the innermost, or make a data set for each layer",
    )


@lru_cache(maxsize=1 << 16)
def _goes_on(before: str, tag: str) -> bool:
    """Whether two words that stand beside each other belong to one entity."""
    (left, left_kind), (role, kind) = _split(before), _split(tag)
    return left in ("B", "I") and role in ("I", "E") and left_kind == kind


@lru_cache(maxsize=1 << 16)
def _right(before: str, tag: str, after: str, scheme: Scheme) -> str:
    """How the scheme writes this tag between these two."""
    role, kind = _split(tag)
    if role == "O":
        return "O"
    begins, ends = not _goes_on(before, tag), not _goes_on(tag, after)
    first, inside, last, only = SCHEME_LETTERS[scheme]
    letter = (only if ends else first) if begins else (last if ends else inside)
    left, left_kind = _split(before)
    if scheme == "IOB1" and begins and left != "O" and left_kind == kind:
        letter = "B"
    return f"{letter}-{kind}" if kind else letter


def _threes(tags: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    return zip(("O", *tags), tags, (*tags[1:], "O"), strict=False)


def _written(tags: Sequence[str], scheme: AnyScheme) -> list[str]:
    if scheme == PLAIN_SCHEME:
        return list(tags)
    if scheme not in SCHEME_LETTERS:
        raise InputError(
            f"no scheme of tags is called {scheme!r}",
            hint=f"choose one of {', '.join((*SCHEME_LETTERS, PLAIN_SCHEME))}",
        )
    return [_right(*three, scheme) for three in _threes(tags)]


def _refuse_faults(tags: Sequence[str], scheme: AnyScheme) -> None:
    if wrong := scheme_violations(tags, scheme):
        place, reason = wrong[0]
        more = f" (and {len(wrong) - 1} more faults)" if len(wrong) > 1 else ""
        raise InputError(f"word {place + 1}: {reason}{more}", hint="mend the tags, or have them repaired")


def _reason(tags: Sequence[str], place: int, scheme: AnyScheme) -> str:
    tag = tags[place]
    before = tags[place - 1] if place else "nothing"
    letters = dict.fromkeys("B" + SCHEME_LETTERS[scheme])
    if not _reads(tag) or tag[:1] not in letters:
        return f"{tag!r} is no tag of {scheme}, which has O and {', '.join(letters)} with a kind"
    if scheme == "IOB1":
        return f"{tag} follows {before}, and IOB1 begins with B only right after an entity of the same kind"
    if TAG_ROLES[tag[0]] in ("I", "E") and not _goes_on(before, tag):
        return f"{tag} goes on with an entity, but before it stands {before}"
    return (
        f"{tag} leaves its entity open, but after it stands {tags[place + 1] if place + 1 < len(tags) else 'nothing'}"
    )
