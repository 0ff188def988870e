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
    spec_path: str  # module:class of the spec, imported on demand: n-gram models never load torch


# Name (also of the module in `models`), title, year, authors, spec class; idea.
_ENTRIES = (
    ("ngram", "N-gram", 1948, "Shannon; Kneser and Ney", "NgramSpec",
     "the next word depends on the last few: count them"),
    ("onehot", "one-hot", 1975, "Salton et al.", "OnehotSpec",
     "a word is its place in the vocabulary, and like no other"),
    ("hmm", "HMM", 1989, "Baum et al.; Church; Rabiner", "HMMSpec",
     "words are said by states that nobody sees: learn both from the text alone"),
    ("crf", "CRF", 2001, "Lafferty et al.", "CRFSpec",
     "judge all labels of a sentence together, by anything that can be seen of its words"),
    ("nnlm", "NNLM", 2003, "Bengio et al.", "NNLMSpec",
     "give each word a vector, and learn to predict the next from those of the last few"),
    ("rnn", "RNN", 2010, "Mikolov et al.", "RNNSpec",
     "a state goes from word to word, and has seen all of the text before"),
    ("lstm", "LSTM", 2012, "Hochreiter and Schmidhuber; Sundermeyer et al.", "LSTMSpec",
     "gates around a cell: what is known lasts, and so do gradients"),
    ("word2vec", "word2vec", 2013, "Mikolov et al.", "Word2VecSpec",
     "a word is known by those around it: one layer, and billions of words"),
    ("glove", "GloVe", 2014, "Pennington et al.", "GloveSpec",
     "count once which words stand together, and learn from the table"),
    ("seq2seq", "seq2seq", 2014, "Sutskever et al.", "Seq2SeqSpec",
     "one LSTM reads a text into its state, another writes the translation from there"),
    ("seq2seq_attention", "seq2seq with attention", 2015, "Bahdanau et al.; Luong et al.", "Seq2SeqAttentionSpec",
     "before each word is written, look back at all that was read, and learn where"),
    ("cnn_rnn", "CNN-RNN", 2016, "Kim et al.", "CharCNNSpec",
     "a word is how it is written: filters over letters, a recurrent network above"),
    ("transformer", "Transformer", 2017, "Vaswani et al.", "TransformerSpec",
     "attention alone reads a text and writes its translation"),
    ("elmo", "ELMo", 2018, "Peters et al.", "ElmoSpec",
     "a vector for each word where it stands, from language models that read on and back"),
    ("gpt", "GPT", 2018, "Radford et al.", "GPTSpec",
     "the Transformer's decoder learns plain text first and a task afterwards"),
    ("bert", "BERT", 2018, "Devlin et al.", "BertSpec",
     "hide some tokens and find them again, looking both ways"),
    ("gpt2", "GPT-2", 2019, "Radford et al.", "GPT2Spec",
     "a larger Transformer that only looks back needs no fine-tuning"),
    ("ernie", "ERNIE", 2019, "Sun et al.", "ErnieSpec",
     "hide whole words, phrases and names instead of single characters"),
    ("roberta", "RoBERTa", 2019, "Liu et al.", "RobertaSpec",
     "BERT without sentence pairs, trained for longer on more"),
    ("albert", "ALBERT", 2019, "Lan et al.", "AlbertSpec",
     "one block for all layers and a narrow table: a tenth of BERT's parameters"),
)  # fmt: skip
LINEAGE: dict[str, LineageEntry] = {
    name: LineageEntry(name, title, year, authors, idea, f"forebear.models.{name}:{spec_class}")
    for name, title, year, authors, spec_class, idea in _ENTRIES
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


def model_name(spec: ModelSpec) -> str:
    """The name of the model that a spec describes."""
    path = f"{type(spec).__module__}:{type(spec).__name__}"
    return next(entry.name for entry in LINEAGE.values() if entry.spec_path == path)


def suggest(name: str, names: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known name, or all names."""
    known_names = list(names)
    matches = difflib.get_close_matches(name, known_names, n=1)
    return f"did you mean {matches[0]}?" if matches else f"there are: {', '.join(known_names)}"
