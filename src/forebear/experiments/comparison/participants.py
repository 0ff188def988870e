"""Participants of a comparison: models of the lineage, finished runs, ablations of BERT; and the common data split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from forebear.data.labeled.examples import is_labeled
from forebear.data.labeled.labeled_source import LabeledSource
from forebear.data.labeled.load import LabeledData, read_labeled
from forebear.errors import InputError
from forebear.registry import LINEAGE, model_spec, suggest, tag_only_models, text_models
from forebear.tasks.task import Task, task_class
from forebear.training.run_folder import RunFolder

REFERENCE_MODEL = "bert"
LINEAR_IDEA = "a weight for every word and pair of words in the examples, found without any network"


@dataclass(frozen=True)
class Participant:
    """A row of a task comparison: the model that is adapted, and its description.

    run_folder    folder of an existing run; "": the model is pre-trained here
    fields        fields of the model that differ from its preset size
    adaptation    fields of `Adaptation`
    is_untrained  without pre-training: takes settings and tokenizer of the reference row
    differs       how an ablation differs from the reference
    papers        what papers found about it
    """

    name: str
    title: str
    milestone: str
    idea: str = ""
    run_folder: str = ""
    size: str | None = None
    tokenizer: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    adaptation: dict[str, Any] = field(default_factory=dict)
    is_untrained: bool = False
    differs: str = ""
    papers: str = ""

    @property
    def is_counting(self) -> bool:
        """Whether the model is count-based: it needs no text to pre-train on, and no seed."""
        return model_spec(self.milestone).learning == "counting"


def model_names(models: Sequence[str] | None, sizes: Mapping[str, str], extra_models: Sequence[str] = ()) -> list[str]:
    """The selected models, by default all that train on text and `extra_models`.

    Raise InputError for a name or size that is unknown or cannot be compared.
    """
    available = [name for name in LINEAGE if name in (*text_models(), *extra_models)]
    selected = available if models is None else list(dict.fromkeys(models))
    for name in (*selected, *sizes):
        if name not in LINEAGE:
            raise InputError(f"no milestone named {name!r}", hint=suggest(name, LINEAGE))
        if name not in available:
            from_tags = model_spec(name).learns_from == "tags"
            data_kind = "words and their tags" if from_tags else "texts and their translations"
            message = f"{name} learns from {data_kind}: it cannot be compared with those that read text"
            raise InputError(message, hint=f"choose among: {', '.join(available)}")
    for name, size in sizes.items():
        if size not in (known := model_spec(name).sizes):
            raise InputError(f"{name} has no size {size!r}", hint=suggest(size, known))
    return selected


def model_participants(names: Sequence[str], sizes: Mapping[str, str], tokenizer: str | None) -> list[Participant]:
    participants = []
    for name in names:
        entry = LINEAGE[name]
        participant = Participant(name, entry.title, name, entry.idea, size=sizes.get(name), tokenizer=tokenizer)
        if participant.is_counting:  # its words are those of the examples
            participant = replace(participant, tokenizer=None)
            if name not in tag_only_models():
                participant = replace(participant, title=f"{entry.title}, linear", idea=LINEAR_IDEA)
        participants.append(participant)
    return participants


def participants_for_task(
    participants: Sequence[Participant], task: str, named_models: Sequence[str]
) -> list[Participant]:
    """The participants suited to a task; in tasks other than tagging, taggers only if they were named.

    There they would be the same as the linear model.
    """
    selected = []
    for participant in participants:
        entry, is_tagger = LINEAGE[participant.milestone], model_spec(participant.milestone).learns_tags
        if is_tagger and not participant.run_folder and task == "tagging":
            selected.append(replace(participant, title=entry.title, idea=entry.idea))
        elif participant.run_folder or not is_tagger or participant.name in named_models:
            selected.append(participant)
    return selected


def run_participants(folders: Sequence[str], used_names: Sequence[str]) -> list[Participant]:
    """Finished runs, named by their folders, with a number if a name is taken."""
    participants: list[Participant] = []
    for folder in folders:
        run = RunFolder.open(folder)
        if "weights" not in run.metadata:
            raise InputError("is not finished", file=folder, hint=f"finish it first: {run.resume_command}")
        names = {*used_names, *(participant.name for participant in participants)}
        name = base_name = Path(folder).absolute().name
        suffixes = count(2)
        while name in names:
            name = f"{base_name}-{next(suffixes)}"
        entry = LINEAGE[run.metadata["milestone"]]
        title, path = f"{entry.title} ({name})", str(run.path.absolute())
        participants.append(Participant(name, title, entry.name, entry.idea, run_folder=path))
    return participants


def ablation_participants(names: Sequence[str], size: str | None, tokenizer: str | None) -> list[Participant]:
    """BERT as the reference, then the named ablations."""
    model_names([REFERENCE_MODEL], {} if size is None else {REFERENCE_MODEL: size})  # checks the size
    spec_class: Any = model_spec(REFERENCE_MODEL)
    bert = asdict(spec_class(**spec_class.sizes[size or spec_class.size]))
    tokenizer = tokenizer or spec_class.tokenizer
    bert_variant = partial(Participant, milestone=REFERENCE_MODEL, size=size, tokenizer=tokenizer)
    # Sources: Devlin et al. 2018, table 5 (dev sets, BERT-base); Liu et al. 2019, section 4.2; Google's release notes
    # of BERT-large with whole-word masking, May 2019; Radford et al. 2018, table 5.
    variants = {
        "nsp": bert_variant(
            "without-nsp",
            "without next sentence",
            fields={"pairs": "none"},
            differs="never asked whether two halves belong together; a row is one passage",
            papers="Devlin et al.: without it QNLI 88.4 → 84.9, MNLI 84.4 → 83.9, SQuAD F1 88.5 → 87.9, MRPC and SST-2"
            " hardly changed. Liu et al. (RoBERTa): left out, tasks do as well or slightly better.",
        ),
        "direction": Participant(
            "left-to-right",
            "left to right",
            "gpt",
            tokenizer=tokenizer,
            fields={name: bert[name] for name in ("width", "depth", "heads", "context", "inner", "dropout")},
            adaptation={"language": 0.0},
            differs="GPT with BERT's width, depth, heads, context and tokenizer: a token sees only those before it;"
            " every token is predicted instead of one hidden in seven; nothing is asked of two halves and they have no"
            " vectors, no norm stands behind the embedding; GELU is approximated; the last token is read instead of the"
            " first; rate and batch are GPT's",
            papers="Devlin et al., both without pairs: SQuAD F1 87.9 → 77.8, MRPC 86.5 → 77.5, MNLI 83.9 → 82.1, QNLI"
            " 84.9 → 84.3, SST-2 92.6 → 92.1.",
        ),
        "whole-words": bert_variant(
            "whole-words",
            "whole words",
            fields={"whole_words": True},
            differs="what is hidden is whole words, Chinese ones too, never a part of one",
            papers="Google's later BERT-large with whole words: SQuAD F1 91.0 → 92.8, MNLI 86.05 → 87.07.",
        ),
        "pretraining": bert_variant(
            "without-pretraining",
            "without pre-training",
            is_untrained=True,
            differs="the same network and tokenizer learn the task from first values; no time for the text",
            papers="Radford et al. (GPT): without it the mean over eight tasks falls from 74.7 to 59.9.",
        ),
    }
    for name in names:
        if name not in variants:
            raise InputError(f"BERT has no part called {name!r} to leave out", hint=suggest(name, variants))
    reference = bert_variant(REFERENCE_MODEL, "BERT as it is", idea=LINEAGE[REFERENCE_MODEL].idea)
    return [reference, *(variants[name] for name in dict.fromkeys(names))]


def select_participants(
    texts: Sequence[str],
    run_folders: Sequence[str],
    only: Sequence[str] | None,
    ablate: Sequence[str],
    sizes: Mapping[str, str],
    tokenizer: str | None,
    task: str = "",
) -> list[Participant]:
    """All participants: models (`only` these) and finished runs, or ablations of BERT."""
    if ablate:
        if run_folders or only:
            raise InputError("--ablate compares variants of BERT, and nobody else", hint="leave out --only and --runs")
        names = [REFERENCE_MODEL]
        participants = ablation_participants(ablate, sizes.get(REFERENCE_MODEL), tokenizer)
    else:
        extra_models = tag_only_models() if task == "tagging" else []
        taggers = [name for name in LINEAGE if task == "tagging" and model_spec(name).learns_tags]
        names = model_names(only if texts or only else ["ngram", *taggers], sizes, extra_models)
        participants = [*model_participants(names, sizes, tokenizer), *run_participants(run_folders, names)]
    if missing_names := [name for name in sizes if name not in names]:
        raise InputError(f"--size of {missing_names[0]}, which does not take part", hint="leave it out")
    untrained = [
        participant.name for participant in participants if not (participant.run_folder or participant.is_counting)
    ]
    if untrained and not texts:
        hint = "give a text before --task, or finished runs with --runs"
        raise InputError(f"there is no text to pre-train {untrained[0]} on", hint=hint)
    return participants


# --- The common data split ---


def with_test_split(source: LabeledSource, test_fraction: float) -> LabeledSource:
    """The source with a test split: without a test file, this fraction of the examples, by content hash."""
    if source.test is None and not 0 < test_fraction < 1:
        hint = "give a share between 0 and 1, such as 0.2, or a --test file"
        raise InputError(f"--test-share is {test_fraction}", hint=hint)
    return replace(source, test_share=0.0 if source.test is not None else test_fraction)


def read_splits(source: LabeledSource) -> LabeledData:
    """All splits; the test split contains labeled examples only."""
    data = read_labeled(source)
    test_examples = [example for example in data.test if is_labeled(example)]
    if not test_examples:
        message = "there are too few examples to hold some out for a test"
        message = "no test example has a label" if source.test else message
        raise InputError(message, file=source.test or source.train, hint="give examples with labels: --test FILE")
    return replace(data, test=test_examples)


def task_from_train(source: LabeledSource, data: LabeledData) -> Task:
    """The task as defined by the training split."""
    options = {"scheme": data.tag_scheme} if data.tag_scheme else {}
    return task_class(source.task).from_examples(data.train, **options)
