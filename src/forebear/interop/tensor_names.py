"""Tables of names: what our tensors are called in another program's files, read both ways, strictly, with a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from forebear.errors import InputError, join_faults

if TYPE_CHECKING:
    from torch import Tensor

OLD = {".gamma": ".weight", ".beta": ".bias"}  # what LayerNorm's two were called at first
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
TASK = r"(classifier|qa_outputs|score|multiple_choice_head)\..+"
UNUSED_HEAD_NOTE = "read by a head that is not there"
OF_TASKS = "of a head for a task that is not imported"


@dataclass(frozen=True)
class TensorNameRule:
    """One of our tensors and its names there, where it may be in parts that are stacked. `*` is a block's number.

    turned  stored [in, out] instead of [out, in]
    head    that it belongs to; none: the encoder
    lent    a layer that heads of tasks read too: there without the rest of its head, it is no head
    late    theirs has some rows before the first of ours
    """

    our_name: str
    theirs: tuple[str, ...]
    is_transposed: bool = False
    head: str = ""
    lent: bool = False
    late: bool = False


@dataclass(frozen=True)
class TensorNameMap:
    """All names of one architecture.

    title   what people call it
    prefix  before the encoder's names wherever there are heads beside it
    copies  names of tensors that are stored a second time: the copy, and the name that it repeats
    idle    patterns of names that may be there and mean nothing here, and why
    """

    title: str
    prefix: str
    rows: tuple[TensorNameRule, ...]
    tied: Mapping[str, str] = field(default_factory=dict)
    ignored_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.head for row in self.rows if row.head))

    def to_foreign(self, depth: int) -> tuple[TensorNameRule, ...]:
        """The rows, with those of blocks written out for so many of them."""
        found: list[TensorNameRule] = []
        for row in self.rows:
            for number in map(str, range(depth) if "*" in row.our_name + row.theirs[0] else (0,)):
                theirs = tuple(name.replace("*", number) for name in row.theirs)
                found.append(
                    TensorNameRule(
                        row.our_name.replace("*", number), theirs, row.is_transposed, row.head, row.lent, row.late
                    )
                )
        return tuple(found)

    def without_prefix(self, name: str) -> str:
        """A name without the prefix, and as it is called today."""
        name = name.removeprefix(self.prefix)
        for old, new in OLD.items():
            if name.endswith(old):
                return name.removesuffix(old) + new
        return name

    def likeness(self, names: Sequence[str]) -> tuple[int, int]:
        """How many kinds of its names are among these, and how many of these have its prefix."""
        kinds = {NUMBER.sub("*", self.without_prefix(name)) for name in names}
        own = {NUMBER.sub("*", name) for row in self.rows for name in row.theirs}
        return len(kinds & own), sum(name.startswith(self.prefix) for name in names)


@dataclass(frozen=True)
class NameMappingReport:
    """What became of the names in another program's file; `missing` is by head, `left_out` by reason."""

    title: str
    num_matched: int
    heads: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped_tensors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "architecture": self.title,
            "matched": self.num_matched,
            "heads": list(self.heads),
            "missing": {head: list(names) for head, names in self.missing.items()},
            "left_out": {why: list(names) for why, names in self.skipped_tensors.items()},
        }

    def notes(self) -> list[str]:
        """The same for people, a line for each thing."""
        told = [f"{self.num_matched:,} names are those of {self.title}, and were read"]
        for head, names in self.missing.items():
            told.append(f"it has no head {head!r}, because these are missing: {join_faults(names, 4)}")
        for why, names in self.skipped_tensors.items():
            told.append(f"left out ({why}): {join_faults(names, 4)}")
        return told


