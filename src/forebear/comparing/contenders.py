"""Who takes part in a comparison on a task: milestones, finished runs, or variants of BERT that lack something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from forebear.comparing.comparing import names_of
from forebear.comparing.task_outcomes import TaskRow
from forebear.errors import BadInput
from forebear.lineage import LINEAGE, learning_from_tags, milestone_named, nearest
from forebear.training.folder import RunFolder

WHOLE = "bert"
LINEAR = "a weight for every word and pair of words in the examples, found without any network"


@dataclass(frozen=True)
class Contender:
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
    def counts(self) -> bool:
        """Whether it counts: then it needs no text, and chance has no part in it."""
        return milestone_named(self.milestone).learning == "counting"

    def row(self) -> TaskRow:
        year = LINEAGE[self.milestone].year
        about = TaskRow(self.name, self.title, year, self.idea, self.milestone)
        return replace(about, differs=self.differs, papers=self.papers)


def milestones(names: Sequence[str], sizes: Mapping[str, str]) -> list[Contender]:
    made = []
    for name in names:
        entry = LINEAGE[name]
        counts = milestone_named(name).learning == "counting" and name not in learning_from_tags()
        title, idea = (f"{entry.title}, linear", LINEAR) if counts else (entry.title, entry.idea)
        made.append(Contender(name, title, name, idea, size=sizes.get(name)))
    return made


def for_task(who: Sequence[Contender], task: str, named: Sequence[str]) -> list[Contender]:
    """The same for this task: who tags by itself does so; at another, where it would weigh words as the n-gram does, it
    takes part only if it was named."""
    made = []
    for one in who:
        entry, tags = LINEAGE[one.milestone], milestone_named(one.milestone).learns_tags
        if tags and not one.given and task == "tagging":
            made.append(replace(one, title=entry.title, idea=entry.idea))
        elif one.given or not tags or one.name in named:
            made.append(one)
    return made


def runs(folders: Sequence[str], taken: Sequence[str]) -> list[Contender]:
    """Finished runs by the names of their folders; a name that is taken gets a number."""
    made: list[Contender] = []
    for folder in folders:
        run = RunFolder.open(folder)
        if "weights" not in run.facts:
            raise BadInput("is not finished", file=folder, remedy=f"finish it first: {run.going_on}")
        used = {*taken, *(one.name for one in made)}
        own = Path(folder).absolute().name
        name = next(one for one in (own, *(f"{own}-{number}" for number in range(2, 1000))) if one not in used)
        entry = LINEAGE[run.facts["milestone"]]
        made.append(Contender(name, f"{entry.title} ({name})", entry.name, entry.idea, given=str(run.path.absolute())))
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


def ablations(names: Sequence[str], size: str | None, tokenizer: str | None) -> list[Contender]:
    """BERT as it is, then without each of these."""
    kind: Any = milestone_named(WHOLE)
    entry = LINEAGE[WHOLE]
    if size is not None and size not in kind.sizes:
        raise BadInput(f"{WHOLE} has no size {size!r}", remedy=nearest(size, kind.sizes))
    bert = asdict(kind(**kind.sizes[size or kind.size]))
    cutting = tokenizer or kind.tokenizer
    own: dict[str, Any] = {"milestone": WHOLE, "size": size, "tokenizer": cutting}
    shape = {name: bert[name] for name in ("width", "depth", "heads", "context", "inner", "dropout")}
    variants = {
        "nsp": Contender(
            "without-nsp",
            "without next sentence",
            **own,
            fields={"pairs": "none"},
            differs="never asked whether two halves belong together; a row is one passage",
            papers=NSP,
        ),
        "direction": Contender(
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
        "whole-words": Contender(
            "whole-words",
            "whole words",
            **own,
            fields={"whole_words": True},
            differs="what is hidden is whole words, Chinese ones too, never a part of one",
            papers=WORDS,
        ),
        "pretraining": Contender(
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
            raise BadInput(f"BERT has no part called {name!r} to leave out", remedy=nearest(name, variants))
    whole = Contender(WHOLE, "BERT as it is", idea=entry.idea, **own)
    return [whole, *(variants[name] for name in dict.fromkeys(names))]


def taking_part(
    texts: Sequence[str],
    given: Sequence[str],
    only: Sequence[str] | None,
    ablate: Sequence[str],
    sizes: Mapping[str, str],
    tokenizer: str | None,
    task: str = "",
) -> list[Contender]:
    """Everyone: milestones (`only` these) and the runs that are given, or variants of BERT.

    An error where there is nothing to pre-train on, or where something would mean nothing.
    """
    if ablate:
        if given or only:
            raise BadInput("--ablate compares variants of BERT, and nobody else", remedy="leave out --only and --runs")
        names = [WHOLE]
        found = ablations(ablate, sizes.get(WHOLE), tokenizer)
    else:
        also = learning_from_tags() if task == "tagging" else []
        tagging = [name for name in LINEAGE if task == "tagging" and milestone_named(name).learns_tags]
        names = names_of(only if texts or only else ["ngram", *tagging], sizes, also)
        found = [replace(one, tokenizer=None if one.counts else tokenizer) for one in milestones(names, sizes)]
        found += runs(given, names)
    if strangers := [name for name in sizes if name not in names]:
        raise BadInput(f"--size of {strangers[0]}, which does not take part", remedy="leave it out")
    if not texts and (missing := [one.name for one in found if not (one.given or one.counts)]):
        remedy = "give a text before --task, or finished runs with --runs"
        raise BadInput(f"there is no text to pre-train {missing[0]} on", remedy=remedy)
    return found
