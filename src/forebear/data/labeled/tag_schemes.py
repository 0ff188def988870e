"""Tag schemes (BIO, IOB1, IOBES, BMES, …): detection, conversion of tags and files, validation and repair.

Tags that do not mark entities, such as parts of speech, are plain: any tag may follow any other.

All schemes are read by conlleval's rule: a word continues the entity of the previous word if its tag is I or E, the
previous tag is B or I, and both have the same entity type; any other word that is not O starts an entity. Hence even a
sequence that violates its scheme has entities; repairing it writes these entities as the scheme would.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from forebear.errors import InputError, list_names

Scheme = Literal["BIO", "IOB1", "IOBES", "BMES", "BMEWO", "BILOU"]  # simplest first: it wins ties
AnyScheme = Scheme | Literal["plain"]
PLAIN_SCHEME: Literal["plain"] = "plain"  # tags that mark no entities
Entity = tuple[int, int, str]  # first word, last word + 1, entity type

# The letters of each scheme for the first, an inner and the last word of an entity, and for a single word. IOB1 also
# has B, but only at the start of an entity right after another one of the same type.
SCHEME_LETTERS: dict[str, str] = {
    "BIO": "BIIB", "IOB1": "IIII", "IOBES": "BIES", "BMES": "BMES", "BMEWO": "BMEW", "BILOU": "BILU",
}  # fmt: skip
TAG_ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "W": "S", "U": "S"}  # the same in all schemes
TAG_SEPARATORS = r"|,;+&/\s"
SINGLE_TAG = f"(?:O|[{''.join(TAG_ROLES)}]-[^{TAG_SEPARATORS}]+)"
MULTIPLE_TAGS = re.compile(f"{SINGLE_TAG}(?:[{TAG_SEPARATORS}]+{SINGLE_TAG})+")


@dataclass(frozen=True)
class SchemeGuess:
    """The detected tag scheme, the number of tags that violate it, and the reason for the choice."""

    scheme: AnyScheme
    num_violations: int
    reason: str


class TagTransitions(NamedTuple):
    """Allowed transitions (K, K) from label i to j, and which of the K labels may start and end a sequence."""

    allowed_transitions: np.ndarray
    may_start: np.ndarray
    may_end: np.ndarray


def detect_scheme(sequences: Iterable[Sequence[str]]) -> SchemeGuess:
    """The scheme with the fewest violations (the simplest on ties); plain if the tags mark no entities."""
    # Whether a tag is valid depends only on its neighbors, and there are few distinct trigrams.
    trigrams: Counter[tuple[str, str, str]] = Counter()
    for tags in sequences:
        trigrams.update(_tag_trigrams(tags))
    total = sum(count for trigram, count in trigrams.items() if trigram[1] != "O")
    other_tags = Counter[str]()
    for trigram, count in trigrams.items():
        if not _is_tag(trigram[1]) and _split(trigram[1]):  # raises for several tags on one word
            other_tags[trigram[1]] += count
    if other_tags.total() * 2 > total:
        examples = list_names(sorted(other_tags), 5)
        return SchemeGuess("plain", 0, f"{examples} are no tags of entities, so that each word has its own")
    num_violations = {
        scheme: sum(count for trigram, count in trigrams.items() if _expected_tag(*trigram, scheme) != trigram[1])
        for scheme in get_args(Scheme)
    }
    fewest = min(num_violations.values())
    if fewest * 2 > total:
        examples = ", ".join(sorted(other_tags)[:5]) or "most of them break every scheme"
        hint = "tag each word O, or with B, I, E or S and a kind, as in B-PER"
        raise InputError(f"these are not tags of entities: {examples}", hint=hint)
    best_schemes: list[Scheme] = [scheme for scheme in get_args(Scheme) if num_violations[scheme] == fewest]
    count_text = f"{fewest} of {total} tags break it" if fewest else "no tag breaks it"
    tie_text = f"; {', '.join(best_schemes)} fit alike, and it is the simplest"
    reason = count_text + (tie_text if len(best_schemes) > 1 else ", fewer than any other")
    return SchemeGuess(best_schemes[0], fewest, reason)


def to_iobes(tags: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Convert tags to IOBES; plain tags stay. Raise InputError if tags violate the scheme."""
    return _convert_scheme(tags, scheme, "IOBES")