def to_our_names(
    table: TensorNameMap,
    theirs: Mapping[str, Tensor],
    *,
    depth: int,
    before: int = 0,
    others: Sequence[TensorNameMap] = (),
    file: Path | None = None,
) -> tuple[dict[str, Tensor], NameMappingReport]:
    """Their tensors under our names, shaped as ours are, in float32; every name of theirs must be accounted for.

    before  rows that a late one of theirs has before the first of ours
    others  architectures that names may be of which are not of this one, for the error
    """
    import torch

    spelled = {table.without_prefix(name): name for name in theirs}
    bare = {short: theirs[name] for short, name in spelled.items()}
    rows, present, missing = _present(table, bare, depth)
    wanted = {name for row in rows for name in row.theirs}
    copies = {copy: name for copy, name in table.tied.items() if copy in bare and name in wanted}
    for copy, name in copies.items():
        bare.setdefault(name, bare[copy])
        spelled.setdefault(name, spelled[copy])
    lent = {name for row in table.rows if row.lent for name in row.theirs} - wanted
    left_out = _left_out(table, bare.keys() - wanted - copies.keys(), lent)
    faults = [f"{name} is missing" for name in sorted(wanted - bare.keys())]
    accounted = wanted | copies.keys() | {name for names in left_out.values() for name in names}
    faults += [f"{name} is not known" for name in sorted(bare.keys() - accounted)]
    if len(spelled) < len(theirs):
        twice = sorted(name for name in theirs if spelled[table.without_prefix(name)] != name)
        faults += [f"{name} is there twice, with and without {table.prefix}" for name in twice]
    faults += _strange({name: bare[name] for name in sorted(wanted & bare.keys())})
    faults = faults or _misshapen(rows, bare, before)
    if not faults:
        faults = [f"{copy} is not the same as {name}" for copy, name in copies.items() if not _same(bare, copy, name)]
    if faults:
        _refuse(table, faults, list(theirs), others, file)

    def shaped(row: TensorNameRule) -> Tensor:
        parts = [bare[name].T if row.is_transposed else bare[name] for name in row.theirs]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return (whole[before:] if row.late else whole).to(torch.float32).contiguous()

    named = {why: tuple(spelled[name] for name in names) for why, names in left_out.items()}
    matched = len({spelled[name] for name in wanted} | {spelled[copy] for copy in copies})
    return {row.our_name: shaped(row) for row in rows}, NameMappingReport(table.title, matched, present, missing, named)


def to_hf_names(
    table: TensorNameMap, ours: Mapping[str, Tensor], *, depth: int, before: int = 0, prefixed: bool = True
) -> dict[str, Tensor]:
    """Our tensors under their names; what they tie is stored once, as they do."""
    import torch

    heads = head_names(ours)
    rows = tuple(row for row in table.to_foreign(depth) if not row.head or row.head in heads)
    if differ := sorted({row.our_name for row in rows} ^ ours.keys()):
        raise InputError(f"not the tensors of {table.title} with {depth} blocks: {join_faults(differ)}")
    found: dict[str, Tensor] = {}
    for row in rows:
        prefix = table.prefix if prefixed and (row.lent or not row.head) else ""
        whole = ours[row.our_name].detach().cpu()
        if row.late:
            whole = torch.cat((whole.new_zeros(before, *whole.shape[1:]), whole))
        for name, part in zip(row.theirs, whole.chunk(len(row.theirs)), strict=True):
            found[prefix + name] = (part.T if row.is_transposed else part).contiguous()
    return found


def head_names(ours: Iterable[str]) -> tuple[str, ...]:
    """The heads that tensors of these names belong to."""
    return tuple(dict.fromkeys(name.split(".")[1] for name in ours if name.startswith("heads.")))


def closest_architecture(names: Sequence[str], tables: Sequence[TensorNameMap]) -> TensorNameMap | None:
    """The architecture that these names are most like; None where they are like none."""
    best = max(tables, key=lambda table: table.likeness(names), default=None)
    return best if best is not None and best.likeness(names)[0] else None


