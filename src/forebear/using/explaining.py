"""What a milestone is: its paper, what it changed, what it predicts from what, its fields, what each size weighs."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from forebear.lineage import LINEAGE, Entry, milestone_named
from forebear.milestones.milestone import Milestone
from forebear.objectives.batch import Batch, Moment, Objective
from forebear.tasks.every_example import AllExamples
from forebear.tasks.examples import Tagged
from forebear.tasks.files.slashed import parted
from forebear.tasks.tagging import Tagging
from forebear.tasks.tags import free
from forebear.text.corpus import Corpus
from forebear.text.pairs import PairedPortion
from forebear.text.sides import Sides
from forebear.text.tokenizer import Tokenizer
from forebear.text.training import train
from forebear.training.recipe import BUDGETS, Recipe, recipe_from
from forebear.using.abilities import verbs
from forebear.using.heeding import IDLE, way_of
from forebear.using.planning import plan
from forebear.using.previewing_hidden import answers_of
from forebear.using.weighing import Weight, weigh
from forebear.vectors.together import Together

EXAMPLE = ("the cat sat on the mat .\nit was warm .", "a dog ran home .\nhe was fast .")  # a sentence a line
TRANSLATED = ("die Katze saß auf der Matte .\nes war warm .", "ein Hund lief heim .\ner war schnell .")
PACE = (*BUDGETS, "batch", "rate", "warmup", "schedule", "cooldown", "decay")  # settings of a recipe that are told
SHOWN = 12  # tokens of the first row
SENTENCE = (
    "An objective ({objective}) turns text into a batch of inputs ({inputs}) and named targets ({targets}); "
    "{answering}; the losses add up."
)
GROWS = (
    "It counts, so that its size follows from the text: a parameter for each different n-gram, at most one of each"
    " length for every token of the text; a prediction costs one search for each length."
)


OF_TAGS = (
    "Its size follows from the examples: a weight for each feature and each label that it was seen with, and for each"
    " move from label to label; to tag a word costs as many moves as there are pairs of labels."
)
TAGGED = ("the/D cat/N sat/V on/P the/D mat/N ./.", "it/R was/V warm/A ./.")


class Nominal(Tokenizer):
    """A small tokenizer that says it has more entries: all that the shape of a network asks of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        vars(self).update(vars(tokenizer))  # it is the same in all else
        self._tokenizer, self.size = tokenizer, size

    def tokens(self) -> list[str]:
        own = self._tokenizer.tokens()[: self.size]
        return own + [""] * (self.size - len(own))


@dataclass(frozen=True)
class Explained:
    """A milestone for a reader."""

    entry: Entry
    paper: str
    changed: str
    sentence: str
    learning: str
    tokenizer: str
    encoder: str
    heads: dict[str, str]  # by name, what answers
    verbs: tuple[str, ...]
    example: dict[str, list[str]]  # one row: what is seen, and what is asked of each token
    fields: dict[str, tuple[Any, str]]  # value and meaning
    recipe: dict[str, Any]  # how long and how fast it learns, where nobody says otherwise
    size: str | None
    vocabulary: int
    sizes: dict[str, dict[str, Any]]  # by name: its fields, and its figures where they do not depend on the text
    remark: str

    def facts(self) -> dict[str, Any]:
        told = asdict(self)
        told["fields"] = {name: {"value": value, "meaning": meaning} for name, (value, meaning) in self.fields.items()}
        return told


def explain(
    name: str, *, size: str | None = None, settings: Mapping[str, Any] | None = None, vocabulary: int | None = None
) -> Explained:
    """Everything about a milestone, in one of its sizes or with fields of one's own."""
    kind = milestone_named(name)
    own = plan(name, (), size=size, settings=settings)
    entries = vocabulary or kind.entries  # so that published sizes come out
    made = {label: _in_size(kind, label) for label in kind.sizes}
    if settings or not made:
        made = {"yours": own.milestone, **made}
    title, body, meanings = _docstring(kind)
    batch, tokenizer = sample(own.milestone)
    encoder, heads = _parts(own.milestone, tokenizer)
    objective = AllExamples() if kind.learns_from == "tags" else own.milestone.objective(tokenizer)
    values = asdict(own.milestone)
    return Explained(
        entry=LINEAGE[name],
        paper=title,
        changed=body,
        sentence=_sentence(type(objective).__name__, batch, encoder, heads, way_of(kind)),
        learning=kind.learning,
        tokenizer=kind.tokenizer,
        encoder=encoder,
        heads=heads,
        verbs=verbs(heads, encodes=kind.learning != "counting", words=kind.tokenizer == "words"),
        example=_example(batch, tokenizer, objective),
        fields={field: (values[field], meanings.get(field, "")) for field in values},
        recipe=_heeded(own.recipe, kind),
        size=own.size,
        vocabulary=entries,
        sizes={label: _sized(one, entries) for label, one in made.items()},
        remark=_remark(kind),
    )


