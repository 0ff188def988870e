"""Words by their vectors alone: the table of a run, whichever way it was learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.text.aside import cache
from forebear.training.checkpoint import digest
from forebear.using.lexicon import Lexicon
from forebear.using.word_cutting import Cutting
from forebear.vectors.table import WordTable

if TYPE_CHECKING:
    from forebear.using.opened import Opened

TABLE = "encoder.embedding.token.weight"  # of networks, by its name among their weights


def is_table(run: Opened) -> bool:
    """Whether the run is nothing but a table of words: what it says of a text follows from its words alone."""
    return run.folder.milestone.learning == "sweeping" and run.task is None


def has_words(run: Opened) -> bool:
    """Whether there is a vector for each word of a vocabulary."""
    return "analogy" in run.verbs


def cutting_of(run: Opened) -> Cutting:
    """What finds the words of texts in the run's table."""
    from forebear.vectors.words_and_phrases import WordsAndPhrases

    return Cutting(run.words, run.tokenizer, run.network.phrases if isinstance(run.network, WordsAndPhrases) else None)


def lexicon_of(run: Opened) -> Lexicon:
    """The words of a run, to be asked; an index of them is kept by what its weights are."""

    def kept() -> Path:
        file = cache() / "vectors" / f"{digest(run.folder.weights()[0])[:32]}-words.usearch"
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    return Lexicon(run.words, cutting_of(run).words, kept)


def table_of(run: Opened) -> WordTable:
    """A vector for each word that the run knows; an error for one whose tokens are no words."""
    from forebear.networks.characters import Spelled

    tokenizer, path = run.tokenizer, run.folder.path
    if is_table(run):
        return run.network.table(tokenizer.tokens())
    if tokenizer.kind != "words":
        remedy = "train with --tokenizer words; or search the sentences of a file: forebear neighbours --among FILE"
        raise BadInput(f"its tokens are {tokenizer.kind}, not words", file=path, remedy=remedy)
    if run.folder.milestone.learning == "counting":
        raise BadInput("counts, and has no vectors", file=path, remedy=f"it can be asked to: {', '.join(run.verbs)}")
    ids = np.array([i for i in range(tokenizer.size) if i not in tokenizer.specials], np.int64)
    found = dict(run.network.named_parameters()).get(TABLE)
    embedding = run.model.encoder.embedding
    if found is None and isinstance(embedding, Spelled):
        return WordTable([tokenizer.token(int(i)) for i in ids], embedding.table(ids), compose=embedding.written)
    if found is None:
        remedy = "ask the run that it was made of, or one that was pretrained"
        raise BadInput("has no table of words to be read", file=path, remedy=remedy)
    return WordTable([tokenizer.token(int(i)) for i in ids], found.detach().float().numpy()[ids])
