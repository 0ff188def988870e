"""What is to be adapted to what, and how: a run or a milestone, labelled examples, and defaults that suit both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from forebear.errors import BadInput
from forebear.lineage import LINEAGE, milestone_named, name_of, nearest
from forebear.milestones.milestone import Milestone
from forebear.tasks.adaptation import Adaptation
from forebear.tasks.examples import texts_of
from forebear.tasks.task import Task, task_named
from forebear.text.extending import extended, lacking
from forebear.text.tokenizer import Tokenizer
from forebear.training.adapted import searches
from forebear.training.folder import RunFolder
from forebear.training.labelled import LabelledData, LabelledSource, read_labelled
from forebear.training.recipe import Recipe, recipe_from
from forebear.using.beginning import Beginning
from forebear.using.heeding import heeded
from forebear.using.planning import built

EXAMPLES, MORE = 16, 32  # in a step, about; more where everything is learned from nothing
LEAST_STEPS = 300  # that a task wants, even where examples are few
EPOCHS = (3, 40)  # the fewest and the most, where nothing says how long
LOOKS, LOOKING = 12, 0.1  # at held-out examples, in the course of a run; and about the most of its time they take
JUDGED = 2000  # held-out examples that are looked at on the way
TEACHING = 3  # what a token costs that teaches, beside one that is only read
OFTEN = 2  # how often a word without a vector must stand in the examples to get one
EVERY_WORD = 1 << 20  # entries of a vocabulary of words that were cut before
OF_READERS, OF_VECTORS = 3e-3, 1e-2  # rates of what reads vectors of words, and of a head that reads them as they are
FROZEN_STEPS = 2000  # the fewest where such vectors stay as they are: a step costs little, and they are not forgotten
OF_HEADS = 2e-3  # the rate where only a head learns
MILDER = 0.7  # what fine-tuning may take of the rate of learning from nothing, at most
LANGUAGE = 0.5  # what the language model counts beside the task, in GPT's paper
MANY = 20_000  # examples from which on it helps: with fewer it did not, there and here, and costs as much as the rest


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be adapted to what, and how; everything that the result depends on."""

    milestone: Milestone
    size: str | None
    tokenizer: Tokenizer
    beginning: Beginning | None  # None: from nothing, to see what pre-training is worth
    source: LabelledSource
    data: LabelledData
    task: Task
    adaptation: Adaptation
    recipe: Recipe

    @property
    def asked(self) -> dict[str, Any]:
        """As JSON gives it back, so that it can be compared with what a folder says."""
        told = {
            "milestone": name_of(self.milestone),
            "fields": asdict(self.milestone),
            "beginning": None if self.beginning is None else self.beginning.weights,
            "task": self.task.to_json(),
            "adaptation": self.adaptation.to_json(),
            "examples": self.source.to_json(),
            "digests": self.source.digests(),
            "recipe": self.recipe.to_json(),
        }
        return json.loads(json.dumps(told))


