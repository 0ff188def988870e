"""Which tokenizer is meant: a kind, learned from the text at hand and remembered, or a file that holds one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from forebear._version import __version__
from forebear.data.corpus.prepare import ProgressFn, document_hashes, fingerprint_sources
from forebear.data.corpus.subset import held_out_mask
from forebear.data.io.atomic import cache_folder
from forebear.data.io.documents import Document
from forebear.data.io.files import Paths, find_sources, is_compressed
from forebear.data.io.ledger import Ledger
from forebear.data.io.reader import TextFormat
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    import numpy as np

    from forebear.data.corpus.prepare import SinglePassText
    from forebear.data.segmentation import Segmenter
    from forebear.data.tokenizers.tokenizer import Tokenizer

TokenizerKind = Literal["words", "characters", "wordpiece", "bytepair"]
WHITESPACE = "spaces"  # words again, which nothing but white space parts
TOKENIZER_KINDS: tuple[str, ...] = (*get_args(TokenizerKind), WHITESPACE)
COMPRESSED = 20  # times as large as its file a text may be
LONGEST_WORD = 100  # characters; who writes more without a space writes none, and there is no word to be spared


@dataclass(frozen=True)
class TokenizerTrainingOptions:
    """What may be asked of a tokenizer that is learned; None leaves it to the kind."""

    size: int | None = None
    min_count: int | None = None
    lower: bool | None = None
    normalise: Sequence[str] = ()
    split: str = "punctuation"
    limit: int = 200_000_000
    specials: Mapping[str, str] | None = None

    def identity(self) -> dict[str, Any]:
        """Its part of a tokenizer's key in the cache; the names in it are data and stay when fields are renamed."""
        return {
            "size": self.size,
            "min_count": self.min_count,
            "lower": self.lower,
            "normalise": self.normalise,
            "split": self.split,
            "limit": self.limit,
            "specials": self.specials,
        }


def tokenizer_for(
    choice: str | os.PathLike[str],
    paths: Paths,
    reading: TextFormat,
    learning: TokenizerTrainingOptions | None = None,
    segmenter: Segmenter | None = None,
    progress: ProgressFn | None = None,
    held_out: float = 0.0,
    once: SinglePassText | None = None,
) -> Tokenizer:
    """The tokenizer called `choice`: one of the kinds, learned from these files, or the file of that name.

    Documents that a corpus would hold out (`Corpus.split` with the share `held_out`) are not learned from: a word
    that only the examination has must be as unknown to the vocabulary as to the model. Where a text that spaces part is
    read for it, `once` takes what a corpus wants of that text.
    """
    from forebear.data.tokenizers.tokenizer import Tokenizer

    learning = learning or TokenizerTrainingOptions()
    if choice not in TOKENIZER_KINDS:
        if not os.path.exists(choice):
            raise InputError(
                "neither a kind of tokenizer nor a file",
                file=choice,
                hint=f"choose one of {', '.join(TOKENIZER_KINDS)}, or name a tokenizer.json, a vocab.txt or their folder; "
                "`forebear tokenizer train --kind words --split spaces` makes one for text that is cut already",
            )
        return Tokenizer.load(choice, lower=learning.lower)
    seen = fingerprint_sources(paths, reading)
    asked = {
        "kind": choice,
        "files": [seen.content_digest, seen.format_digest],
        "reading": reading.identity(),
        "learning": learning.identity(),
        "segmenter": segmenter.describe() if segmenter else None,
        "held_out": held_out,
        "forebear": __version__,
    }
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    file = cache_folder() / "tokenizers" / f"{key[:32]}.json"
    with contextlib.suppress(ForebearError):  # not there yet, or torn: it can be learned again
        return Tokenizer.load(file)
    made, read = _learned(str(choice), paths, reading, learning, segmenter, progress, held_out, once)
    if read == seen.content_digest:  # else the text changed on the way, and belongs under another name
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
            file.parent.mkdir(parents=True, exist_ok=True)
            made.save(file)
    return made


def train_on_files(
    kind: str,
    paths: Paths,
    reading: TextFormat,
    learning: TokenizerTrainingOptions,
    segmenter: Segmenter | None = None,
    progress: ProgressFn | None = None,
) -> Tokenizer:
    """A tokenizer of this kind from these files; where they are too large, from a sample whose size is recorded."""
    return _learned(kind, paths, reading, learning, segmenter, progress)[0]


