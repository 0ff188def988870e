"""Explain a model: its paper, inputs and targets, fields, and the parameters, FLOPs and memory of each size."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from forebear.capabilities import head_capabilities
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.parallel import ParallelSubset, TokenizerPair
from forebear.data.labeled.examples import TaggedExample
from forebear.data.labeled.readers import parse_slash_tags
from forebear.data.labeled.tag_schemes import unconstrained_transitions
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.experiments.model_cost import ModelSize, model_size
from forebear.experiments.plan import plan_pretraining
from forebear.experiments.preview import pair_label_names
from forebear.experiments.unused_settings import UNUSED_BY_LEARNER, learner_kind_for
from forebear.models.spec import ModelSpec
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.cooccurrence import Cooccurrences
from forebear.objectives.objective import Objective
from forebear.registry import LINEAGE, LineageEntry, model_spec
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task_batches import FullBatch
from forebear.training.settings import BUDGETS, merge_recipe

SAMPLE_TEXTS = ("the cat sat on the mat .\nit was warm .", "a dog ran home .\nhe was fast .")  # a sentence per line
SAMPLE_SOURCES = ("die Katze saß auf der Matte .\nes war warm .", "ein Hund lief heim .\ner war schnell .")
SHOWN_SETTINGS = (*BUDGETS, "batch", "rate", "warmup", "schedule", "cooldown", "decay")  # fields of the recipe
MAX_SHOWN_TOKENS = 12  # of the example sequence
SIZE_REMARKS = {  # of counting models, by what they learn from
    "text": "It counts, so that its size follows from the text: a parameter for each different n-gram, at most one of"
    " each length for every token of the text; a prediction costs one search for each length.",
    "tags": "Its size follows from the examples: a weight for each feature and each label that it was seen with, and"
    " for each move from label to label; to tag a word costs as many moves as there are pairs of labels.",
}
SAMPLE_TAGGED_SENTENCES = ("the/D cat/N sat/V on/P the/D mat/N ./.", "it/R was/V warm/A ./.")


class NominalTokenizer(Tokenizer):
    """A small tokenizer with a larger nominal vocabulary size, which determines the shape of a network."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        vars(self).update(vars(tokenizer))  # otherwise identical
        self._tokenizer, self.vocab_size = tokenizer, size

    def vocabulary(self) -> list[str]:
        tokens = self._tokenizer.vocabulary()[: self.vocab_size]
        return tokens + [""] * (self.vocab_size - len(tokens))


@dataclass(frozen=True)
class ModelExplanation:
    """The explanation of a model."""

    entry: LineageEntry
    paper: str
    changed: str
    sentence: str
    learning: str
    tokenizer: str
    encoder: str
    heads: dict[str, str]  # class names by head
    verbs: tuple[str, ...]
    example: dict[str, list[str]]  # of one sequence: inputs and targets of each token
    fields: dict[str, tuple[Any, str]]  # value and meaning
    recipe: dict[str, Any]  # default settings
    size: str | None
    vocabulary: int
    sizes: dict[str, dict[str, Any]]  # by name: fields, and figures unless they depend on the text
    remark: str

    def to_dict(self) -> dict[str, Any]:
        described = {name: {"value": value, "meaning": meaning} for name, (value, meaning) in self.fields.items()}
        return asdict(self) | {"fields": described}


def explain_model(
    name: str, *, size: str | None = None, settings: Mapping[str, Any] | None = None, vocabulary: int | None = None
) -> ModelExplanation:
    """Explain a model, in one of its sizes or with custom fields."""
    spec_class = model_spec(name)
    plan = plan_pretraining(name, (), size=size, settings=settings)
    vocab_size = vocabulary or spec_class.published_vocab_size  # gives the published numbers of parameters
    specs = {size_name: spec_class(**size_fields) for size_name, size_fields in spec_class.sizes.items()}
    if settings or not specs:
        specs = {"yours": plan.spec, **specs}
    paper, changes, meanings = _parse_docstring(spec_class)
    batch, tokenizer = sample_batch(plan.spec)
    encoder, heads = _component_names(plan.spec, tokenizer)
    objective = FullBatch() if spec_class.learns_from == "tags" else plan.spec.objective(tokenizer)
    learner_kind = learner_kind_for(spec_class)
    unused, _ = UNUSED_BY_LEARNER[learner_kind]
    recipe = plan.recipe.to_dict()
    grows_with_text = spec_class.learning == "counting" and not spec_class.counts_again
    return ModelExplanation(
        entry=LINEAGE[name],
        paper=paper,
        changed=changes,
        sentence=_summary_sentence(type(objective).__name__, batch, encoder, heads, learner_kind),
        learning=spec_class.learning,
        tokenizer=spec_class.tokenizer,
        encoder=encoder,
        heads=heads,
        verbs=_capabilities(spec_class, heads),
        example=_example_row(batch, tokenizer, objective),
        fields={field: (value, meanings.get(field, "")) for field, value in asdict(plan.spec).items()},
        recipe={key: recipe[key] for key in SHOWN_SETTINGS if key in recipe and key not in unused},
        size=plan.size,
        vocabulary=vocab_size,
        sizes={size_name: _describe_size(spec, vocab_size) for size_name, spec in specs.items()},
        remark=SIZE_REMARKS[spec_class.learns_from] if grows_with_text else "",
    )


