"""A small story, documents read with a verified ledger, contents of folders, and entities of a corpus."""

from pathlib import Path

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.io.sources import find_sources, sources_digest
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger
from forebear.data.segmentation import Segmenter
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.unicode import replace_surrogates

STORY = "The cat sat. It was warm!\nA dog came.\n\n他走了。她也走了！\n\nThe end"


def folder_contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def read_documents(*paths, **options):
    """The documents and the ledger, which must balance and agree with the fingerprint of the files."""
    ledger = Ledger()
    documents = list(TextFormat(**options).documents_in(find_sources(paths, ledger), ledger))
    ledger.verify()
    assert ledger.fingerprint == sources_digest(find_sources(paths))
    return documents, ledger


def read_texts(*paths, **options):
    return [document.text for document in read_documents(*paths, **options)[0]]


def encode_segmented(tokenizer, texts):
    """Ids, counts and word starts of texts segmented by rjieba."""
    tokens = tokenizer.encode_batch(texts, [Segmenter().word_ends(text) for text in texts])
    return tokens.ids, tokens.counts, tokens.is_word_start


def unknown_byte_count(tokenizer, text):
    """The number of bytes of a text that become unknown tokens, by their spans."""
    encoded = tokenizer.encode(text)
    spans = [span for span, i in zip(encoded.spans, encoded.ids.tolist(), strict=True) if i == tokenizer.unk_id]
    return sum(len(replace_surrogates(text)[start:end].encode()) for start, end in spans)


def entity_texts(tokenizer: Tokenizer, ids: np.ndarray, flags: np.ndarray | None) -> list[str]:
    """The texts of the entities among these tokens, by their flags."""
    assert flags is not None
    assert flags.dtype == np.uint8
    assert len(flags) == len(ids)
    assert not (flags[1:][flags[:-1] == 0] == 2).any()
    entities: list[list[int]] = []
    for i, flag in zip(ids.tolist(), flags.tolist(), strict=True):
        if flag == 1:
            entities.append([])
        if flag:
            entities[-1].append(i)
    return [tokenizer.decode(entity_ids).strip() for entity_ids in entities]


def corpus_entities(corpus: Corpus) -> list[str]:
    return entity_texts(corpus.tokenizer, np.asarray(corpus.ids), corpus.entities)