def _remark(kind: type[Milestone]) -> str:
    """What is to be said where a size does not say how large a run becomes."""
    if kind.learning != "counting" or kind.counts_again:
        return ""
    return GROWS if kind.learns_from == "text" else OF_TAGS


def _heeded(recipe: Recipe, kind: type[Milestone]) -> dict[str, Any]:
    """What of a recipe says how long and how fast, as far as it means something to this milestone."""
    idle, _ = IDLE[way_of(kind)]
    told = recipe.to_json()
    return {name: told[name] for name in PACE if name in told and name not in idle}


def abilities(name: str) -> tuple[tuple[str, ...], str]:
    """What a run of this milestone can be asked, and why it is not ready, if it is not; loads no torch."""
    try:
        kind = milestone_named(name)
        heads = _asked(_in_size(kind, kind.size))
    except Exception as error:  # noqa: BLE001 - a milestone under repair must not take the table of contents with it
        return (), f"{type(error).__name__}: {error}"
    return verbs(heads, encodes=kind.learning != "counting", words=kind.tokenizer == "words"), ""


def _asked(milestone: Milestone) -> Iterable[str]:
    """The names of an objective's targets: as it says itself, or as a batch of it has them."""
    if milestone.learns_from == "tags":
        return ("tag",)
    if milestone.learns_from == "text":
        objective = milestone.objective(_as_corpus(EXAMPLE).tokenizer)
        if isinstance(objective, Together):
            return objective.asks
    return sample(milestone)[0].targets


def _in_size(kind: type[Milestone], size: str) -> Milestone:
    return kind(**kind.sizes.get(size, {}))


def sample(milestone: Milestone) -> tuple[Batch, Any]:
    """The objective's first batch of two tiny documents, and the tokenizer, or both, that cut them."""
    if milestone.learns_from == "tags":
        examples = [Tagged(*parted(line)) for line in TAGGED]
        task = Tagging.learned(examples, scheme="plain")
        tokenizer = train("words", [" ".join(one.words) for one in examples], split="spaces")
        rows = task.rows(examples, tokenizer, milestone.layout(tokenizer))
        return AllExamples().batch(rows, 0, Moment(0, 0)), tokenizer
    if milestone.learns_from == "pairs":
        read, written = (_as_corpus(texts) for texts in (TRANSLATED, EXAMPLE))
        sides = Sides(read.tokenizer, written.tokenizer)
        pairs = PairedPortion(read.whole(), written.whole(), np.arange(len(EXAMPLE)))
        size = sum(len(corpus) + len(EXAMPLE) for corpus in (read, written))
        return milestone.objective(sides).batch(pairs, size, Moment(0, 0)), sides
    corpus = _as_corpus(EXAMPLE)
    tokenizer, size = corpus.tokenizer, len(corpus) + len(corpus.sizes)
    return milestone.objective(tokenizer).batch(corpus.whole(), size, Moment(0, 0)), tokenizer


def _as_corpus(texts: Sequence[str]) -> Corpus:
    """These documents of a sentence a line, cut into words, as a corpus that is on no disk."""
    tokenizer = train("words", texts)
    documents = [text.split("\n") for text in texts]
    cut = [tokenizer.encode(sentence).ids for sentences in documents for sentence in sentences]
    starts = np.cumsum([0, *map(len, cut)])
    sizes = np.array([len(sentence) for sentences in documents for sentence in sentences])
    arrays = {
        "ids": np.concatenate(cut),
        "sentences": starts,
        "documents": np.cumsum([0, *map(len, documents)]),
        "hashes": np.arange(len(documents), dtype=np.uint64),
        "sizes": sizes,
        "unknown": np.zeros_like(sizes),
        "words": None,
    }
    key = hashlib.sha256(repr(texts).encode()).hexdigest()
    corpus = Corpus(folder=Path(), facts={"key": key}, **arrays)
    corpus.__dict__["tokenizer"] = tokenizer  # which one on disk would find beside it
    return corpus