def _describe_size(spec: ModelSpec, vocab_size: int) -> dict[str, Any]:
    cost = _cached_model_size(spec, vocab_size)
    return {"fields": asdict(spec), "figures": cost and cost.to_dict()}


def model_capabilities(name: str) -> tuple[tuple[str, ...], str]:
    """The commands that a run of this model supports, or an error message; does not load torch."""
    try:
        spec_class = model_spec(name)
        spec = spec_class(**spec_class.sizes.get(spec_class.size, {}))
        objective = spec.objective(_in_memory_corpus(SAMPLE_TEXTS).tokenizer) if spec.learns_from == "text" else None
        heads = objective.target_heads if isinstance(objective, Cooccurrences) else sample_batch(spec)[0].targets
    except Exception as error:  # noqa: BLE001 - a broken model must not break the list of models
        return (), f"{type(error).__name__}: {error}"
    return _capabilities(spec_class, heads), ""


def _capabilities(spec_class: type[ModelSpec], heads: Iterable[str]) -> tuple[str, ...]:
    return head_capabilities(heads, encodes=spec_class.learning != "counting", words=spec_class.tokenizer == "words")


def sample_batch(spec: ModelSpec) -> tuple[Batch, Any]:
    """The first batch of the objective on two tiny documents, and its tokenizer or pair of tokenizers."""
    if spec.learns_from == "tags":
        examples = [TaggedExample(*parse_slash_tags(line)) for line in SAMPLE_TAGGED_SENTENCES]
        task = SequenceTagging.from_examples(examples, scheme="plain")
        tokenizer = train_tokenizer("words", [" ".join(example.words) for example in examples], split="spaces")
        rows = task.encode(examples, tokenizer, spec.input_format(tokenizer))
        return FullBatch().batch(rows, 0, BatchKey(0, 0)), tokenizer
    if spec.learns_from == "pairs":
        source_corpus, target_corpus = map(_in_memory_corpus, (SAMPLE_SOURCES, SAMPLE_TEXTS))
        tokenizers = TokenizerPair(source_corpus.tokenizer, target_corpus.tokenizer)
        documents = source_corpus.all_documents(), target_corpus.all_documents()
        pairs = ParallelSubset(*documents, np.arange(len(SAMPLE_TEXTS)))
        batch_tokens = len(source_corpus) + len(target_corpus) + 2 * len(SAMPLE_TEXTS)
        return spec.objective(tokenizers).batch(pairs, batch_tokens, BatchKey(0, 0)), tokenizers
    corpus = _in_memory_corpus(SAMPLE_TEXTS)
    tokenizer, batch_tokens = corpus.tokenizer, len(corpus) + len(corpus.sizes)
    return spec.objective(tokenizer).batch(corpus.all_documents(), batch_tokens, BatchKey(0, 0)), tokenizer


def _in_memory_corpus(texts: Sequence[str]) -> Corpus:
    """A word-level corpus in memory, of documents with a sentence per line."""
    tokenizer = train_tokenizer("words", texts)
    documents = [text.split("\n") for text in texts]
    sentences = list(chain.from_iterable(documents))
    token_ids = [tokenizer.encode(sentence).ids for sentence in sentences]
    corpus = Corpus(
        folder=Path(),
        metadata={"key": hashlib.sha256(repr(texts).encode()).hexdigest()},
        ids=np.concatenate(token_ids),
        sentences=np.cumsum([0, *map(len, token_ids)]),
        documents=np.cumsum([0, *map(len, documents)]),
        hashes=np.arange(len(documents), dtype=np.uint64),
        sizes=np.array([len(sentence.encode()) for sentence in sentences]),
        unknown=np.zeros(len(sentences), int),
        words=None,
    )
    corpus.__dict__["tokenizer"] = tokenizer  # else loaded from the folder
    return corpus


