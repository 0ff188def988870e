"""From a person's labelled files to the examples that a run learns from, and back to the same from what it says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

from forebear.errors import BadInput
from forebear.tasks import tags
from forebear.tasks.examples import Asked, Choices, Example, Labelled, Tagged
from forebear.tasks.files.forms import KINDS, BadRow, Form, Labels
from forebear.tasks.files.reading import as_written, examples, guess
from forebear.tasks.files.splitting import Leaks, divided, labels_of, leaks
from forebear.tasks.files.surveying import survey
from forebear.training.checkpoint import digest

FEW_NAMED = 5  # bad rows, labels or words that are told one by one
TOLD_SHARE = 0.002  # of words in another form; fewer are not told


@dataclass(frozen=True)
class LabelledSource:
    """Files of examples and how to take them: everything that decides what a run learns from.

    task         what they are examples of
    form         how they are written
    dev, test    files of their own; without `dev` a share of the examples is held out by what they say
    on_bad_rows  fail, or skip (each is named)
    test_share   of the examples that are held out for the test, where there is no file for it
    on_bad_tags  tags that break their scheme: fail, or repair (they are counted)
    part         share of the examples to learn from, for learning curves
    """

    task: str
    train: str
    form: Form
    dev: str | None = None
    test: str | None = None
    dev_share: float = 0.1
    on_bad_rows: str = "fail"
    on_bad_tags: str = "fail"
    part: float = 1.0
    test_share: float = 0.0

    def files(self) -> dict[str, str]:
        named = {"train": self.train, "dev": self.dev, "test": self.test}
        return {side: path for side, path in named.items() if path is not None}

    def to_json(self) -> dict[str, Any]:
        told = {**asdict(self), "form": self.form.to_json()}
        return {**told, **{side: os.path.abspath(path) for side, path in self.files().items()}}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> LabelledSource:
        known = {one.name for one in fields(cls)}
        rest = {name: value for name, value in told.items() if name in known - {"form"}}
        return cls(form=Form.from_json(told["form"]), **rest)

    def digests(self) -> dict[str, str]:
        """sha256 of each file: what the same is."""
        return {side: digest(Path(path)) for side, path in self.files().items()}


def labelled_source(
    train: str,
    *,
    task: str | None = None,
    dev: str | None = None,
    test: str | None = None,
    form: Mapping[str, Any] | None = None,
    **settings: Any,
) -> tuple[LabelledSource, list[str]]:
    """A source, with what is not said guessed from the file, and what was guessed in words."""
    task, guessed, notes = guess(train, task, **(form or {}))
    given = {name: value for name, value in settings.items() if value is not None}
    return LabelledSource(task, train, guessed, dev, test, **given), notes


@dataclass(frozen=True, eq=False)
class LabelledData:
    """The examples, what is to be said of them, and the facts of each side. `scheme` is that of tags."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    scheme: str
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def read_labelled(source: LabelledSource) -> LabelledData:
    """All examples of a source; what is wrong with them is an error, or told."""
    notes: list[str] = []
    sides: dict[str, list[Any]] = {"train": [], "dev": [], "test": []}
    for side, path in source.files().items():
        labels: Labels = "optional" if side == "test" else "wanted"
        sides[side] = _read(path, source, labels, notes)
    scheme = _parted(sides, source, notes)
    if not sides["dev"]:
        raise _nothing_held_out(source, sides["train"])
    facts: dict[str, Any] = {}
    for side, found in sides.items():
        if found:
            told = survey(found)
            facts[side] = told.facts()
            notes += told.notes() if side == "train" else []
    for side in ("dev", "test"):
        if sides[side]:
            leaked = leaks(sides["train"], sides[side])
            facts[side]["leaks"] = leaked.facts()
            notes += [f"{side}: {leaked}"] if leaked.count else []
            notes += _unheard_of(side, sides[side], sides["train"])
    return LabelledData(sides["train"], sides["dev"], sides["test"], scheme, notes, facts)


