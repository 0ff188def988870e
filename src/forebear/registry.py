"""The registry of models in historical order; their specs are imported lazily."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.models.spec import ModelSpec


@dataclass(frozen=True)
class LineageEntry:
    """A model of the lineage, described without importing it."""

    name: str
    title: str
    year: int
    authors: str
    idea: str
    spec_path: str  # module:class of the spec, imported on demand, so that n-gram models never load torch


LINEAGE: dict[str, LineageEntry] = {
    entry.name: entry
    for entry in (
        LineageEntry(
            "ngram",
            "N-gram",
            1948,
            "Shannon; Kneser and Ney",
            "the next word depends on the last few: count them",
            "forebear.models.ngram:NgramSpec",
        ),
        LineageEntry(
            "onehot",
            "one-hot",
            1975,
            "Salton et al.",
            "a word is its place in the vocabulary, and like no other",
            "forebear.models.onehot:OnehotSpec",
        ),
        LineageEntry(
            "hmm",
            "HMM",
            1989,
            "Baum et al.; Church; Rabiner",
            "words are said by states that nobody sees: learn both from the text alone",
            "forebear.models.hmm:HMMSpec",
        ),
        LineageEntry(
            "crf",
            "CRF",
            2001,
            "Lafferty et al.",
            "judge all labels of a sentence together, by anything that can be seen of its words",
            "forebear.models.crf:CRFSpec",
        ),
        LineageEntry(
            "nnlm",
            "NNLM",
            2003,
            "Bengio et al.",
            "give each word a vector, and learn to predict the next from those of the last few",
            "forebear.models.nnlm:NNLMSpec",
        ),
        LineageEntry(
            "rnn",
            "RNN",
            2010,
            "Mikolov et al.",
            "a state goes from word to word, and has seen all of the text before",
            "forebear.models.rnn:RNNSpec",
        ),
        LineageEntry(
            "lstm",
            "LSTM",
            2012,
            "Hochreiter and Schmidhuber; Sundermeyer et al.",
            "gates around a cell: what is known lasts, and so do gradients",
            "forebear.models.lstm:LSTMSpec",
        ),
        LineageEntry(
            "word2vec",
            "word2vec",
            2013,
            "Mikolov et al.",
            "a word is known by those around it: one layer, and billions of words",
            "forebear.models.word2vec:Word2VecSpec",
        ),
        LineageEntry(
            "glove",
            "GloVe",
            2014,
            "Pennington et al.",
            "count once which words stand together, and learn from the table",
            "forebear.models.glove:GloveSpec",
        ),
        LineageEntry(
            "seq2seq",
            "seq2seq",
            2014,
            "Sutskever et al.",
            "one LSTM reads a text into its state, another writes the translation from there",
            "forebear.models.seq2seq:Seq2SeqSpec",
        ),
        LineageEntry(
            "seq2seq_attention",
            "seq2seq with attention",
            2015,
            "Bahdanau et al.; Luong et al.",
            "before each word is written, look back at all that was read, and learn where",
            "forebear.models.seq2seq_attention:Seq2SeqAttentionSpec",
        ),
        LineageEntry(
            "cnn_rnn",
            "CNN-RNN",
            2016,
            "Kim et al.",
            "a word is how it is written: filters over letters, a recurrent network above",
            "forebear.models.cnn_rnn:CharCNNSpec",
        ),
        LineageEntry(
            "transformer",
            "Transformer",
            2017,
            "Vaswani et al.",
            "attention alone reads a text and writes its translation",
            "forebear.models.transformer:TransformerSpec",
        ),
        LineageEntry(
            "elmo",
            "ELMo",
            2018,
            "Peters et al.",
            "a vector for each word where it stands, from language models that read on and back",
            "forebear.models.elmo:ElmoSpec",
        ),
        LineageEntry(
            "gpt",
            "GPT",
            2018,
            "Radford et al.",
            "the Transformer's decoder learns plain text first and a task afterwards",
            "forebear.models.gpt:GPTSpec",
        ),
        LineageEntry(
            "bert",
            "BERT",
            2018,
            "Devlin et al.",
            "hide some tokens and find them again, looking both ways",
            "forebear.models.bert:BertSpec",
        ),
        LineageEntry(
            "gpt2",
            "GPT-2",
            2019,
            "Radford et al.",
            "a larger Transformer that only looks back needs no fine-tuning",
            "forebear.models.gpt2:GPT2Spec",
        ),
        LineageEntry(
            "ernie",
            "ERNIE",
            2019,
            "Sun et al.",
            "hide whole words, phrases and names instead of single characters",
            "forebear.models.ernie:ErnieSpec",
        ),
        LineageEntry(
            "roberta",
            "RoBERTa",
            2019,
            "Liu et al.",
            "BERT without sentence pairs, trained for longer on more",
            "forebear.models.roberta:RobertaSpec",
        ),
        LineageEntry(
            "albert",
            "ALBERT",
            2019,
            "Lan et al.",
            "one block for all layers and a narrow table: a tenth of BERT's parameters",
            "forebear.models.albert:AlbertSpec",
        ),
    )
}


def model_spec(name: str) -> type[ModelSpec]:
    """The spec class of a model; raises InputError with a suggestion for an unknown name."""
    if name not in LINEAGE:
        raise InputError(f"no milestone named {name!r}", hint=suggest(name, LINEAGE))
    module, _, attribute = LINEAGE[name].spec_path.partition(":")
    return getattr(import_module(module), attribute)


def tag_only_models() -> list[str]:
    """The names of the models that are trained on tagged words only."""
    return [name for name in LINEAGE if model_spec(name).learns_from == "tags"]


def text_models() -> list[str]:
    """The names of the models that are trained on plain text, in order."""
    return [name for name in LINEAGE if model_spec(name).learns_from == "text"]


def model_name(milestone: ModelSpec) -> str:
    """The name of the model of a spec."""
    path = f"{type(milestone).__module__}:{type(milestone).__name__}"
    return next(entry.name for entry in LINEAGE.values() if entry.spec_path == path)


def suggest(name: str, names: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known name, or all names."""
    known = list(names)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
