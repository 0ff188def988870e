"""A small story, reading with balanced books, and a folder's contents, for the tests of the text room."""

from pathlib import Path

from forebear.text.characters import sound
from forebear.text.ledger import Ledger
from forebear.text.reading import Reading
from forebear.text.segmentation import Segmenter
from forebear.text.sources import find, fingerprint

STORY = "The cat sat. It was warm!\nA dog came.\n\n他走了。她也走了！\n\nThe end"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def read(*paths, **how):
    """The documents' texts and the ledger, which must balance and agree with the files' fingerprint."""
    ledger = Ledger()
    documents = list(Reading(**how).read(find(paths, ledger), ledger))
    ledger.check()
    assert ledger.fingerprint == fingerprint(find(paths))
    return documents, ledger


def texts(*paths, **how):
    return [document.text for document in read(*paths, **how)[0]]


def segmented(tokenizer, texts):
    """Ids, counts and word starts of texts whose words rjieba finds."""
    tokens = tokenizer.encode_all(texts, [Segmenter().cuts(text) for text in texts])
    return tokens.ids, tokens.counts, tokens.starts


def lost(tokenizer, text):
    """The bytes of a text that become unknown tokens, by its spans."""
    pieces = tokenizer.encode(text)
    spans = [span for span, i in zip(pieces.spans, pieces.ids.tolist(), strict=True) if i == tokenizer.unknown]
    return sum(len(sound(text)[begin:end].encode()) for begin, end in spans)