def _sentence(objective: str, batch: Batch, encoder: str, heads: Mapping[str, str], learning: str) -> str:
    """The design's one sentence, with this milestone's values."""
    told = ", ".join(f"{name}: {what}" for name, what in heads.items())
    answering = f"an encoder ({encoder}) turns inputs into states; heads of the same names ({told}) answer"
    if not heads:
        answering = "nothing is learned, and nothing answered"
    elif not encoder:
        does = {"counting": "counts what follows what", "recounting": "counts the states it expects"}
        does = does.get(learning, "moves the vectors of words")
        does = "weighs what is seen of each word and what follows what" if "tag" in heads else does
        answering = " and ".join(f"{what} {does} and answers {name}" for name, what in heads.items())
    inputs, targets = ", ".join(batch.inputs), ", ".join(batch.targets)
    return SENTENCE.format(objective=objective, inputs=inputs, targets=targets, answering=answering)


def _parts(milestone: Milestone, tokenizer: Any) -> tuple[str, dict[str, str]]:
    """What turns inputs into states (nothing, in a model that counts), and what answers by each name."""
    if milestone.learns_from == "tags":
        return "", {"tag": type(milestone.tagger(tokenizer, free(1))).__name__}
    network = milestone.network(tokenizer)
    if milestone.learning != "descending":
        return "", {name: type(network).__name__ for name in network.heads}
    return type(network.encoder).__name__, {name: type(head).__name__ for name, head in network.heads.items()}


def _example(batch: Batch, tokenizer: Any, objective: Objective) -> dict[str, list[str]]:
    """The first row, token by token: what is seen, and beneath it what is asked (nothing where nothing is).

    What is asked of the whole row stands beneath its first token.
    """
    length = min(int(batch.inputs["lengths"][0]), SHOWN)
    per_token = {name: target for name, target in batch.targets.items() if len(target) == batch.tokens}
    told = {}
    if isinstance(tokenizer, Sides):
        read = batch.inputs["source"][: int(batch.inputs["source_lengths"][0])].tolist()
        told["source"] = [tokenizer.source.token(i) for i in read]
        tokenizer = tokenizer.target
    told["seen"] = [tokenizer.token(i) for i in batch.inputs["tokens"][:length].tolist()]
    if "beside" in batch.inputs:
        told["beside"] = [tokenizer.token(i) for i in batch.inputs["beside"][:length].tolist()]
    for name, target in per_token.items():
        if target.dtype.kind == "f":
            told[name] = [f"{number:.2f}" for number in target[:length].tolist()]
            continue
        if name == "tag":
            told[name] = [*parted(TAGGED[0])[1]][:length]
            continue
        told[name] = [tokenizer.token(i) if i >= 0 else "" for i in target[:length].tolist()]
    answers = answers_of(objective)
    for name in batch.targets.keys() - per_token.keys():
        number = int(batch.targets[name][0])
        told[name] = [answers[number] if number >= 0 else "", *[""] * (length - 1)]
    return told


@lru_cache(maxsize=256)
def _weight(milestone: Milestone, vocabulary: int) -> Weight | None:
    """Kept, because a deep network takes a second even without numbers."""
    nominal = Nominal(train("words", EXAMPLE), vocabulary)
    both = Sides(nominal, nominal) if milestone.learns_from == "pairs" else nominal
    return weigh(milestone, both, recipe_from(milestone.recipe()).batch)


def _sized(milestone: Milestone, vocabulary: int) -> dict[str, Any]:
    weight = _weight(milestone, vocabulary)
    return {"fields": asdict(milestone), "figures": weight.facts() if weight is not None else None}


def _docstring(kind: type[Milestone]) -> tuple[str, str, dict[str, str]]:
    """The paper, what it changed, and what the fields mean: a milestone's docstring holds all three."""
    text = inspect.getdoc(kind) or ""
    title, _, rest = text.partition("\n")
    names = [field.name for field in fields(kind)]
    older = kind.__base__  # what a milestone has from the one before it is said there
    meanings: dict[str, str] = _docstring(older)[2] if older is not None and issubclass(older, Milestone) else {}
    prose: list[str] = []
    last = ""
    for line in rest.split("\n"):
        found = re.match(r"(\w+)\s{2,}(\S.*)", line)
        if found and found[1] in names:
            last = found[1]
            meanings[last] = found[2]
        elif last and line.startswith("  "):
            meanings[last] += " " + line.strip()
        else:
            prose.append(line)
    paragraphs = [" ".join(part.split()) for part in "\n".join(prose).split("\n\n")]
    return title.strip(), "\n\n".join(filter(None, paragraphs)), meanings
