"""Who takes part in a comparison on a task: milestones, finished runs, or variants of BERT that lack something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from forebear.data.labeled.examples import is_labeled
from forebear.data.labeled.source import LabeledData, LabeledSource, read_labeled
from forebear.errors import InputError
from forebear.experiments.comparison.compare import model_names
from forebear.experiments.comparison.results import TaskComparisonRow
from forebear.registry import LINEAGE, model_spec, suggest, tag_only_models
from forebear.tasks.task import Task, task_class
from forebear.training.run_folder import RunFolder

REFERENCE_MODEL = "bert"
LINEAR = "a weight for every word and pair of words in the examples, found without any network"


@dataclass(frozen=True)
class ModelOrigin:
    """How a row's model comes to be, before it is adapted.

    given   the folder of a run that stands already; "": it is pre-trained here
    fields  of the milestone, other than those of its size
    how     fields of its adaptation
    fresh   it is not pre-trained: of the row `WHOLE` it takes the fields and the tokenizer
    """

    name: str
    title: str
    milestone: str
    idea: str = ""
    given: str = ""
    size: str | None = None
    tokenizer: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    how: dict[str, Any] = field(default_factory=dict)
    fresh: bool = False
    differs: str = ""
    papers: str = ""

    @property
    def is_counting(self) -> bool:
        """Whether it counts: then it needs no text, and chance has no part in it."""
        return model_spec(self.milestone).learning == "counting"

    def to_row(self) -> TaskComparisonRow:
        year = LINEAGE[self.milestone].year
        about = TaskComparisonRow(self.name, self.title, year, self.idea, self.milestone)
        return replace(about, differs=self.differs, papers=self.papers)


def milestones(names: Sequence[str], sizes: Mapping[str, str]) -> list[ModelOrigin]:
    made = []
    for name in names:
        entry = LINEAGE[name]
        counts = model_spec(name).learning == "counting" and name not in tag_only_models()
        title, idea = (f"{entry.title}, linear", LINEAR) if counts else (entry.title, entry.idea)
        made.append(ModelOrigin(name, title, name, idea, size=sizes.get(name)))
    return made


def rows_for_task(who: Sequence[ModelOrigin], task: str, named: Sequence[str]) -> list[ModelOrigin]:
    """The same for this task: who tags by itself does so; at another, where it would weigh words as the n-gram does, it
    takes part only if it was named."""
    made = []
    for one in who:
        entry, tags = LINEAGE[one.milestone], model_spec(one.milestone).learns_tags
        if tags and not one.given and task == "tagging":
            made.append(replace(one, title=entry.title, idea=entry.idea))
        elif one.given or not tags or one.name in named:
            made.append(one)
    return made


def runs(folders: Sequence[str], taken: Sequence[str]) -> list[ModelOrigin]:
    """Finished runs by the names of their folders; a name that is taken gets a number."""
    made: list[ModelOrigin] = []
    for folder in folders:
        run = RunFolder.open(folder)
        if "weights" not in run.metadata:
            raise InputError("is not finished", file=folder, hint=f"finish it first: {run.resume_command}")
        used = {*taken, *(one.name for one in made)}
        own = Path(folder).absolute().name
        name = next(one for one in (own, *(f"{own}-{number}" for number in range(2, 1000))) if one not in used)
        entry = LINEAGE[run.metadata["milestone"]]
        made.append(
            ModelOrigin(name, f"{entry.title} ({name})", entry.name, entry.idea, given=str(run.path.absolute()))
        )
    return made


# -- variants of BERT

# Figures of Devlin et al. 2018, table 5 (dev sets, BERT-base), of Liu et al. 2019, section 4.2, of what Google said of
# its BERT-large with whole words in May 2019, and of Radford et al. 2018, table 5.
NSP = (
    "Devlin et al.: without it QNLI 88.4 → 84.9, MNLI 84.4 → 83.9, SQuAD F1 88.5 → 87.9, MRPC and SST-2 hardly changed."
    " Liu et al. (RoBERTa): left out, tasks do as well or slightly better."
)
DIRECTION = (
    "Devlin et al., both without pairs: SQuAD F1 87.9 → 77.8, MRPC 86.5 → 77.5, MNLI 83.9 → 82.1, QNLI 84.9 → 84.3,"
    " SST-2 92.6 → 92.1."
)
WORDS = "Google's later BERT-large with whole words: SQuAD F1 91.0 → 92.8, MNLI 86.05 → 87.07."
NOTHING = "Radford et al. (GPT): without it the mean over eight tasks falls from 74.7 to 59.9."


def ablations(names: Sequence[str], size: str | None, tokenizer: str | None) -> list[ModelOrigin]:
    """BERT as it is, then without each of these."""
    kind: Any = model_spec(REFERENCE_MODEL)
    entry = LINEAGE[REFERENCE_MODEL]
    if size is not None and size not in kind.sizes:
        raise InputError(f"{REFERENCE_MODEL} has no size {size!r}", hint=suggest(size, kind.sizes))
    bert = asdict(kind(**kind.sizes[size or kind.size]))
    cutting = tokenizer or kind.tokenizer
    own: dict[str, Any] = {"milestone": REFERENCE_MODEL, "size": size, "tokenizer": cutting}
    shape = {name: bert[name] for name in ("width", "depth", "heads", "context", "inner", "dropout")}
    variants = {
        "nsp": ModelOrigin(
            "without-nsp",
            "without next sentence",
            **own,
            fields={"pairs": "none"},
            differs="never asked whether two halves belong together; a row is one passage",
            papers=NSP,
        ),
        "direction": ModelOrigin(
            "left-to-right",
            "left to right",
            "gpt",
            tokenizer=cutting,
            fields=shape,
            how={"language": 0.0},
            differs="GPT with BERT's width, depth, heads, context and tokenizer: a token sees only those before it;"
            " every token is predicted instead of one hidden in seven; nothing is asked of two halves and they have no"
            " vectors, no norm stands behind the embedding; GELU is approximated; the last token is read instead of the"
            " first; rate and batch are GPT's",
            papers=DIRECTION,
        ),
        "whole-words": ModelOrigin(
            "whole-words",
            "whole words",
            **own,
            fields={"whole_words": True},
            differs="what is hidden is whole words, Chinese ones too, never a part of one",
            papers=WORDS,
        ),
        "pretraining": ModelOrigin(
            "without-pretraining",
            "without pre-training",
            **own,
            fresh=True,
            differs="the same network and tokenizer learn the task from first values; no time for the text",
            papers=NOTHING,
        ),
    }
    for name in names:
        if name not in variants:
            raise InputError(f"BERT has no part called {name!r} to leave out", hint=suggest(name, variants))
    whole = ModelOrigin(REFERENCE_MODEL, "BERT as it is", idea=entry.idea, **own)
    return [whole, *(variants[name] for name in dict.fromkeys(names))]


def comparison_rows(
    texts: Sequence[str],
    given: Sequence[str],
    only: Sequence[str] | None,
    ablate: Sequence[str],
    sizes: Mapping[str, str],
    tokenizer: str | None,
    task: str = "",
) -> list[ModelOrigin]:
    """Everyone: milestones (`only` these) and the runs that are given, or variants of BERT.

    An error where there is nothing to pre-train on, or where something would mean nothing.
    """
    if ablate:
        if given or only:
            raise InputError("--ablate compares variants of BERT, and nobody else", hint="leave out --only and --runs")
        names = [REFERENCE_MODEL]
        found = ablations(ablate, sizes.get(REFERENCE_MODEL), tokenizer)
    else:
        also = tag_only_models() if task == "tagging" else []
        tagging = [name for name in LINEAGE if task == "tagging" and model_spec(name).learns_tags]
        names = model_names(only if texts or only else ["ngram", *tagging], sizes, also)
        found = [replace(one, tokenizer=None if one.is_counting else tokenizer) for one in milestones(names, sizes)]
        found += runs(given, names)
    if strangers := [name for name in sizes if name not in names]:
        raise InputError(f"--size of {strangers[0]}, which does not take part", hint="leave it out")
    if not texts and (missing := [one.name for one in found if not (one.given or one.is_counting)]):
        hint = "give a text before --task, or finished runs with --runs"
        raise InputError(f"there is no text to pre-train {missing[0]} on", hint=hint)
    return found


# A person's labelled examples, divided the same way for everyone.


def with_test_split(source: LabeledSource, share: float) -> LabeledSource:
    """The same; where no file is for the test, this share of the examples is, by what they say."""
    if source.test is None and not 0 < share < 1:
        raise InputError(f"--test-share is {share}", hint="give a share between 0 and 1, such as 0.2, or a --test file")
    return replace(source, test_share=0.0 if source.test is not None else share)


def read_splits(source: LabeledSource) -> LabeledData:
    """All sides, the test with labels on every example."""
    found = read_labeled(source)
    tested = [example for example in found.test if is_labeled(example)]
    if not tested:
        few = "there are too few examples to hold some out for a test"
        what = "no test example has a label" if source.test else few
        hint = "give examples with labels: --test FILE"
        raise InputError(what, file=source.test or source.train, hint=hint)
    return replace(found, test=tested)


def task_from_train(source: LabeledSource, data: LabeledData) -> Task:
    """The task as it is learned from the training side."""
    return task_class(source.task).from_examples(data.train, **({"scheme": data.scheme} if data.scheme else {}))