def from_iobes(tags: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Convert IOBES tags to a scheme; raise InputError if they violate IOBES."""
    return _convert_scheme(tags, "IOBES", scheme)


def scheme_labels(labels: Sequence[str], scheme: AnyScheme) -> list[str]:
    """Each IOBES label in another scheme, out of context; several labels may become equal."""
    letters = dict(zip(SCHEME_LETTERS["IOBES"], SCHEME_LETTERS[scheme], strict=True))
    return [label if label == "O" else letters[label[0]] + label[1:] for label in labels]


def entity_spans(tags: Sequence[str]) -> list[Entity]:
    """(first, last + 1, type) of each entity, in any scheme. Invalid tags count as O (see `scheme_violations`)."""
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
    """The IOBES tags of `num_words` words with these entities; raise InputError if two of them overlap."""
    tags = ["O"] * num_words
    last_end = 0
    for first, end, kind in sorted(entities):
        if not 0 <= first < end <= num_words:
            message = f"an entity from word {first} to {end} in a text of {num_words} words"
            raise InputError(message, hint="mend its places")
        if first < last_end:
            raise _nesting_error(f"two entities share word {first + 1}")
        suffix = f"-{kind}" if kind else ""
        tags[first:end] = [f"I{suffix}"] * (end - first)
        tags[end - 1] = f"E{suffix}"
        tags[first] = f"B{suffix}" if end - first > 1 else f"S{suffix}"
        last_end = end
    return tags


def scheme_violations(tags: Sequence[str], scheme: AnyScheme = "IOBES") -> list[tuple[int, str]]:
    """(index, reason) of every tag that violates the scheme."""
    expected = _expected_tags(tags, scheme)
    return [(index, _violation_reason(tags, index, scheme)) for index, tag in enumerate(tags) if tag != expected[index]]


def repair_tags(tags: Sequence[str], scheme: AnyScheme = "IOBES") -> tuple[list[str], int]:
    """Rewrite tags as the scheme would write their entities (read as conlleval does); also count the changed tags.

    An I after O or after another type starts an entity, an unclosed entity ends with its last word, and an invalid tag
    becomes O.
    """
    repaired = _expected_tags(tags, scheme)
    return repaired, sum(tag != repaired_tag for tag, repaired_tag in zip(tags, repaired, strict=True))


def reject_nested_tags(tags: Sequence[str], *, file: str | None = None, line: int | None = None) -> None:
    """Raise InputError if a word has several tags (B-PER|B-ORG), as for nested entities."""
    for index, tag in enumerate(tags):
        if MULTIPLE_TAGS.fullmatch(tag):
            raise _nesting_error(f"word {index + 1} has several tags ({tag})", file, line)


def scheme_of_examples(examples: list[Any], path: str, scheme: Any, notes: list[str]) -> Any:
    """The scheme of another file than the training file: the same, unless its tags violate it and fit another one."""
    tag_sequences = [example.tags for example in examples if example.tags is not None]
    if scheme == PLAIN_SCHEME or not any(scheme_violations(tags, scheme) for tags in tag_sequences):
        return scheme
    file_guess = detect_scheme(tag_sequences)
    if file_guess.scheme == PLAIN_SCHEME:
        message = f"its tags, such as {tag_sequences[0][0]!r}, make up no names, and names ({scheme}) were learned"
        raise InputError(message, file=path, hint="give a file of names, or ask a run that learned such tags")
    if file_guess.num_violations or file_guess.scheme == scheme:
        return scheme
    scheme_text = f"{file_guess.scheme}: {file_guess.reason}"
    notes.append(f"tags of {path} are read as {scheme_text}; those learned from are {scheme}")
    return file_guess.scheme


def examples_to_iobes(
    examples: list[Any], path: str, scheme: AnyScheme, notes: list[str], *, repair: bool, has_word_lines: bool
) -> list[Any]:
    """The examples of a file with IOBES tags; violations raise InputError, or are repaired and counted in a note.

    `has_word_lines` says that the file has one word per line, so that an error can name its line.
    """
    repairs, converted = 0, []
    for example in examples:
        tags = example.tags
        if tags is not None:
            if not repair and (violations := scheme_violations(tags, scheme)):
                index, reason = violations[0]
                hint = "mend it, or let tags be repaired (and counted) with --on-bad-tags repair"
                message = f"word {index + 1} of the sentence, {example.words[index]!r}: {reason} ({scheme})"
                line = example.location.line
                line = line + index if line is not None and has_word_lines else line
                raise InputError(message, file=path, line=line, hint=hint)
            tags, count = repair_tags(tags, scheme)
            repairs += count
            tags = tuple(to_iobes(tags, scheme))
        converted.append(replace(example, tags=tags))
    if repairs:
        notes.append(f"{repairs:,} tags of {path} broke their scheme and were repaired")
    return converted


def iobes_labels(kinds: Iterable[str]) -> list[str]:
    """O and four labels per entity type: all labels that valid IOBES sequences need."""
    suffixes = [f"-{kind}" if kind else "" for kind in kinds]
    return ["O", *(f"{letter}{suffix}" for suffix in suffixes for letter in SCHEME_LETTERS["IOBES"])]


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the entity type of an IOBES tag; raise InputError for any other tag."""
    role, kind = _split(tag)
    if tag[:1] != role or (role == "O" and tag != "O"):
        raise InputError(f"{tag!r} is no tag of IOBES", hint="give O, or B, I, E or S with a kind, as in B-PER")
    return role, kind


def iobes_transitions(labels: Sequence[str]) -> TagTransitions:
    """The transitions that IOBES allows: an open entity continues with its own type, a closed one cannot."""
    split_labels = [split_tag(label) for label in labels]
    roles, kinds = np.array([role for role, _ in split_labels]), np.array([kind for _, kind in split_labels])
    if "O" in roles and "E" not in roles:  # BIO and IOB1: ends are not marked, and IOB1 starts with I
        return unconstrained_transitions(len(split_labels))
    leaves_open, continues = np.isin(roles, ["B", "I"]), np.isin(roles, ["I", "E"])
    is_same_kind = kinds[:, None] == kinds[None, :]
    allowed = np.where(leaves_open[:, None], continues[None, :] & is_same_kind, ~continues[None, :])
    return TagTransitions(allowed, ~continues, ~leaves_open)


def unconstrained_transitions(num_labels: int) -> TagTransitions:
    """Any label may follow any other."""
    all_allowed = np.ones(num_labels, bool)
    return TagTransitions(np.ones((num_labels, num_labels), bool), all_allowed, all_allowed)


def entity_type(tag: str) -> str:
    """PER of B-PER; a tag without a prefix is its own type."""
    return tag[2:] if tag[1:2] in ("-", "_") and tag[0] in TAG_ROLES and len(tag) > 2 else tag


@lru_cache(maxsize=1 << 16)
def _split(tag: str) -> tuple[str, str]:
    """The IOBES letter and the entity type of a tag; "" for a bare B, as in Chinese word segmentation."""
    if MULTIPLE_TAGS.fullmatch(tag):
        raise _nesting_error(f"a word has several tags ({tag})")
    return (TAG_ROLES[tag[0]], tag[2:]) if _is_tag(tag) and tag != "O" else ("O", "")


def _is_tag(tag: str) -> bool:
    return tag == "O" or (tag[:1] in TAG_ROLES and (len(tag) == 1 or (tag[1] == "-" and len(tag) > 2)))


def _nesting_error(message: str, file: str | None = None, line: int | None = None) -> InputError:
    hint = "keep one entity for each word, the outermost or the innermost, or make a data set for each layer"
    message += ": entities inside others cannot be learned with one tag a word"
    return InputError(message, file=file, line=line, hint=hint)


@lru_cache(maxsize=1 << 16)
def _continues_entity(previous: str, tag: str) -> bool:
    """Whether two adjacent words belong to one entity."""
    (previous_role, previous_kind), (role, kind) = _split(previous), _split(tag)
    return previous_role in ("B", "I") and role in ("I", "E") and previous_kind == kind


@lru_cache(maxsize=1 << 16)
def _expected_tag(previous: str, tag: str, next_tag: str, scheme: Scheme) -> str:
    """How the scheme writes this tag between its two neighbors."""
    role, kind = _split(tag)
    if role == "O":
        return "O"
    starts, ends = not _continues_entity(previous, tag), not _continues_entity(tag, next_tag)
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
        hint = f"choose one of {', '.join((*SCHEME_LETTERS, PLAIN_SCHEME))}"
        raise InputError(f"no scheme of tags is called {scheme!r}", hint=hint)
    return [_expected_tag(*trigram, scheme) for trigram in _tag_trigrams(tags)]


def _convert_scheme(tags: Sequence[str], source: AnyScheme, target: AnyScheme) -> list[str]:
    if PLAIN_SCHEME in (source, target):
        return list(tags)
    if violations := scheme_violations(tags, source):
        index, reason = violations[0]
        more = f" (and {len(violations) - 1} more faults)" if len(violations) > 1 else ""
        raise InputError(f"word {index + 1}: {reason}{more}", hint="mend the tags, or have them repaired")
    return _expected_tags(tags, target)


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
    next_tag = tags[index + 1] if index + 1 < len(tags) else "nothing"
    return f"{tag} leaves its entity open, but after it stands {next_tag}"
