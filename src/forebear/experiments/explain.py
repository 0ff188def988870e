"""What a milestone is: its paper, what it changed, what it predicts from what, its fields, what each size weighs."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.parallel import ParallelSubset, TokenizerPair
from forebear.data.labeled.examples import TaggedExample
from forebear.data.labeled.readers import parse_slash_tags
from forebear.data.labeled.tag_schemes import free_transitions
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.experiments.plan import plan_pretraining
from forebear.experiments.preview import answers_of
from forebear.experiments.unused_settings import UNUSED_BY_LEARNER, settings_kind
from forebear.heads import head_capabilities
from forebear.models.spec import ModelSpec
from forebear.objectives.batch import Batch, BatchKey, Objective
from forebear.objectives.cooccurrence import Cooccurrences
from forebear.registry import LINEAGE, LineageEntry, model_spec
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task_batches import FullBatch
from forebear.training.settings import BUDGETS, Recipe, merge_recipe

if TYPE_CHECKING:
    from forebear.nn.encoder import Encoder
    from forebear.nn.model import Model
    from forebear.statistical.hmm import HMMModel

# What a network weighs before it exists: parameters, work for a token and memory, computed and not quoted.


NUMBER = 4  # bytes of a float32
FEW = 8  # tokens


@dataclass(frozen=True)
class ModelSize:
    """One network's figures, in numbers and bytes.

    flops        multiplications and additions to read one token of a full row forward, and answer with every head.
                 A product of (a, b) and (b, c) counts 2·a·b·c; attention counts as if each token saw the whole row.
                 For a Transformer of depth L, width D, inner width F, vocabulary V and rows of n tokens that is
                 L·(2·(4·D² + 2·D·F) + 4·n·D) + 2·V·D. Training takes about three times as much. Of what translates
                 it is one token read and one written.
    activations  what is kept between the forward and the backward pass of a batch
    """

    parameters: int
    longest: int | None  # tokens of a row; None: any number
    flops: float
    weights: int
    gradients: int
    moments: int  # Adam's two for every parameter, AdaGrad's one
    activations: int
    batch: int  # tokens, to which `activations` belongs
    cache: int  # keys and values of a full row, or the state of a recurrent network, while generating

    @property
    def to_train(self) -> int:
        return self.weights + self.gradients + self.moments + self.activations

    @property
    def to_use(self) -> int:
        return self.weights + self.cache

    def to_dict(self) -> dict[str, Any]:
        return {
            "parameters": self.parameters,
            "longest_input": self.longest,
            "flops_per_token": self.flops,
            "memory_to_train": self.to_train,
            "memory_to_train_parts": {
                "weights": self.weights,
                "gradients": self.gradients,
                "moments": self.moments,
                "activations": self.activations,
                "batch_tokens": self.batch,
            },
            "memory_to_use": self.to_use,
        }


def model_size(milestone: ModelSpec, tokenizer: Tokenizer | TokenizerPair, batch: int) -> ModelSize | None:
    """The figures of this milestone's network with this vocabulary; None for one that counts and grows with its text.

    The network is built, and one full row goes through it, on torch's meta device: shapes without numbers.
    """
    if milestone.learning == "counting" and not milestone.counts_again:
        return None
    network = milestone.build(tokenizer)
    if milestone.counts_again:
        return _of_states(network)
    if milestone.learning == "sweeping":
        return _of_tables(network)
    from forebear.nn.nnlm import NNLMEncoder

    encoder = network.encoder
    own = encoder.max_length or (encoder.window if isinstance(encoder, NNLMEncoder) else None)
    longest = own or milestone.context  # what it learns from at a time
    assert longest is not None
    # Where a row may be of any length, every token costs the same, and a few tell it: without numbers a step takes ms.
    row = longest if own else min(longest, FEW)
    parameters = network.num_parameters
    return ModelSize(
        parameters=parameters,
        longest=own,
        flops=_flops(network, row) / row,
        weights=NUMBER * parameters,
        gradients=NUMBER * parameters,
        moments=2 * NUMBER * parameters,
        activations=round(_kept(network, row) * max(batch, longest) / row),
        batch=max(batch, longest),
        cache=_cache(network.encoder, longest),
    )


def _of_tables(network: Any) -> ModelSize:
    """Rows are moved where they lie: there are no gradients to keep. A text costs the addition of its words' rows."""
    parameters, width = network.num_parameters, network.width
    nothing = {"gradients": 0, "moments": NUMBER * network.training_state_size, "activations": 0, "batch": 0, "cache": 0}
    return ModelSize(parameters=parameters, longest=None, flops=width, weights=NUMBER * parameters, **nothing)


