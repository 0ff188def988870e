"""From text files to a tokenizer and a corpus: which text, which tokenizer, prepared now or reopened from a run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from forebear._version import __version__
from forebear.data.corpus.corpus import CORPUS_FILE, Corpus
from forebear.data.corpus.encode import content_hash
from forebear.data.corpus.parallel import (
    AlignedFiles,
    ParallelCorpus,
    ParallelFormat,
    TokenizerPair,
    held_out_pairs,
    read_parallel,
)
from forebear.data.corpus.prepare import (
    PROGRESS_BYTES,
    SinglePassText,
    document_hashes,
    fingerprint_sources,
    prepare_corpus,
)
from forebear.data.corpus.subset import held_out_mask
from forebear.data.entities import EntityDictionary
from forebear.data.io.atomic import cache_folder
from forebear.data.io.documents import Document
from forebear.data.io.files import Paths, ProgressFn, find_sources, is_compressed
from forebear.data.io.ledger import Ledger
from forebear.data.io.reader import TextFormat
from forebear.data.segmentation import Segmenter
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import ROBERTA_SPECIALS
from forebear.data.tokenizers.word_level import insert_separators
from forebear.data.unicode import code_points, is_han
from forebear.errors import ForebearError, InputError

TokenizerKind = Literal["words", "characters", "wordpiece", "bytepair"]
WHITESPACE = "spaces"  # a word tokenizer that splits at white space only
TOKENIZER_KINDS: tuple[str, ...] = (*get_args(TokenizerKind), WHITESPACE)
MAX_VOCAB_SIZE = 1 << 28  # entries, more than any text has words
COMPRESSED = 20  # how many times as large as its file compressed text is assumed to be at most
LONGEST_WORD = 100  # characters; a longer run without a space is text of a script without spaces
LINES = TextFormat(documents="lines", format="text")
SCRIPT_SAMPLE = 200_000  # characters of each side by which its script is detected
CHINESE_FROM = 0.3  # share of Chinese characters from which a text is Chinese, names and numbers included
PRETOKENIZED_SAMPLE = 1 << 18  # characters
MIN_PUNCTUATION = 20  # punctuation marks, below which nothing can be said
MIN_ISOLATED = 0.95  # of them stand between spaces in pre-tokenized text
# Marks that stand alone, and those at a word's end or start. A mark within a word says nothing (1,000), nor does a full
# stop or a colon at its end (No., U.S.), unless a line ends there.
_ENDING, _OPENING = ',;!?)"，。；：！？）、', '("（'
MARKS = re.compile(
    rf"(?P<alone>(?<!\S)[.:{_ENDING}{_OPENING}](?!\S))|[{_ENDING}](?!\S)|[.:](?=[^\S\n]*$)|(?<!\S)[{_OPENING}]",
    re.MULTILINE,
)


# --- Text and its corpus ---


@dataclass(frozen=True)
class TextSource:
    """Text and how to take it: everything that decides what a corpus of it holds, beside the tokenizer."""

    paths: tuple[str, ...]
    reading: TextFormat = field(default_factory=TextFormat)
    sentences: str = "split"
    segment: bool = False
    user_dict: str | None = None
    entities: str | None = None
    pairs: bool = False  # texts and their translations, side by side
    columns: str = ""  # of the two sides, where they stand in one file

    def segmenter(self) -> Segmenter | None:
        if self.user_dict is not None:
            return Segmenter.from_file(self.user_dict)
        return Segmenter() if self.segment or self.entities is not None else None

    def entity_dictionary(self) -> EntityDictionary | None:
        """The dictionary of entities, if there is one; where there is, words are found too."""
        return EntityDictionary.from_file(self.entities) if self.entities is not None else None

    def to_dict(self) -> dict[str, Any]:
        told = {**asdict(self), "paths": [os.path.abspath(path) for path in self.paths]}
        files = {name: os.path.abspath(told[name]) for name in ("user_dict", "entities") if told[name] is not None}
        return {**told, **files}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> TextSource:
        known = {one.name for one in fields(cls)}
        rest = {name: value for name, value in told.items() if name in known - {"paths", "reading"}}
        return cls(tuple(told["paths"]), TextFormat(**told["reading"]), **rest)


def is_corpus(source: TextSource) -> bool:
    """Whether this is no text but a corpus that was prepared before."""
    return len(source.paths) == 1 and (Path(source.paths[0]) / CORPUS_FILE).is_file()


def prepare_source(
    source: TextSource,
    tokenizer: str | os.PathLike[str] | Tokenizer | None,
    *,
    default: str = "bytepair",
    needs: Sequence[str] = (),
    least_count: int | None = None,
    vocabulary: int | None = None,
    held_out: float = 0.0,
    workers: int | None = None,
    learning_progress: ProgressFn | None = None,
    progress: ProgressFn | None = None,
) -> Corpus:
    """The corpus of this text with this tokenizer: a kind, learned from it, or a file; None: the default kind.

    `needs` are the roles of special tokens that one learned now must have; with a `least_count`, words have every word
    that occurs so often. A corpus is taken as it is, if it has what is asked for.
    """
    if is_corpus(source):
        corpus = Corpus.open(source.paths[0])
        _agree(corpus, tokenizer, vocabulary)
        return corpus
    segmenter, names = source.segmenter(), source.entity_dictionary()
    tokenizer, once = tokenizer or default, None
    if not isinstance(tokenizer, Tokenizer):
        size = vocabulary
        if vocabulary is None:
            size = suggest_vocab_size(
                str(tokenizer), sum(found.file_stamp()[2] for found in find_sources(source.paths))
            )
        learning = (
            TokenizerTrainingOptions(size=size) if str(tokenizer) in TOKENIZER_KINDS else TokenizerTrainingOptions()
        )
        if tokenizer == WHITESPACE or (tokenizer == "words" and least_count is not None):
            learning = replace(learning, size=MAX_VOCAB_SIZE if size is None else size, min_count=least_count or 1)
        if tokenizer == "bytepair" and "mask" in needs:  # by itself it has a single special token, as in GPT-2
            learning = replace(learning, specials=ROBERTA_SPECIALS)
        if tokenizer == WHITESPACE and segmenter is None and source.reading.format != "tagged" and workers in (None, 1):
            once = SinglePassText(source.reading, source.sentences, PROGRESS_BYTES)  # pyright: ignore[reportArgumentType] - as below
        tokenizer = tokenizer_for(
            tokenizer, source.paths, source.reading, learning, segmenter, learning_progress, held_out, once
        )
    return prepare_corpus(
        source.paths,
        tokenizer,
        reading=source.reading,
        sentences=source.sentences,  # pyright: ignore[reportArgumentType] - prepare checks it
        segmenter=segmenter,
        entities=names,
        workers=workers,
        progress=progress,
        once=once,
    )


def _agree(corpus: Corpus, tokenizer: str | os.PathLike[str] | Tokenizer | None, vocabulary: int | None) -> None:
    """An error where a corpus was cut otherwise than is now asked for."""
    own = corpus.tokenizer
    if tokenizer is None or tokenizer == own.kind:
        same = True
    elif tokenizer in TOKENIZER_KINDS:
        same = False
    else:
        asked = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
        same = asked.digest == own.digest
    if not same or vocabulary not in (None, own.vocab_size):
        what = f"this corpus was cut by another tokenizer ({own.kind}, {own.vocab_size:,} entries)"
        hint = "give the text instead; or leave --tokenizer and --vocabulary out, to take it as it is"
        raise InputError(what, file=corpus.folder, hint=hint)


def suggest_vocab_size(kind: str, size: int) -> int | None:
    """How many pieces a text of this size can teach: twice the root of its bytes, between five hundred and 32,000."""
    return int(min(32_000, max(512, 2 * size**0.5))) if kind in ("bytepair", "wordpiece") else None


def reopen_corpus(data: Mapping[str, Any], tokenizer: Tokenizer) -> Corpus:
    """The corpus that a run was begun with: where it was, or in the cache, or made again from the same text."""
    if (there := _there(data)) is not None:
        return there
    source = reopen_source(data)
    return require_unchanged(prepare_source(source, tokenizer), source, data)


def reopen_source(data: Mapping[str, Any]) -> TextSource:
    """The text that a run was begun with, if it is still where it was."""
    source = TextSource.from_dict(data["source"])
    for path in source.paths:
        if not os.path.exists(path):
            raise InputError(
                "the text of this run is gone, and so is its corpus", file=path, hint="put the text back where it was"
            )
    return source


def require_unchanged(corpus: Any, source: TextSource, data: Mapping[str, Any]) -> Any:
    """The corpus, if it is still the one that a run was begun with."""
    if corpus.key != data["corpus"]:
        raise InputError(
            "the text of this run has changed since it began",
            file=source.paths[0],
            hint="put the old text back, or train a new run on the new text",
        )
    return corpus


def _there(data: Mapping[str, Any]) -> Corpus | None:
    """The corpus of a run as it still stands on disk."""
    for folder in (Path(data["folder"]), cache_folder() / "corpora" / data["corpus"][:32]):
        with contextlib.suppress(ForebearError):
            corpus = Corpus.open(folder)
            if corpus.key == data["corpus"]:
                return corpus
    return None


def trained_documents(data: Mapping[str, Any], held_out: float, corpus: Corpus) -> np.ndarray | None:
    """Which documents of a corpus a run has learned from, if only from their beginning; None where nobody knows."""
    there = _there(data)
    if there is None:
        return None
    taught = np.isin(there.documents[:-1], there.split(held_out).train.units[:, 0])
    return np.isin(corpus.hashes, there.hashes[taught])


# --- The tokenizer of a text ---


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
    learning = learning or TokenizerTrainingOptions()
    if choice not in TOKENIZER_KINDS:
        if not os.path.exists(choice):
            raise InputError(
                "neither a kind of tokenizer nor a file",
                file=choice,
                hint=f"choose one of {', '.join(TOKENIZER_KINDS)}, "
                "or name a tokenizer.json, a vocab.txt or their folder; "
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
                for found in MARKS.finditer(document.text[: PRETOKENIZED_SAMPLE - seen]):
                    marks += 1
                    alone += found["alone"] is not None
                seen += len(document.text)
                if seen >= PRETOKENIZED_SAMPLE:
                    return marks >= MIN_PUNCTUATION and alone >= MIN_ISOLATED * marks
    except ForebearError:
        return False  # whoever reads it will tell what is wrong with it
    return marks >= MIN_PUNCTUATION and alone >= MIN_ISOLATED * marks


# --- Parallel text and its corpora ---


@dataclass(frozen=True)
class TokenizerPairOptions:
    """The tokenizer of each side: a kind or a file.

    Without one for the target, both sides share one tokenizer if they are of one script.
    """

    source_tokenizer: str | TokenizerPair | None = None
    source_vocab_size: int | None = None
    target_tokenizer: str | None = None
    target_vocab_size: int | None = None


def prepare_parallel_corpus(
    source: TextSource,
    cutting: TokenizerPairOptions,
    *,
    default: str,
    held_out: float,
    workers: int | None = None,
    learning_progress: ProgressFn | None = None,
    progress: ProgressFn | None = None,
) -> ParallelCorpus:
    """The corpus of these pairs: as it was prepared before, or now."""
    reading = ParallelFormat(source.columns, source.reading.encoding, source.reading.on_bad_bytes)
    files = read_parallel(source.paths, reading)
    sides = cutting.source_tokenizer
    if not isinstance(sides, TokenizerPair):
        sides = _train_pair(files, cutting, default, held_out, learning_progress)
    one, two = (
        prepare_corpus([path], tokenizer, reading=LINES, sentences="whole", workers=workers, progress=progress)
        for path, tokenizer in zip(files.paths, (sides.source, sides.target), strict=True)
    )
    return ParallelCorpus(files, one, two)


def reopen_parallel_corpus(data: Mapping[str, Any], sides: TokenizerPair, held_out: float) -> ParallelCorpus:
    """The pairs that a run was begun with, if they are still what they were."""
    source = reopen_source(data)
    corpus = prepare_parallel_corpus(source, TokenizerPairOptions(sides), default="", held_out=held_out)
    return require_unchanged(corpus, source, data)


def _train_pair(
    files: AlignedFiles, cutting: TokenizerPairOptions, default: str, held_out: float, progress: ProgressFn | None
) -> TokenizerPair:
    """Tokenizers for both sides, learned from the pairs that teach, or read from files."""
    chinese = [_is_chinese(path) for path in files.paths]
    usual = ["characters" if is_chinese else default for is_chinese in chinese]
    one, two = cutting.source_tokenizer, cutting.target_tokenizer
    assert not isinstance(one, TokenizerPair)
    joint = two is None and cutting.target_vocab_size is None and (one is not None or usual[0] == usual[1])
    with tempfile.TemporaryDirectory(prefix="forebear-pairs-") as folder:
        taught = _training_side_files(files, held_out, Path(folder))
        if joint:
            made = _tokenizer_for_side(one or usual[0], taught, cutting.source_vocab_size, progress)
            return TokenizerPair(made, made)
        return TokenizerPair(
            _tokenizer_for_side(one or usual[0], taught[:1], cutting.source_vocab_size, progress),
            _tokenizer_for_side(
                two or one or usual[1], taught[1:], cutting.target_vocab_size or cutting.source_vocab_size, progress
            ),
        )


def _tokenizer_for_side(
    kind: str, paths: Sequence[str], vocabulary: int | None, progress: ProgressFn | None
) -> Tokenizer:
    if kind in TOKENIZER_KINDS:
        size = vocabulary or suggest_vocab_size(kind, sum(Path(path).stat().st_size for path in paths))
        learning = TokenizerTrainingOptions(size=size)
        if kind == "wordpiece":  # what is written must come out as people write it
            learning = replace(learning, lower=False)
        return tokenizer_for(kind, paths, LINES, learning, progress=progress)
    if vocabulary is not None:
        what = f"--vocabulary {vocabulary} means nothing beside a tokenizer that is not learned"
        raise InputError(what, hint="leave it out")
    return tokenizer_for(kind, paths, LINES)


def _training_side_files(files: AlignedFiles, held_out: float, folder: Path) -> list[str]:
    """The two sides without the pairs that will examine, as files."""
    with open(files.paths[0], encoding="utf-8") as lines:
        hashes = np.fromiter((content_hash(line) for line in lines), np.uint64, files.count)
    apart = held_out_pairs(hashes, held_out)[0]
    made = []
    for path in files.paths:
        made.append(str(folder / Path(path).name))
        with open(path, encoding="utf-8") as lines, open(made[-1], "w", encoding="utf-8") as kept:
            kept.writelines(line for line, examines in zip(lines, apart, strict=True) if not examines)
    return made


def _is_chinese(path: str) -> bool:
    with open(path, encoding="utf-8") as file:
        codes = code_points(file.read(SCRIPT_SAMPLE))
    return bool(is_han(codes).mean() > CHINESE_FROM)