def plan(
    begin: str,
    source: LabelledSource,
    *,
    how: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    size: str | None = None,
    dropout: float | None = None,
    data: LabelledData | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Plan:
    """`begin` is a run's folder or a milestone's name; `how` and `options` are fields of Adaptation and of the task.

    `fields` are those of a milestone that begins from nothing.
    `dropout` is the encoder's while it is adapted, or that of what reads it; None: as it is in the run.
    """
    if begin in LINEAGE and not Path(begin).is_dir():
        kind, beginning = milestone_named(begin), None
        named = size or kind.size or None
        milestone = built(begin, kind, named, fields or {})
    else:
        beginning = _beginning(begin)
        milestone, named = beginning.folder.milestone, beginning.folder.facts.get("size")
        if size is not None:
            raise BadInput("--size means nothing beside a run: it has its own", remedy="leave it out")
    if milestone.learns_from == "pairs":
        what, remedy = "translates: tasks are learned by those that read one text", "choose another, such as bert"
        raise BadInput(what, file=begin, remedy=remedy)
    if milestone.learns_from == "tags" and source.task != "tagging":
        what = f"{name_of(milestone)} learns to tag words and nothing else; these examples are of {source.task}"
        remedy = "give words with their tags, or choose another milestone, such as ngram"
        raise BadInput(what, file=source.train, remedy=remedy)
    reads_features = (how or {}).get("how") == "features"
    if dropout is not None and (milestone.learning == "counting" or reads_features):
        nothing = "where the encoder only gives features" if reads_features else "to a model that counts"
        raise BadInput(f"--dropout means nothing {nothing}", remedy="leave it out")
    if dropout is not None and _reads_by_reader(milestone, beginning, how or {}):
        how = {**(how or {}), "reader_dropout": dropout}
    elif dropout is not None or (reads_features and milestone.dropout is not None):
        milestone = replace(milestone, dropout=dropout or 0.0)  # pyright: ignore[reportCallIssue]
    data = data or read_labelled(source)
    given = {**({"scheme": data.scheme} if data.scheme else {}), **(options or {})}
    if milestone.learns_tags and source.task == "tagging":
        given["crf"] = True  # it is a chain by itself
    task = task_named(source.task).learned(data.train, **given)
    adaptation = adaptation_for(milestone, beginning, len(data.train), how or {})
    tokenizer = tokenizer_for(milestone, beginning, adaptation, source.task, data)
    way = "only counts" if milestone.learning == "counting" else "descending"
    heeded(name_of(milestone), "searching" if searches(milestone, task) else way, settings or {})
    for flag, why in _idle(task, adaptation, settings or {}, counts=milestone.learning == "counting"):
        raise BadInput(f"--{flag} means nothing here: {why}", remedy="leave it out")
    recipe = recipe_for(milestone, tokenizer, task, adaptation, data, settings or {}, fresh=beginning is None)
    return Plan(milestone, named, tokenizer, beginning, source, data, task, adaptation, recipe)


def _beginning(run: str) -> Beginning:
    if not Path(run).exists():
        what = "there is no such run, and no milestone of that name"
        raise BadInput(what, file=run, remedy=f"{nearest(run, LINEAGE)} (forebear runs lists the runs)")
    folder = RunFolder.open(run)
    folder.may_learn()
    if "weights" not in folder.facts:
        raise BadInput("is not finished", file=run, remedy=f"finish it first: {folder.going_on}")
    return Beginning(str(folder.path.absolute()), folder.facts["weights"]["sha256"])


def adaptation_for(
    milestone: Milestone, beginning: Beginning | None, examples: int, given: Mapping[str, Any]
) -> Adaptation:
    """What was asked for, and otherwise what suits the milestone and so many examples."""
    told = {name: value for name, value in given.items() if value is not None}
    if not told.get("mixture_norm"):
        told.pop("mixture_norm", None)
    predicts = milestone.learning == "descending" and "next" in _heads(milestone, beginning)
    predicts = predicts and not milestone.spells and not told.get("reader")  # no letters can be predicted
    if told.get("language") and not predicts:
        what = "--language is for encoders that predict the next token, such as gpt"
        raise BadInput(what, remedy="leave it out")
    told = _with_reader(milestone, beginning, told)
    helps = predicts and beginning is not None and examples >= MANY and told.get("how", "finetune") == "finetune"
    usual = LANGUAGE if helps else 0.0
    return Adaptation(**{"language": usual, **told})


def _reads_by_reader(milestone: Milestone, beginning: Beginning | None, given: Mapping[str, Any]) -> bool:
    """Whether a small network stands above what was pre-trained, and reads it."""
    if milestone.wants_reader or not milestone.takes_reader:
        return milestone.wants_reader
    known = None if beginning is None or beginning.folder.task is None else beginning.folder.adaptation.reader
    return (given.get("reader") or known) is not None


def _with_reader(milestone: Milestone, beginning: Beginning | None, told: dict[str, Any]) -> dict[str, Any]:
    """What reads vectors of words, where they are all there is: as in the run, if it was adapted before."""
    given = [name for name in told if name.startswith(("reader", "mixture"))]
    if milestone.takes_reader and not milestone.wants_reader:
        known = beginning.folder.adaptation.to_json() if beginning is not None and beginning.folder.task else {}
        own = {name: value for name, value in known.items() if name.startswith(("reader", "mixture"))}
        told = {**own, **told}
        return {"mixture": "before", **told} if told.get("reader") else told
    if not milestone.wants_reader:
        if given:
            what = (
                f"--{given[0].replace('_', '-')} means nothing to {name_of(milestone)}, which has an encoder of its own"
            )
            raise BadInput(what, remedy="leave it out, or begin with vectors of words, such as a run of word2vec")
        return told
    if mixing := [name for name in given if name.startswith("mixture")]:
        what = f"--{mixing[0].replace('_', '-')} means nothing to {name_of(milestone)}: vectors of words are one layer"
        raise BadInput(what, remedy="leave it out, or begin with a recurrent run, such as elmo")
    known = beginning.folder.adaptation.to_json() if beginning is not None and beginning.folder.task is not None else {}
    if told.get("freeze_layers") and not known:
        what = f"--freeze-layers {told['freeze_layers']}: what reads the vectors has learned nothing yet"
        raise BadInput(what, remedy="--how freeze alone keeps the vectors as they are")
    own = {name: value for name, value in known.items() if name in ("reader", "reader_width")}
    return {"reader": "mean", **own, **told}


def _idle(
    task: Task, adaptation: Adaptation, settings: Mapping[str, Any], *, counts: bool
) -> Iterator[tuple[str, str]]:
    """Settings that would change nothing, with why: who gives one believes that it does."""
    if settings.get("held_out") is not None:
        yield "held-out", "--dev-share says how many examples are held out"
    for field in fields(Adaptation) if counts else ():
        if field.name != "balanced" and getattr(adaptation, field.name) != field.default:
            flag = "head-dropout" if field.name == "dropout" else field.name.replace("_", "-")
            yield flag, "a model that counts has no layers to adapt"
    if adaptation.balanced and not task.labels:
        yield "balanced", "it is for examples with labels"
    if adaptation.balanced and counts and task.answers_are_several:
        yield "balanced", "where labels are several at once, only a network weighs them"
    if adaptation.read is not None and not task.reads_rows:
        yield "read", "it is for texts that are judged as a whole; here every word is"


def _heads(milestone: Milestone, beginning: Beginning | None) -> Sequence[str]:
    from forebear.using.explaining import sample

    told = beginning.folder.facts.get("heads") if beginning else None
    return told if told is not None else tuple(sample(milestone)[0].targets)


def tokenizer_for(
    milestone: Milestone, beginning: Beginning | None, adaptation: Adaptation, task: str, data: LabelledData
) -> Tokenizer:
    """The run's own, or one that is learned from the examples.

    Where vectors of words learn with the task, words of the examples that have none get one.
    """
    if beginning is None or (task == "tagging" and milestone.learns_tags):  # whose words are those that were tagged
        return milestone.reading(_learned_tokenizer(milestone, task, data))
    if not milestone.wants_reader or adaptation.how != "finetune":
        return milestone.reading(beginning.tokenizer)
    texts = [text for example in data.train for text in texts_of(example)]
    return extended(beginning.tokenizer, lacking(beginning.tokenizer, texts, OFTEN), found=True)[0]


def _learned_tokenizer(milestone: Milestone, task: str, data: LabelledData) -> Tokenizer:
    """Without a run: one of the milestone's usual kind, learned from the examples to learn from."""
    from forebear.text.blueprint import ROBERTA
    from forebear.text.training import train
    from forebear.training.corpora import vocabulary_for

    texts = [text for example in data.train for text in texts_of(example)]
    kind = milestone.tokenizer
    more: dict[str, Any] = {}
    if task == "tagging" and milestone.learns_tags:
        return train("words", texts, split="spaces", segmenter=None, size=EVERY_WORD)
    if task == "tagging" and milestone.learning == "counting":
        kind, more["lower"] = "wordpiece", False  # parts and capitals of names that nobody has seen before
    if kind == "bytepair" and "mask" in milestone.needs:
        more["specials"] = ROBERTA
    size = vocabulary_for(kind, sum(len(text.encode("utf-8", "replace")) for text in texts))
    return train(kind, texts, size=size, **more)


def finetuning_rate(width: int, most: float) -> float:
    """BERT-base's for its width. Narrow networks bear far more: of 2e-4 to 2e-3, 1e-3 did best at a width of 128."""
    return min(2e-5 * (768 / width) ** (2.2 if width < 768 else 1), most)


def _rate(milestone: Milestone, adaptation: Adaptation, *, fresh: bool) -> float:
    if adaptation.reader is not None:
        return OF_VECTORS if adaptation.how == "features" else OF_READERS
    usual = milestone.recipe()["rate"]
    if fresh or adaptation.how == "features":
        return usual if fresh else OF_HEADS
    return finetuning_rate(milestone.width, MILDER * usual)  # pyright: ignore[reportAttributeAccessIssue]


def recipe_for(
    milestone: Milestone,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    data: LabelledData,
    settings: Mapping[str, Any],
    *,
    fresh: bool,
) -> Recipe:
    """Defaults that suit the encoder's width and the number of examples, and whatever a person says instead."""
    layout = milestone.layout(tokenizer)
    rows = task.rows(data.train[: 20 * MORE], tokenizer, layout, learning=True)
    mean = float(rows.sizes.mean()) if len(rows) else 1.0  # tokens of an example, in all its windows
    if searches(milestone, task):
        every = max(1, round(2 * mean * len(data.train)))  # tokens, about
        return recipe_from({"batch": every, **milestone.recipe()}, settings)
    if milestone.learning == "counting":
        return recipe_from({"batch": max(1, round(2 * mean * len(data.train))), "epochs": 1}, settings)
    rate = _rate(milestone, adaptation, fresh=fresh)
    batch = max(1, round((MORE if fresh else EXAMPLES) * min(mean, layout.context or mean)))  # a long text is one row
    if adaptation.reader is not None:
        batch = max(1, round(MORE * mean))
    own: dict[str, Any] = {"rate": rate, "batch": batch, "decay": 0.01, "memory": 0.98}
    batch = recipe_from(own, {name: value for name, value in settings.items() if name == "batch"}).batch
    epoch = max(1, round(mean * len(data.train) / batch))
    least = LEAST_STEPS if adaptation.reader is None or adaptation.how == "finetune" else FROZEN_STEPS
    own["epochs"] = float(min(max(EPOCHS[0], -(-least // epoch)), EPOCHS[1]))
    made = recipe_from(own, settings)
    if made.evaluate_every is None:
        steps = made.steps or round((made.epochs or 0) * epoch) or 4 * epoch
        looks = min(LOOKS, max(1, steps // 10))  # at ten steps or more apart: they too take their time
        look = mean * min(len(data.dev), JUDGED) / made.batch / TEACHING  # of a step
        made = replace(made, evaluate_every=max(1, steps // looks, round(look / LOOKING)))
    return made