def _parted(sides: dict[str, list[Any]], source: LabelledSource, notes: list[str]) -> str:
    """Brings tags into one form, which it returns, and takes from what was read to teach what is to examine."""
    scheme = _into_iobes(sides, source, notes) if source.task == "tagging" else ""
    share = source.test_share if source.test is None else 0.0
    if source.dev is None or share:
        split = divided(sides["train"], dev=source.dev_share if source.dev is None else 0.0, test=share)
        notes += split.notes
        sides |= {"train": list(split.train)} | ({"dev": list(split.dev)} if source.dev is None else {})
        sides |= {"test": list(split.test)} if share else {}
    if source.part < 1:
        kept = max(2, round(source.part * len(sides["train"])))
        sides["train"] = sorted(sides["train"], key=_by_content)[:kept]
    return scheme


def learned_from(labelled: Mapping[str, Any], found: Iterable[Example]) -> Leaks | None:
    """How many of these examples have taught a run; None where their file is not as it was, so that nobody knows.

    `labelled` is what the run says of its examples. Its other files need not be there.
    """
    source = LabelledSource.from_json(labelled["source"])
    try:
        same = os.path.isfile(source.train) and digest(Path(source.train)) == labelled["digests"]["train"]
    except OSError:  # it may not be read any more
        same = False
    if not same:
        return None
    sides: dict[str, list[Any]] = {"train": _read(source.train, source, "wanted", []), "dev": [], "test": []}
    _parted(sides, source, [])
    return leaks(sides["train"], found)


def _nothing_held_out(source: LabelledSource, found: list[Any]) -> BadInput:
    if looks := survey(found).texts_for_labels:
        return BadInput(looks, file=source.train, remedy="name the column of the labels with --label-column")
    what = "there are too few different examples to hold some out, by which the best weights are chosen"
    return BadInput(what, file=source.train, remedy="give more examples, or a file of them with --dev")


def _unheard_of(side: str, examining: list[Any], teaching: list[Any]) -> list[str]:
    """Labels of a side that nothing teaches."""
    taught = {label for one in teaching for label in labels_of(one)}
    found = [fresh for one in examining if (fresh := {*labels_of(one)} - taught)]
    names = sorted({label for fresh in found for label in fresh})
    if not names:
        return []
    more = f" and {len(names) - FEW_NAMED:,} more" if len(names) > FEW_NAMED else ""
    shown = ", ".join(map(repr, names[:FEW_NAMED])) + more
    have = f"{len(found):,} example{' has' if len(found) == 1 else 's have'} what no training example has"
    return [f"{side}: {have}: the run can never answer {shown}"]


def in_other_forms(data: LabelledData) -> list[str]:
    """Words to be tagged that are the same as taught ones and written otherwise, such as wide digits: １ for 1."""
    taught, notes = {word for one in data.train for word in one.words}, []
    forms = {normalize("NFKC", word) for word in taught}
    for side, examining in (("dev", data.dev), ("test", data.test)):
        fresh = Counter(word for one in examining for word in one.words if word not in taught)
        other = Counter({word: count for word, count in fresh.items() if normalize("NFKC", word) in forms})
        share = other.total() / max(1, sum(len(one.words) for one in examining))
        if share >= TOLD_SHARE:
            shown = f"({other.total():,}, such as {', '.join(word for word, _ in other.most_common(FEW_NAMED))})"
            what = f"{share:.1%} of the words {shown} are in the training examples in another form"
            notes.append(f"{side}: {what}: a run whose tokenizer was trained with --normalise nfkc reads both alike")
    return notes


# What is hashed to order examples. Names of classes and fields are not: renaming one must not change the order.
CONTENT: dict[type[Example], tuple[str, ...]] = {
    Labelled: ("labeled", "texts", "label"),
    Tagged: ("tagged", "words", "tags"),
    Asked: ("question", "question", "passage", "answers"),
    Choices: ("choices", "text", "choices", "right"),
}


def _by_content(example: Example) -> bytes:
    import hashlib

    kind, *names = CONTENT[type(example)]
    values = [getattr(example, name) for name in names]
    if isinstance(example, Asked) and example.answers is not None:
        values[-1] = tuple((span.start, span.text) for span in example.answers)
    return hashlib.blake2b(repr((kind, *values)).encode("utf-8", "replace"), digest_size=8).digest()