def _of_states(network: HMMModel) -> ModelSize:
    """Probabilities are double numbers, as many are expected beside them, and a token moves each state to any other."""
    parameters, states = network.num_parameters, network.states + 1
    nothing = {"gradients": 0, "activations": 0, "batch": 0}
    own = {"weights": 2 * NUMBER * parameters, "moments": 2 * NUMBER * parameters, "cache": 2 * NUMBER * states}
    return ModelSize(parameters=parameters, longest=None, flops=2 * states * states + 3 * states, **nothing, **own)


def _cache(encoder: Encoder, longest: int) -> int:
    """Only what writes on keeps anything between two tokens: its state, and what its attention looks at."""
    if (remembered := encoder.state_size(longest)) is not None:
        return NUMBER * remembered
    if not encoder.has_attention:
        return 0
    if encoder.has_decoder:  # of what is written, and of the source
        return 2 * 2 * NUMBER * encoder.depth * longest * encoder.width
    return 2 * NUMBER * encoder.depth * longest * encoder.width if encoder.sees == "past" else 0


def _flops(network: Model, longest: int) -> int:
    """Of one full row, as torch counts them."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counted, torch.no_grad(), _at_once():
        network.logits(_row(network, longest))
    return counted.get_total_flops()


def _kept(network: Model, longest: int) -> int:
    """Bytes that one full row leaves for the backward pass: every different piece of memory once, weights left out."""
    import torch

    own = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        memory = tensor.untyped_storage()
        if memory._cdata not in own:
            kept[memory._cdata] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), _fused_attention(), _at_once():
        states = network.encoder(**_row(network, longest))
    alive = kept.copy()
    alive[states.last.untyped_storage()._cdata] = states.last.untyped_storage().nbytes()
    return sum(alive.values())


def _row(network: Model, length: int) -> dict[str, Any]:
    """A full row, and a source as long for what reads one."""
    import torch

    tokens = torch.zeros(length, dtype=torch.long, device="meta")
    source = {"source": tokens, "source_lengths": [length]} if network.encoder.has_decoder else {}
    return {"tokens": tokens, "lengths": [length], **source}


def _fused_attention() -> Any:
    """Without numbers torch would compute attention by its definition and keep every row's square of weights; with
    numbers it never holds that square. Inside this, it takes the shapes of the latter."""
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    class Fused(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not functional.scaled_dot_product_attention:
                return func(*args, **(kwargs or {}))
            causal = (kwargs or {}).get("is_causal", False)
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*args[:3], is_causal=causal)[0]

    return Fused()


def _at_once() -> Any:
    """Without numbers torch would take an LSTM token by token, at a thousandth of a second for each operation. Inside
    this all its tokens are one product, of the same sizes and leaving as much behind, as if their states were known."""
    import torch
    from torch.nn.functional import linear
    from torch.overrides import TorchFunctionMode

    class AtOnce(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not torch.lstm:
                return func(*args, **(kwargs or {}))
            x, (h, c), (by_input, by_state, bias, _) = args[:3]
            i, f, g, o = (linear(x, by_input, bias) + linear(h.expand(len(x), -1, -1), by_state)).chunk(4, -1)
            cells = f.sigmoid() * c + i.sigmoid() * g.tanh()
            out = o.sigmoid() * cells.tanh()
            return out, out[-1:], cells[-1:]

    return AtOnce()


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


class NominalTokenizer(Tokenizer):
    """A small tokenizer that says it has more entries: all that the shape of a network asks of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        vars(self).update(vars(tokenizer))  # it is the same in all else
        self._tokenizer, self.vocab_size = tokenizer, size

    def vocabulary(self) -> list[str]:
        own = self._tokenizer.vocabulary()[: self.vocab_size]
        return own + [""] * (self.vocab_size - len(own))


