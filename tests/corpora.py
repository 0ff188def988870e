"""A small story, reading with balanced books, a folder's contents, and a corpus's entities, for the text room."""

from pathlib import Path

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.io.files import find_sources, sources_digest
from forebear.data.io.ledger import Ledger
from forebear.data.io.reader import TextFormat
from forebear.data.segmentation import Segmenter
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.unicode import replace_surrogates

STORY = "The cat sat. It was warm!\nA dog came.\n\n他走了。她也走了！\n\nThe end"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def read(*paths, **how):
    """The documents' texts and the ledger, which must balance and agree with the files' fingerprint."""
    ledger = Ledger()
    documents = list(TextFormat(**how).documents_in(find_sources(paths, ledger), ledger))
    ledger.verify()
    assert ledger.fingerprint == sources_digest(find_sources(paths))
    return documents, ledger


def texts(*paths, **how):
    return [document.text for document in read(*paths, **how)[0]]


def segmented(tokenizer, texts):
    """Ids, counts and word starts of texts whose words rjieba finds."""
    tokens = tokenizer.encode_batch(texts, [Segmenter().word_ends(text) for text in texts])
    return tokens.ids, tokens.counts, tokens.starts


def lost(tokenizer, text):
    """The bytes of a text that become unknown tokens, by its spans."""
    pieces = tokenizer.encode(text)
    spans = [span for span, i in zip(pieces.spans, pieces.ids.tolist(), strict=True) if i == tokenizer.unk_id]
    return sum(len(replace_surrogates(text)[begin:end].encode()) for begin, end in spans)


def spoken(tokenizer: Tokenizer, ids: np.ndarray, flags: np.ndarray | None) -> list[str]:
    """What the entities say of tokens that are flagged so."""
    assert flags is not None
    assert flags.dtype == np.uint8
    assert len(flags) == len(ids)
    assert not (flags[1:][flags[:-1] == 0] == 2).any()
    said: list[list[int]] = []
    for i, flag in zip(ids.tolist(), flags.tolist(), strict=True):
        if flag == 1:
            said.append([])
        if flag:
            said[-1].append(i)
    return [tokenizer.decode(some).strip() for some in said]


def named(corpus: Corpus) -> list[str]:
    return spoken(corpus.tokenizer, np.asarray(corpus.ids), corpus.entities)