def _read(path: str, source: LabelledSource, labels: Labels, notes: list[str]) -> list[Example]:
    bad: list[BadRow] = []
    form = source.form if path == source.train else as_written(path, source.form)
    if form.kind != source.form.kind:
        notes.append(f"{path} is written otherwise than what was learned from: {KINDS[form.kind]}")
    found = list(examples(path, source.task, form, labels=labels, on_bad_rows=source.on_bad_rows, bad=bad))  # pyright: ignore[reportArgumentType]
    notes += _told(bad)
    for one in found if source.task == "tagging" else ():
        tags.refuse_nested(one.tags or (), file=path, line=one.place.line)  # pyright: ignore[reportAttributeAccessIssue]
    if not found:
        raise BadInput("holds no example", file=path, remedy="give a file with at least a few examples")
    return found


def _told(bad: list[BadRow]) -> list[str]:
    more = f"; and {len(bad) - FEW_NAMED:,} more" if len(bad) > FEW_NAMED else ""
    return [f"rows left out or mended: {'; '.join(map(str, bad[:FEW_NAMED]))}{more}"] if bad else []


def _into_iobes(sides: dict[str, list[Any]], source: LabelledSource, notes: list[str]) -> str:
    """Tags of whatever scheme as IOBES; the scheme is that of the examples to learn from."""
    taught: Iterable[Tagged] = (one for one in sides["train"] if one.tags is not None)
    known = tags.recognised(one.tags for one in taught)  # pyright: ignore[reportArgumentType]
    notes.append(f"tags are read as {known.scheme}: {known.reason}")
    for side, path in source.files().items():
        scheme = known.scheme if side == "train" else _own_scheme(sides[side], path, known.scheme, notes)
        sides[side] = _rewritten(sides[side], path, scheme, source, notes)
    return known.scheme


def _own_scheme(found: list[Any], path: str, scheme: Any, notes: list[str]) -> Any:
    """The scheme of one more file: that which was learned, unless only another one holds in all of it."""
    written = [one.tags for one in found if one.tags is not None]
    if scheme == tags.PLAIN or not any(tags.faults(one, scheme) for one in written):
        return scheme
    own = tags.recognised(written)
    if own.scheme == tags.PLAIN:
        what = f"its tags, such as {written[0][0]!r}, make up no names, and names ({scheme}) were learned"
        raise BadInput(what, file=path, remedy="give a file of names, or ask a run that learned such tags")
    if own.faults or own.scheme == scheme:
        return scheme
    notes.append(f"tags of {path} are read as {own.scheme}: {own.reason}; those learned from are {scheme}")
    return own.scheme


def _rewritten(found: list[Any], path: str, scheme: Any, source: LabelledSource, notes: list[str]) -> list[Any]:
    """What breaks the scheme is refused, or repaired and counted."""
    repairs, made = 0, []
    for one in found:
        own = one.tags
        if own is not None:
            if source.on_bad_tags == "fail" and (faults := tags.faults(own, scheme)):
                place, reason = faults[0]
                remedy = "mend it, or let tags be repaired (and counted) with --on-bad-tags repair"
                what = f"word {place + 1} of the sentence, {one.words[place]!r}: {reason} ({scheme})"
                line = one.place.line
                if line is not None and source.form.kind == "conll":  # a word a line
                    line += place
                raise BadInput(what, file=path, line=line, remedy=remedy)
            own, count = tags.repaired(own, scheme)
            repairs += count
            own = tuple(tags.into_iobes(own, scheme))
        made.append(replace(one, tags=own))
    if repairs:
        notes.append(f"{repairs:,} tags of {path} broke their scheme and were repaired")
    return made


def side_of(path: str, source: LabelledSource, scheme: str, notes: list[str]) -> list[Any]:
    """The examples of one more file, read as those of a source are; they may lack labels."""
    found = _read(path, source, "optional", notes)
    if source.task != "tagging":
        return found
    return _rewritten(found, path, _own_scheme(found, path, scheme, notes), source, notes)