def _learned(
    kind: str,
    paths: Paths,
    reading: TextFormat,
    learning: TokenizerTrainingOptions,
    segmenter: Segmenter | None,
    progress: ProgressFn | None,
    held_out: float = 0.0,
    once: SinglePassText | None = None,
) -> tuple[Tokenizer, str]:
    """The tokenizer, and the fingerprint of what it was learned from."""
    from forebear.data.tokenizers.train import AUTO_SEGMENTER, train_tokenizer

    packed = most = 0
    for source in find_sources(paths):
        size = source.file_stamp()[2]
        packed, most = packed + size, most + size * (COMPRESSED if is_compressed(source) else 1)
    if kind == WHITESPACE:
        kind, learning = "words", replace(learning, split=WHITESPACE)
    options = {**asdict(learning), "segmenter": segmenter or AUTO_SEGMENTER}
    told = document_hashes(paths, reading) if held_out else None
    if told is not None:
        most = int(told[1].sum())
    if most > learning.limit:  # perhaps too much, as no character has less than a byte: count it first
        options["total_characters"] = sum(
            len(document.text) for document in reading.documents_in(find_sources(paths), Ledger())
        )
    passes = once is not None and told is None and kind == "words" and most <= min(once.max_words, learning.limit)
    ledger = once.ledger if once is not None and passes else Ledger()
    read = _watched(
        reading.documents_in(find_sources(paths, ledger), ledger),
        lambda: progress and progress(ledger.position, packed),
    )
    if reading.format == "tagged":  # the words are those of the source
        options["segmenter"] = None
    if once is not None and passes:
        return train_tokenizer(kind, once.passed(read), once=once, **options), ledger.fingerprint
    taught: Iterable[Document] = read
    if told is not None:
        hashes, sizes = told
        apart = held_out_mask(hashes, held_out)
        by_content = apart.any() and not apart.all()
        taught = _not_held_out(read, apart) if by_content else _before(read, int(sizes.sum() * (1 - held_out)))
    return train_tokenizer(kind, map(_as_told if kind == "words" else _text, taught), **options), ledger.fingerprint


def _not_held_out(documents: Iterable[Document], apart: np.ndarray) -> Iterator[Document]:
    """Those, or parts of those, that are not set apart."""
    number = -1
    for document in documents:
        number += not document.part
        if number >= len(apart) or not apart[number]:  # a file may have grown since they were told apart
            yield document


def _before(documents: Iterable[Document], border: int) -> Iterator[Document]:
    """The text up to so many bytes: less than what will teach, which goes on to the end of a sentence."""
    left = border
    for document in documents:
        data = document.text.encode("utf-8", "surrogatepass")
        if len(data) > left:
            text = data[: max(left, 1)].decode("utf-8", "ignore")
            text = _whole_words(text, document.text) if document.words is None else text
            words = None if document.words is None else (*(end for end in document.words if end < len(text)), len(text))
            yield replace(document, text=text, words=words, entities=None)  # which nobody learns from
            return
        yield document
        left -= len(data)
        if not left:
            return


def _whole_words(beginning: str, text: str) -> str:
    """The beginning of a text without the last of its words, if the text goes on with that word."""
    if len(beginning) == len(text) or text[len(beginning)].isspace() or beginning[-1:].isspace():
        return beginning
    words = beginning.split()
    last = len(words[-1]) if words else 0
    return beginning[:-last] if 0 < last < min(LONGEST_WORD, len(beginning)) else beginning


def _text(document: Document) -> str:
    return document.text


def _as_told(document: Document) -> str:
    """The text, with marks between its words where the source tells them."""
    import numpy as np

    from forebear.data.tokenizers.word_level import insert_separators

    return (
        document.text
        if not document.words
        else insert_separators(document.text, np.array(document.words[:-1], np.int64))
    )


def _watched(documents: Iterable[Document], look: Callable[[], object]) -> Iterator[Document]:
    """The documents, with a look at how far they have come every now and then."""
    for number, document in enumerate(documents):
        if number % 1000 == 0 or len(document.text) > 100_000:
            look()
        yield document


# Whether a text is cut into words already, with spaces around each, as corpora for language models often are.


LOOKED_AT = 1 << 18  # characters
ENOUGH = 20  # marks of punctuation, of which something can be told
MOST = 0.95  # of them stand alone
# Marks that stand alone, and those that stand at a word's end or open one. Within a word they tell nothing (1,000), nor
# does a full stop or a colon at its end (No., U.S.), unless a line ends there.
_ENDING, _OPENING = ',;!?)"，。；：！？）、', '("（'
MARKS = re.compile(
    rf"(?P<alone>(?<!\S)[.:{_ENDING}{_OPENING}](?!\S))|[{_ENDING}](?!\S)|[.:](?=[^\S\n]*$)|(?<!\S)[{_OPENING}]",
    re.MULTILINE,
)


def is_pretokenized(paths: Sequence[str], reading: TextFormat) -> bool:
    """Told by the beginning of the text: punctuation stands between spaces there. What is piped in is not looked at."""
    if reading.format not in ("auto", "text") or "-" in paths:
        return False
    alone = marks = seen = 0
    try:
        for source in find_sources(paths):
            if reading.format_of(source) != "text" or not os.path.isfile(source.path):
                return False
            for document in reading.documents_in([source], Ledger()):
                for found in MARKS.finditer(document.text[: LOOKED_AT - seen]):
                    marks += 1
                    alone += found["alone"] is not None
                seen += len(document.text)
                if seen >= LOOKED_AT:
                    return marks >= ENOUGH and alone >= MOST * marks
    except ForebearError:
        return False  # whoever reads it will tell what is wrong with it
    return marks >= ENOUGH and alone >= MOST * marks