def _summary_sentence(objective: str, batch: Batch, encoder: str, heads: Mapping[str, str], learner_kind: str) -> str:
    """One sentence about the objective, inputs, targets and heads of this model."""
    component_list = ", ".join(f"{name}: {component}" for name, component in heads.items())
    clause = f"an encoder ({encoder}) turns inputs into states; heads of the same names ({component_list}) answer"
    if not heads:
        clause = "nothing is learned, and nothing answered"
    elif not encoder:
        verbs = {"counting": "counts what follows what", "recounting": "counts the states it expects"}
        verb = verbs.get(learner_kind, "moves the vectors of words")
        verb = "weighs what is seen of each word and what follows what" if "tag" in heads else verb
        clause = " and ".join(f"{component} {verb} and answers {name}" for name, component in heads.items())
    inputs, targets = ", ".join(batch.inputs), ", ".join(batch.targets)
    batch_text = f"a batch of inputs ({inputs}) and named targets ({targets})"
    return f"An objective ({objective}) turns text into {batch_text}; {clause}; the losses add up."


def _component_names(spec: ModelSpec, tokenizer: Any) -> tuple[str, dict[str, str]]:
    """The class names of the encoder ("" without one) and of each head."""
    if spec.learns_from == "tags":
        return "", {"tag": type(spec.build_tagger(tokenizer, unconstrained_transitions(1))).__name__}
    network = spec.build(tokenizer)
    if spec.learning != "descending":
        return "", {name: type(network).__name__ for name in network.heads}
    return type(network.encoder).__name__, {name: type(head).__name__ for name, head in network.heads.items()}


def _example_row(batch: Batch, tokenizer: Any, objective: Objective) -> dict[str, list[str]]:
    """Inputs and labels of the first sequence by token; a label of the whole sequence is at its first token."""
    inputs, example = batch.inputs, {}
    length = min(int(inputs["lengths"][0]), MAX_SHOWN_TOKENS)

    def token_texts(ids: np.ndarray, tokenizer: Tokenizer) -> list[str]:
        return [tokenizer.id_to_token(token_id) if token_id >= 0 else "" for token_id in ids.tolist()]

    if isinstance(tokenizer, TokenizerPair):
        example["source"] = token_texts(inputs["source"][: int(inputs["source_lengths"][0])], tokenizer.source)
        tokenizer = tokenizer.target
    example["seen"] = token_texts(inputs["tokens"][:length], tokenizer)
    if "beside" in inputs:
        example["beside"] = token_texts(inputs["beside"][:length], tokenizer)
    for name, target in batch.targets.items():
        if len(target) != batch.num_target_tokens:  # a label of the sequence
            answer = pair_label_names(objective)[int(target[0])] if target[0] >= 0 else ""
            example[name] = [answer, *[""] * (length - 1)]
        elif target.dtype.kind == "f":
            example[name] = [f"{number:.2f}" for number in target[:length].tolist()]
        elif name == "tag":
            example[name] = [*parse_slash_tags(SAMPLE_TAGGED_SENTENCES[0])[1]][:length]
        else:
            example[name] = token_texts(target[:length], tokenizer)
    return example


@lru_cache(maxsize=256)
def _cached_model_size(spec: ModelSpec, vocab_size: int) -> ModelSize | None:
    """The size of a model; cached, as a deep network takes a second even on the meta device."""
    tokenizer = NominalTokenizer(train_tokenizer("words", SAMPLE_TEXTS), vocab_size)
    tokenizers = TokenizerPair(tokenizer, tokenizer) if spec.learns_from == "pairs" else tokenizer
    return model_size(spec, tokenizers, merge_recipe(spec.default_recipe()).batch)


def _parse_docstring(spec_class: type[ModelSpec]) -> tuple[str, str, dict[str, str]]:
    """The paper, what it changed, and the meaning of fields, parsed from a model's docstring."""
    text = inspect.getdoc(spec_class) or ""
    title, _, rest = text.partition("\n")
    names = [field.name for field in fields(spec_class)]
    base = spec_class.__base__  # inherited fields are described there
    meanings: dict[str, str] = _parse_docstring(base)[2] if base is not None and issubclass(base, ModelSpec) else {}
    prose: list[str] = []
    field_name = ""
    for line in rest.split("\n"):
        match = re.match(r"(\w+)\s{2,}(\S.*)", line)
        if match and match[1] in names:
            field_name = match[1]
            meanings[field_name] = match[2]
        elif field_name and line.startswith("  "):
            meanings[field_name] += " " + line.strip()
        else:
            prose.append(line)
    paragraphs = [" ".join(part.split()) for part in "\n".join(prose).split("\n\n")]
    return title.strip(), "\n\n".join(filter(None, paragraphs)), meanings