def _refuse(
    table: TensorNameMap,
    faults: Sequence[str],
    names: Sequence[str],
    others: Sequence[TensorNameMap],
    file: Path | None,
) -> NoReturn:
    """An error that names the faults, and the architecture that the names look more like, if there is one."""
    own, near = table.likeness(names), closest_architecture(names, [table, *others])
    what = f"not {table.title}'s weights: {join_faults(faults)}"
    if not own[0]:
        what = f"none of its names is one of {table.title}'s"
    hint = f"give the folder of a whole {table.title}, as save_pretrained wrote it"
    if near is not None and near.likeness(names) > own:
        what += f"; these look like {near.title}'s"
        hint += f", or correct model_type in its config.json if it is {near.title}"
    raise InputError(what, file=file, hint=hint)


def _present(
    table: TensorNameMap, bare: Mapping[str, Tensor], depth: int
) -> tuple[tuple[TensorNameRule, ...], tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The rows of the encoder and of heads that are there, those heads, and what the others lack.

    A head of which some names are there is there: if it is torn, that is a fault.
    """
    rows = table.to_foreign(depth)
    present, missing = [], {}
    for head in table.heads:
        own = [name for row in rows if row.head == head and not row.lent for name in row.theirs]
        known = {*own, *(copy for copy, name in table.tied.items() if name in own)}
        if known & bare.keys():
            present.append(head)
        else:
            missing[head] = tuple(own)
    return tuple(row for row in rows if not row.head or row.head in present), tuple(present), missing


def _left_out(table: TensorNameMap, names: set[str], lent: set[str]) -> dict[str, tuple[str, ...]]:
    """Those of the names that may be left out, by the reason."""
    reasons = {re.escape(name): UNUSED_HEAD_NOTE for name in sorted(lent)}
    reasons |= {**table.ignored_names, TASK: OF_TASKS}
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        why = next((why for pattern, why in reasons.items() if re.fullmatch(pattern, name)), None)
        if why is not None:
            found.setdefault(why, []).append(name)
    return {why: tuple(members) for why, members in found.items()}


def _strange(tensors: Mapping[str, Tensor]) -> list[str]:
    """Tensors that are no numbers to compute with."""
    import torch

    faults = []
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            faults.append(f"{name} is of {tensor.dtype}, not of floating point")
        elif not torch.isfinite(tensor).all():
            faults.append(f"{name} holds what is no number")
    return faults


def _misshapen(rows: Sequence[TensorNameRule], tensors: Mapping[str, Tensor], before: int) -> list[str]:
    """Tensors that cannot be turned, stacked or cut; whether they fit the model is for the model to say."""
    faults = []
    for row in rows:
        shapes = {name: tuple(tensors[name].shape) for name in row.theirs}
        flat = row.our_name.endswith(".bias") or "norm" in row.our_name
        for name, shape in shapes.items():
            if len(shape) != (1 if flat else 2) or (row.late and shape[0] <= before):
                faults.append(f"{name} has the shape {shape}")
        if len(set(shapes.values())) > 1:
            faults.append(f"{', '.join(shapes)} are not of one shape")
    return faults


def _same(tensors: Mapping[str, Tensor], copy: str, name: str) -> bool:
    import torch

    return tensors[copy].dtype == tensors[name].dtype and torch.equal(tensors[copy], tensors[name])


# The architectures of Hugging Face transformers that are milestones here: their tensors' names and their numbers.


TOKEN_TABLE = "encoder.embedding.token.weight"  # of our names, those with a row for each entry of the vocabulary
TOKEN_BIAS = "heads.token.bias"
ATTENTION = ("query", "key", "value")  # stacked in ours
CONSTANT = "a constant that old versions saved, no weight"
# theirs: ours, of the names of curves
CURVES = {"gelu": "gelu", "gelu_new": "gelu-tanh", "relu": "relu", "gelu_python": "gelu"}
CURVES |= {"gelu_pytorch_tanh": "gelu-tanh"}


@dataclass(frozen=True)
class Architecture:
    """One architecture.

    milestone  its name here
    kind       its name there: model_type
    classes    the name of the class there by the heads that it has, the first with all of them
    fields     ours: theirs, of the numbers in config.json
    defaults   of the numbers that a config may leave out
    dropouts   theirs; one serves for all here
    inner      what the width inside the feed-forward layer is called; none: it is always four times the width
    curve      what the activation is called, if it can be chosen
    usual      the activation where a config leaves it out
    built      what it can be told to be there, and the values that are built here; if left out, it is the first
    always     heads without tensors of their own
    pairs      what its pair head asks: our word for it
    late       positions begin after the row of the padding token
    """

    model: str
    kind: str
    name_map: TensorNameMap
    classes: Mapping[tuple[str, ...], str]
    fields: Mapping[str, str]
    defaults: Mapping[str, int | float]
    dropouts: tuple[str, ...]
    ffn_key: str = ""
    activation_key: str = ""
    default_activation: str = "gelu"
    built: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    implicit_heads: tuple[str, ...] = ()
    sentence_task: str = "none"
    offset_positions: bool = False


def layer_rules(
    ours: str, *theirs: str, turned: bool = False, head: str = "", lent: bool = False
) -> tuple[TensorNameRule, TensorNameRule]:
    """The weight and the bias of one layer."""
    weights, biases = (tuple(f"{name}.{part}" for name in theirs) for part in ("weight", "bias"))
    return TensorNameRule(f"{ours}.weight", weights, turned, head, lent), TensorNameRule(
        f"{ours}.bias", biases, False, head, lent
    )


# -- those that look back

DECODER_BLOCK = (
    *layer_rules("encoder.blocks.*.attention_norm", "h.*.ln_1"),
    *layer_rules("encoder.blocks.*.attention.query_key_value", "h.*.attn.c_attn", turned=True),
    *layer_rules("encoder.blocks.*.attention.output", "h.*.attn.c_proj", turned=True),
    *layer_rules("encoder.blocks.*.feedforward_norm", "h.*.ln_2"),
    *layer_rules("encoder.blocks.*.expand", "h.*.mlp.c_fc", turned=True),
    *layer_rules("encoder.blocks.*.contract", "h.*.mlp.c_proj", turned=True),
)
MASKS = {r"h\.\d+\.attn\.(bias|masked_bias)": CONSTANT}
GPT_FIELDS = {"width": "n_embd", "depth": "n_layer", "heads": "n_head", "context": "n_positions"}
GPT_FIELDS |= {"epsilon": "layer_norm_epsilon"}
GPT_DROPOUTS = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
GPT_DEFAULTS: dict[str, int | float] = {"n_embd": 768, "n_layer": 12, "n_head": 12, "layer_norm_epsilon": 1e-5}
GPT_DEFAULTS |= dict.fromkeys(GPT_DROPOUTS, 0.1)
PLAIN: dict[str, tuple[Any, ...]] = {
    "tie_word_embeddings": (True,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "auto_map": (None,),  # code of its own, which is never run
}

GPT = Architecture(
    model="gpt",
    kind="openai-gpt",
    name_map=TensorNameMap(
        "GPT",
        "transformer.",
        (
            TensorNameRule(TOKEN_TABLE, ("tokens_embed.weight",)),
            TensorNameRule("encoder.embedding.position.weight", ("positions_embed.weight",)),
            *DECODER_BLOCK,
        ),
        tied={"lm_head.weight": "tokens_embed.weight"},
        ignored_names=MASKS | {"position_ids": CONSTANT},
    ),
    classes={(): "OpenAIGPTLMHeadModel"},
    fields=GPT_FIELDS,
    defaults=GPT_DEFAULTS | {"n_positions": 512},
    dropouts=GPT_DROPOUTS,
    built=PLAIN | {"afn": ("gelu",)},  # by which they mean the one with a tanh, in this architecture only
    implicit_heads=("next",),
)

GPT2 = Architecture(
    model="gpt2",
    kind="gpt2",
    name_map=TensorNameMap(
        "GPT-2",
        "transformer.",
        (
            TensorNameRule(TOKEN_TABLE, ("wte.weight",)),
            TensorNameRule("encoder.embedding.position.weight", ("wpe.weight",)),
            *DECODER_BLOCK,
            *layer_rules("encoder.final_norm", "ln_f"),
        ),
        tied={"lm_head.weight": "wte.weight"},
        ignored_names=MASKS,
    ),
    classes={(): "GPT2LMHeadModel"},
    fields=GPT_FIELDS,
    defaults=GPT_DEFAULTS | {"n_positions": 1024},
    dropouts=GPT_DROPOUTS,
    ffn_key="n_inner",
    built=PLAIN
    | {
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    implicit_heads=("next",),
)

# -- those that look both ways

EMBEDDING = (
    TensorNameRule(TOKEN_TABLE, ("embeddings.word_embeddings.weight",)),
    TensorNameRule("encoder.embedding.segment.weight", ("embeddings.token_type_embeddings.weight",)),
    *layer_rules("encoder.embedding.norm", "embeddings.LayerNorm"),
)
POSITION = TensorNameRule("encoder.embedding.position.weight", ("embeddings.position_embeddings.weight",))
ENCODER_BLOCK = (
    *layer_rules(
        "encoder.blocks.*.attention.query_key_value",
        *(f"encoder.layer.*.attention.self.{part}" for part in ATTENTION),
    ),
    *layer_rules("encoder.blocks.*.attention.output", "encoder.layer.*.attention.output.dense"),
    *layer_rules("encoder.blocks.*.attention_norm", "encoder.layer.*.attention.output.LayerNorm"),
    *layer_rules("encoder.blocks.*.expand", "encoder.layer.*.intermediate.dense"),
    *layer_rules("encoder.blocks.*.contract", "encoder.layer.*.output.dense"),
    *layer_rules("encoder.blocks.*.feedforward_norm", "encoder.layer.*.output.LayerNorm"),
)
BERT_HEADS = (
    TensorNameRule(TOKEN_BIAS, ("cls.predictions.bias",), head="token"),
    *layer_rules("heads.token.transform", "cls.predictions.transform.dense", head="token"),
    *layer_rules("heads.token.transform_norm", "cls.predictions.transform.LayerNorm", head="token"),
    *layer_rules("heads.pair.pool", "pooler.dense", head="pair", lent=True),
    *layer_rules("heads.pair.choose", "cls.seq_relationship", head="pair"),
)
BERT_COPIES = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
PLACES = {r"embeddings\.(position_ids|token_type_ids)": CONSTANT}
BERT_FIELDS = {"width": "hidden_size", "depth": "num_hidden_layers", "heads": "num_attention_heads"}
BERT_FIELDS |= {"context": "max_position_embeddings", "epsilon": "layer_norm_eps"}
BERT_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
BERT_DEFAULTS: dict[str, int | float] = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
BERT_DEFAULTS |= {"max_position_embeddings": 512, "layer_norm_eps": 1e-12, "intermediate_size": 3072}
BERT_DEFAULTS |= dict.fromkeys(BERT_DROPOUTS, 0.1)
BOTH_WAYS = PLAIN | {
    "type_vocab_size": (2,),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}


def _classes(name: str) -> dict[tuple[str, ...], str]:
    return {
        ("token", "pair"): f"{name}ForPreTraining",
        ("token",): f"{name}ForMaskedLM",
        ("pair",): f"{name}ForNextSentencePrediction",
        (): f"{name}Model",
    }


BERT = Architecture(
    model="bert",
    kind="bert",
    name_map=TensorNameMap("BERT", "bert.", (*EMBEDDING, POSITION, *ENCODER_BLOCK, *BERT_HEADS), BERT_COPIES, PLACES),
    classes=_classes("Bert"),
    fields=BERT_FIELDS,
    defaults=BERT_DEFAULTS,
    dropouts=BERT_DROPOUTS,
    ffn_key="intermediate_size",
    activation_key="hidden_act",
    built=BOTH_WAYS,
    sentence_task="next",
)

TASKS = "embeddings.task_type_embeddings.weight"  # of ERNIE 2 and 3: a vector for each of the tasks it was trained on
ERNIE = Architecture(
    model="ernie",
    kind="ernie",
    name_map=TensorNameMap(
        "ERNIE",
        "ernie.",
        (*EMBEDDING, POSITION, *ENCODER_BLOCK, *BERT_HEADS),
        BERT_COPIES,
        PLACES | {TASKS: "vectors for tasks, which this model does not add to its input"},
    ),
    classes=_classes("Ernie"),
    fields=BERT_FIELDS,
    defaults=BERT_DEFAULTS,
    dropouts=BERT_DROPOUTS,
    ffn_key="intermediate_size",
    activation_key="hidden_act",
    built=BOTH_WAYS,
    sentence_task="next",
)

ROBERTA = Architecture(
    model="roberta",
    kind="roberta",
    name_map=TensorNameMap(
        "RoBERTa",
        "roberta.",
        (
            *EMBEDDING,
            TensorNameRule(POSITION.our_name, POSITION.theirs, late=True),
            *ENCODER_BLOCK,
            TensorNameRule(TOKEN_BIAS, ("lm_head.bias",), head="token"),
            *layer_rules("heads.token.transform", "lm_head.dense", head="token"),
            *layer_rules("heads.token.transform_norm", "lm_head.layer_norm", head="token"),
        ),
        {"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
        PLACES | {r"pooler\.dense\.(weight|bias)": UNUSED_HEAD_NOTE},
    ),
    classes={("token",): "RobertaForMaskedLM", (): "RobertaModel"},
    fields=BERT_FIELDS,
    defaults=BERT_DEFAULTS,
    dropouts=BERT_DROPOUTS,
    ffn_key="intermediate_size",
    activation_key="hidden_act",
    # Their head for tokens always has the exact GELU, whatever the blocks have.
    built=BOTH_WAYS | {"type_vocab_size": (1,), "hidden_act": ("gelu", "gelu_python")},
    offset_positions=True,
)

LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
ALBERT = Architecture(
    model="albert",
    kind="albert",
    name_map=TensorNameMap(
        "ALBERT",
        "albert.",
        (
            *EMBEDDING,
            POSITION,
            *layer_rules("encoder.project", "encoder.embedding_hidden_mapping_in"),
            *layer_rules(
                "encoder.blocks.0.attention.query_key_value", *(f"{LAYER}.attention.{part}" for part in ATTENTION)
            ),
            *layer_rules("encoder.blocks.0.attention.output", f"{LAYER}.attention.dense"),
            *layer_rules("encoder.blocks.0.attention_norm", f"{LAYER}.attention.LayerNorm"),
            *layer_rules("encoder.blocks.0.expand", f"{LAYER}.ffn"),
            *layer_rules("encoder.blocks.0.contract", f"{LAYER}.ffn_output"),
            *layer_rules("encoder.blocks.0.feedforward_norm", f"{LAYER}.full_layer_layer_norm"),
            TensorNameRule(TOKEN_BIAS, ("predictions.bias",), head="token"),
            *layer_rules("heads.token.transform", "predictions.dense", head="token"),
            *layer_rules("heads.token.transform_norm", "predictions.LayerNorm", head="token"),
            *layer_rules("heads.pair.pool", "pooler", head="pair", lent=True),
            *layer_rules("heads.pair.choose", "sop_classifier.classifier", head="pair"),
        ),
        {
            "predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "predictions.decoder.bias": "predictions.bias",
        },
        PLACES,
    ),
    classes=_classes("Albert") | {("pair",): "AlbertModel"},
    fields=BERT_FIELDS | {"table": "embedding_size"},
    defaults=BERT_DEFAULTS
    | {"hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384, "embedding_size": 128}
    | dict.fromkeys(BERT_DROPOUTS, 0.0),
    dropouts=BERT_DROPOUTS,
    ffn_key="intermediate_size",
    activation_key="hidden_act",
    default_activation="gelu_new",
    built=BOTH_WAYS | {"num_hidden_groups": (1,), "inner_group_num": (1,)},
    sentence_task="order",
)

FAMILIES = {family.model: family for family in (GPT, BERT, GPT2, ERNIE, ROBERTA, ALBERT)}