@dataclass(frozen=True)
class ModelExplanation:
    """A milestone for a reader."""

    entry: LineageEntry
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

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self)
        told["fields"] = {name: {"value": value, "meaning": meaning} for name, (value, meaning) in self.fields.items()}
        return told


def explain_model(
    name: str, *, size: str | None = None, settings: Mapping[str, Any] | None = None, vocabulary: int | None = None
) -> ModelExplanation:
    """Everything about a milestone, in one of its sizes or with fields of one's own."""
    kind = model_spec(name)
    own = plan_pretraining(name, (), size=size, settings=settings)
    entries = vocabulary or kind.entries  # so that published sizes come out
    made = {label: _in_size(kind, label) for label in kind.sizes}
    if settings or not made:
        made = {"yours": own.spec, **made}
    title, body, meanings = _docstring(kind)
    batch, tokenizer = sample_batch(own.spec)
    encoder, heads = _parts(own.spec, tokenizer)
    objective = FullBatch() if kind.learns_from == "tags" else own.spec.objective(tokenizer)
    values = asdict(own.spec)
    return ModelExplanation(
        entry=LINEAGE[name],
        paper=title,
        changed=body,
        sentence=_sentence(type(objective).__name__, batch, encoder, heads, settings_kind(kind)),
        learning=kind.learning,
        tokenizer=kind.tokenizer,
        encoder=encoder,
        heads=heads,
        verbs=head_capabilities(heads, encodes=kind.learning != "counting", words=kind.tokenizer == "words"),
        example=_example(batch, tokenizer, objective),
        fields={field: (values[field], meanings.get(field, "")) for field in values},
        recipe=_heeded(own.recipe, kind),
        size=own.size,
        vocabulary=entries,
        sizes={label: _sized(one, entries) for label, one in made.items()},
        remark=_remark(kind),
    )


def _remark(kind: type[ModelSpec]) -> str:
    """What is to be said where a size does not say how large a run becomes."""
    if kind.learning != "counting" or kind.counts_again:
        return ""
    return GROWS if kind.learns_from == "text" else OF_TAGS


def _heeded(recipe: Recipe, kind: type[ModelSpec]) -> dict[str, Any]:
    """What of a recipe says how long and how fast, as far as it means something to this milestone."""
    idle, _ = UNUSED_BY_LEARNER[settings_kind(kind)]
    told = recipe.to_dict()
    return {name: told[name] for name in PACE if name in told and name not in idle}


def model_capabilities(name: str) -> tuple[tuple[str, ...], str]:
    """What a run of this milestone can be asked, and why it is not ready, if it is not; loads no torch."""
    try:
        kind = model_spec(name)
        heads = _asked(_in_size(kind, kind.size))
    except Exception as error:  # noqa: BLE001 - a milestone under repair must not take the table of contents with it
        return (), f"{type(error).__name__}: {error}"
    return head_capabilities(heads, encodes=kind.learning != "counting", words=kind.tokenizer == "words"), ""


def _asked(milestone: ModelSpec) -> Iterable[str]:
    """The names of an objective's targets: as it says itself, or as a batch of it has them."""
    if milestone.learns_from == "tags":
        return ("tag",)
    if milestone.learns_from == "text":
        objective = milestone.objective(_as_corpus(EXAMPLE).tokenizer)
        if isinstance(objective, Cooccurrences):
            return objective.target_heads
    return sample_batch(milestone)[0].targets


def _in_size(kind: type[ModelSpec], size: str) -> ModelSpec:
    return kind(**kind.sizes.get(size, {}))


def sample_batch(milestone: ModelSpec) -> tuple[Batch, Any]:
    """The objective's first batch of two tiny documents, and the tokenizer, or both, that cut them."""
    if milestone.learns_from == "tags":
        examples = [TaggedExample(*parse_slash_tags(line)) for line in TAGGED]
        task = SequenceTagging.from_examples(examples, scheme="plain")
        tokenizer = train_tokenizer("words", [" ".join(one.words) for one in examples], split="spaces")
        rows = task.encode(examples, tokenizer, milestone.input_format(tokenizer))
        return FullBatch().batch(rows, 0, BatchKey(0, 0)), tokenizer
    if milestone.learns_from == "pairs":
        read, written = (_as_corpus(texts) for texts in (TRANSLATED, EXAMPLE))
        sides = TokenizerPair(read.tokenizer, written.tokenizer)
        pairs = ParallelSubset(read.all_documents(), written.all_documents(), np.arange(len(EXAMPLE)))
        size = sum(len(corpus) + len(EXAMPLE) for corpus in (read, written))
        return milestone.objective(sides).batch(pairs, size, BatchKey(0, 0)), sides
    corpus = _as_corpus(EXAMPLE)
    tokenizer, size = corpus.tokenizer, len(corpus) + len(corpus.sizes)
    return milestone.objective(tokenizer).batch(corpus.all_documents(), size, BatchKey(0, 0)), tokenizer


