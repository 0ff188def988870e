"""The table of contents: every milestone in the order history made them; the only such list, imported lazily."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from forebear.errors import BadInput

if TYPE_CHECKING:
    from forebear.milestones.milestone import Milestone


@dataclass(frozen=True)
class Entry:
    """One line of the table: what a reader should know before anything is loaded."""

    name: str
    title: str
    year: int
    authors: str
    idea: str
    place: str  # module:class, imported when it is asked for, so that counting n-grams never loads torch


LINEAGE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "ngram",
            "N-gram",
            1948,
            "Shannon; Kneser and Ney",
            "the next word depends on the last few: count them",
            "forebear.milestones.ngram:Ngram",
        ),
        Entry(
            "onehot",
            "one-hot",
            1975,
            "Salton et al.",
            "a word is its place in the vocabulary, and like no other",
            "forebear.milestones.onehot:OneHot",
        ),
        Entry(
            "hmm",
            "HMM",
            1989,
            "Baum et al.; Church; Rabiner",
            "words are said by states that nobody sees: learn both from the text alone",
            "forebear.milestones.hmm:Hmm",
        ),
        Entry(
            "crf",
            "CRF",
            2001,
            "Lafferty et al.",
            "judge all labels of a sentence together, by anything that can be seen of its words",
            "forebear.milestones.crf:Crf",
        ),
        Entry(
            "nnlm",
            "NNLM",
            2003,
            "Bengio et al.",
            "give each word a vector, and learn to predict the next from those of the last few",
            "forebear.milestones.nnlm:Nnlm",
        ),
        Entry(
            "rnn",
            "RNN",
            2010,
            "Mikolov et al.",
            "a state goes from word to word, and has seen all of the text before",
            "forebear.milestones.rnn:Rnn",
        ),
        Entry(
            "lstm",
            "LSTM",
            2012,
            "Hochreiter and Schmidhuber; Sundermeyer et al.",
            "gates around a cell: what is known lasts, and so do gradients",
            "forebear.milestones.lstm:Lstm",
        ),
        Entry(
            "word2vec",
            "word2vec",
            2013,
            "Mikolov et al.",
            "a word is known by those around it: one layer, and billions of words",
            "forebear.milestones.word2vec:Word2vec",
        ),
        Entry(
            "glove",
            "GloVe",
            2014,
            "Pennington et al.",
            "count once which words stand together, and learn from the table",
            "forebear.milestones.glove:Glove",
        ),
        Entry(
            "seq2seq",
            "seq2seq",
            2014,
            "Sutskever et al.",
            "one LSTM reads a text into its state, another writes the translation from there",
            "forebear.milestones.seq2seq:Seq2seq",
        ),
        Entry(
            "seq2seq_attention",
            "seq2seq with attention",
            2015,
            "Bahdanau et al.; Luong et al.",
            "before each word is written, look back at all that was read, and learn where",
            "forebear.milestones.seq2seq_attention:Seq2seqAttention",
        ),
        Entry(
            "cnn_rnn",
            "CNN-RNN",
            2016,
            "Kim et al.",
            "a word is how it is written: filters over letters, a recurrent network above",
            "forebear.milestones.cnn_rnn:CnnRnn",
        ),
        Entry(
            "transformer",
            "Transformer",
            2017,
            "Vaswani et al.",
            "attention alone reads a text and writes its translation",
            "forebear.milestones.transformer:Transformer",
        ),
        Entry(
            "elmo",
            "ELMo",
            2018,
            "Peters et al.",
            "a vector for each word where it stands, from language models that read on and back",
            "forebear.milestones.elmo:Elmo",
        ),
        Entry(
            "gpt",
            "GPT",
            2018,
            "Radford et al.",
            "the Transformer's decoder learns plain text first and a task afterwards",
            "forebear.milestones.gpt:Gpt",
        ),
        Entry(
            "bert",
            "BERT",
            2018,
            "Devlin et al.",
            "hide some tokens and find them again, looking both ways",
            "forebear.milestones.bert:Bert",
        ),
        Entry(
            "gpt2",
            "GPT-2",
            2019,
            "Radford et al.",
            "a larger Transformer that only looks back needs no fine-tuning",
            "forebear.milestones.gpt2:Gpt2",
        ),
        Entry(
            "ernie",
            "ERNIE",
            2019,
            "Sun et al.",
            "hide whole words, phrases and names instead of single characters",
            "forebear.milestones.ernie:Ernie",
        ),
        Entry(
            "roberta",
            "RoBERTa",
            2019,
            "Liu et al.",
            "BERT without sentence pairs, trained for longer on more",
            "forebear.milestones.roberta:Roberta",
        ),
        Entry(
            "albert",
            "ALBERT",
            2019,
            "Lan et al.",
            "one block for all layers and a narrow table: a tenth of BERT's parameters",
            "forebear.milestones.albert:Albert",
        ),
    )
}


def milestone_named(name: str) -> type[Milestone]:
    """The class of a milestone; a name that is not in the table is refused with the nearest that is."""
    if name not in LINEAGE:
        raise BadInput(f"no milestone named {name!r}", remedy=nearest(name, LINEAGE))
    module, _, attribute = LINEAGE[name].place.partition(":")
    return getattr(import_module(module), attribute)


def learning_from_tags() -> list[str]:
    """Those that words with their tags teach, and nothing else."""
    return [name for name in LINEAGE if milestone_named(name).learns_from == "tags"]


def learning_from_text() -> list[str]:
    """The names of those that learn from plain text, in order."""
    return [name for name in LINEAGE if milestone_named(name).learns_from == "text"]


def name_of(milestone: Milestone) -> str:
    """The name in the table of a milestone that was made."""
    place = f"{type(milestone).__module__}:{type(milestone).__name__}"
    return next(entry.name for entry in LINEAGE.values() if entry.place == place)


def nearest(name: str, names: Iterable[str]) -> str:
    """A remedy for a name that is not there."""
    known = list(names)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