def _as_corpus(texts: Sequence[str]) -> Corpus:
    """These documents of a sentence a line, cut into words, as a corpus that is on no disk."""
    tokenizer = train_tokenizer("words", texts)
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
    corpus = Corpus(folder=Path(), metadata={"key": key}, **arrays)
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


def _parts(milestone: ModelSpec, tokenizer: Any) -> tuple[str, dict[str, str]]:
    """What turns inputs into states (nothing, in a model that counts), and what answers by each name."""
    if milestone.learns_from == "tags":
        return "", {"tag": type(milestone.build_tagger(tokenizer, free_transitions(1))).__name__}
    network = milestone.build(tokenizer)
    if milestone.learning != "descending":
        return "", {name: type(network).__name__ for name in network.heads}
    return type(network.encoder).__name__, {name: type(head).__name__ for name, head in network.heads.items()}


def _example(batch: Batch, tokenizer: Any, objective: Objective) -> dict[str, list[str]]:
    """The first row, token by token: what is seen, and beneath it what is asked (nothing where nothing is).

    What is asked of the whole row stands beneath its first token.
    """
    length = min(int(batch.inputs["lengths"][0]), SHOWN)
    per_token = {name: target for name, target in batch.targets.items() if len(target) == batch.num_target_tokens}
    told = {}
    if isinstance(tokenizer, TokenizerPair):
        read = batch.inputs["source"][: int(batch.inputs["source_lengths"][0])].tolist()
        told["source"] = [tokenizer.source.id_to_token(i) for i in read]
        tokenizer = tokenizer.target
    told["seen"] = [tokenizer.id_to_token(i) for i in batch.inputs["tokens"][:length].tolist()]
    if "beside" in batch.inputs:
        told["beside"] = [tokenizer.id_to_token(i) for i in batch.inputs["beside"][:length].tolist()]
    for name, target in per_token.items():
        if target.dtype.kind == "f":
            told[name] = [f"{number:.2f}" for number in target[:length].tolist()]
            continue
        if name == "tag":
            told[name] = [*parse_slash_tags(TAGGED[0])[1]][:length]
            continue
        told[name] = [tokenizer.id_to_token(i) if i >= 0 else "" for i in target[:length].tolist()]
    answers = answers_of(objective)
    for name in batch.targets.keys() - per_token.keys():
        number = int(batch.targets[name][0])
        told[name] = [answers[number] if number >= 0 else "", *[""] * (length - 1)]
    return told


@lru_cache(maxsize=256)
def _weight(milestone: ModelSpec, vocabulary: int) -> ModelSize | None:
    """Kept, because a deep network takes a second even without numbers."""
    nominal = NominalTokenizer(train_tokenizer("words", EXAMPLE), vocabulary)
    both = TokenizerPair(nominal, nominal) if milestone.learns_from == "pairs" else nominal
    return model_size(milestone, both, merge_recipe(milestone.default_recipe()).batch)


def _sized(milestone: ModelSpec, vocabulary: int) -> dict[str, Any]:
    weight = _weight(milestone, vocabulary)
    return {"fields": asdict(milestone), "figures": weight.to_dict() if weight is not None else None}


def _docstring(kind: type[ModelSpec]) -> tuple[str, str, dict[str, str]]:
    """The paper, what it changed, and what the fields mean: a milestone's docstring holds all three."""
    text = inspect.getdoc(kind) or ""
    title, _, rest = text.partition("\n")
    names = [field.name for field in fields(kind)]
    older = kind.__base__  # what a milestone has from the one before it is said there
    meanings: dict[str, str] = _docstring(older)[2] if older is not None and issubclass(older, ModelSpec) else {}
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
