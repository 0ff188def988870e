"""From text files to a tokenizer and a corpus, prepared now or reopened from a run; also for parallel text."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from forebear._version import __version__
from forebear.data.corpus.corpus import CORPUS_FILE, Corpus
from forebear.data.corpus.document_encoder import content_hash
from forebear.data.corpus.parallel import (
    AlignedFiles,
    ParallelCorpus,
    ParallelFormat,
    TokenizerPair,
    held_out_pairs,
    read_parallel,
)
from forebear.data.corpus.prepare import MAX_IN_MEMORY_BYTES, document_hashes, fingerprint_sources, prepare_corpus
from forebear.data.corpus.single_pass import SinglePassText
from forebear.data.corpus.subset import held_out_mask
from forebear.data.entities import EntityDictionary
from forebear.data.io.atomic import cache_folder
from forebear.data.io.compression import MAX_COMPRESSION_RATIO, is_compressed
from forebear.data.io.document import Document
from forebear.data.io.sources import Paths, ProgressFn, find_sources
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger
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
MAX_WORD_LENGTH = 100  # characters; a longer run without a space is in a script without spaces
LINE_FORMAT = TextFormat(documents="lines", format="text")
SCRIPT_SAMPLE = 200_000  # characters of each side, used to detect its script
MIN_CHINESE_FRACTION = 0.3  # of the characters of a Chinese text, which may include foreign names and numbers
PRETOKENIZED_SAMPLE = 1 << 18  # characters
MIN_PUNCTUATION = 20  # marks; fewer are not enough to detect pre-tokenized text
MIN_ISOLATED_FRACTION = 0.95  # of the marks are between spaces in pre-tokenized text
# Marks between spaces, and marks at the end or start of a word. Marks inside words (1,000) are ignored, and so are full
# stops and colons at their ends (No., U.S.), except at a line end.
_ENDING, _OPENING = ',;!?)"，。；：！？）、', '("（'
PUNCTUATION = re.compile(
    rf"(?P<alone>(?<!\S)[.:{_ENDING}{_OPENING}](?!\S))|[{_ENDING}](?!\S)|[.:](?=[^\S\n]*$)|(?<!\S)[{_OPENING}]",
    re.MULTILINE,
)


@dataclass(frozen=True)
class TextSource:
    """Text files and how to read them: everything except the tokenizer that determines their corpus."""

    paths: tuple[str, ...]
    reading: TextFormat = field(default_factory=TextFormat)
    sentences: str = "split"
    segment: bool = False
    user_dict: str | None = None
    entities: str | None = None
    pairs: bool = False  # parallel text
    columns: str = ""  # of source and target, if they are in one file

    def segmenter(self) -> Segmenter | None:
        if self.user_dict is not None:
            return Segmenter.from_file(self.user_dict)
        return Segmenter() if self.segment or self.entities is not None else None

    def to_dict(self) -> dict[str, Any]:
        named_files = {"user_dict": self.user_dict, "entities": self.entities}
        files = {name: os.path.abspath(path) for name, path in named_files.items() if path is not None}
        return {**asdict(self), "paths": [os.path.abspath(path) for path in self.paths], **files}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> TextSource:
        names = {item.name for item in fields(cls)}
        rest = {name: value for name, value in stored.items() if name in names - {"paths", "reading"}}
        return cls(tuple(stored["paths"]), TextFormat(**stored["reading"]), **rest)


def is_corpus(source: TextSource) -> bool:
    """Whether the path is a prepared corpus instead of text."""
    return len(source.paths) == 1 and (Path(source.paths[0]) / CORPUS_FILE).is_file()


def prepare_source(
    source: TextSource,
    tokenizer: str | os.PathLike[str] | Tokenizer | None,
    *,
    default: str = "bytepair",
    required_roles: Sequence[str] = (),
    min_count: int | None = None,
    vocab_size: int | None = None,
    held_out: float = 0.0,
    workers: int | None = None,
    learning_progress: ProgressFn | None = None,
    progress: ProgressFn | None = None,
) -> Corpus:
    """The corpus of a text; a prepared corpus is opened if it has the requested tokenizer.

    Args:
        tokenizer: A tokenizer, a file, or a kind that is trained on this text.
        default: The kind, if `tokenizer` is None.
        required_roles: Roles of special tokens that a new tokenizer must have.
        min_count: Minimum count of words; a word tokenizer then has every word that is as frequent.
        vocab_size: Vocabulary size; by default it depends on the size of the text.
        held_out: Fraction of the text on which a tokenizer is not trained.
    """
    if is_corpus(source):
        corpus = Corpus.open(source.paths[0])
        _check_tokenizer(corpus, tokenizer, vocab_size)
        return corpus
    segmenter = source.segmenter()
    entities = None if source.entities is None else EntityDictionary.from_file(source.entities)
    tokenizer, single_pass = tokenizer or default, None
    if not isinstance(tokenizer, Tokenizer):
        tokenizer_size = vocab_size
        if vocab_size is None:
            num_bytes = sum(file.file_stamp()[2] for file in find_sources(source.paths))
            tokenizer_size = suggest_vocab_size(str(tokenizer), num_bytes)
        options = TokenizerTrainingOptions(size=tokenizer_size if str(tokenizer) in TOKENIZER_KINDS else None)
        if tokenizer == WHITESPACE or (tokenizer == "words" and min_count is not None):
            size = MAX_VOCAB_SIZE if tokenizer_size is None else tokenizer_size
            options = replace(options, size=size, min_count=min_count or 1)
        if tokenizer == "bytepair" and "mask" in required_roles:  # the default special token is GPT-2's
            options = replace(options, specials=ROBERTA_SPECIALS)
        if tokenizer == WHITESPACE and segmenter is None and source.reading.format != "tagged" and workers in (None, 1):
            single_pass = SinglePassText(source.reading, source.sentences, MAX_IN_MEMORY_BYTES)  # pyright: ignore[reportArgumentType] - checked when text is prepared
        tokenizer = tokenizer_for(
            tokenizer, source.paths, source.reading, options, segmenter, learning_progress, held_out, single_pass
        )
    return prepare_corpus(
        source.paths,
        tokenizer,
        text_format=source.reading,
        sentences=source.sentences,  # pyright: ignore[reportArgumentType] - prepare_corpus checks it
        segmenter=segmenter,
        entities=entities,
        workers=workers,
        progress=progress,
        single_pass=single_pass,
    )


def _check_tokenizer(
    corpus: Corpus, tokenizer: str | os.PathLike[str] | Tokenizer | None, vocab_size: int | None
) -> None:
    """Raise InputError if the corpus has another tokenizer than the requested one."""
    corpus_tokenizer = corpus.tokenizer
    is_same = tokenizer is None or tokenizer == corpus_tokenizer.kind
    if tokenizer is not None and not is_same and tokenizer not in TOKENIZER_KINDS:
        expected = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
        is_same = expected.digest == corpus_tokenizer.digest
    if not is_same or vocab_size not in (None, corpus_tokenizer.vocab_size):
        tokenizer_info = f"{corpus_tokenizer.kind}, {corpus_tokenizer.vocab_size:,} entries"
        description = f"this corpus was cut by another tokenizer ({tokenizer_info})"
        hint = "give the text instead; or leave --tokenizer and --vocabulary out, to take it as it is"
        raise InputError(description, file=corpus.folder, hint=hint)


def suggest_vocab_size(kind: str, num_bytes: int) -> int | None:
    """A vocabulary size for a text of `num_bytes`: twice the square root, from 512 to 32,000; None for words."""
    return int(min(32_000, max(512, 2 * num_bytes**0.5))) if kind in ("bytepair", "wordpiece") else None


def reopen_corpus(data: Mapping[str, Any], tokenizer: Tokenizer) -> Corpus:
    """The corpus of a run: in its folder, in the cache, or prepared again from the same text."""
    if (corpus := _find_corpus(data)) is not None:
        return corpus
    source = reopen_source(data)
    return require_unchanged(prepare_source(source, tokenizer), source, data)


def reopen_source(data: Mapping[str, Any]) -> TextSource:
    """The text of a run, if its files still exist."""
    source = TextSource.from_dict(data["source"])
    for path in source.paths:
        if not os.path.exists(path):
            message = "the text of this run is gone, and so is its corpus"
            raise InputError(message, file=path, hint="put the text back where it was")
    return source


def require_unchanged(corpus: Any, source: TextSource, data: Mapping[str, Any]) -> Any:
    """The corpus, if it is still that of the run; else raise InputError."""
    if corpus.key != data["corpus"]:
        hint = "put the old text back, or train a new run on the new text"
        raise InputError("the text of this run has changed since it began", file=source.paths[0], hint=hint)
    return corpus


def _find_corpus(data: Mapping[str, Any]) -> Corpus | None:
    """The corpus of a run, if it is still on disk."""
    for folder in (Path(data["folder"]), cache_folder() / "corpora" / data["corpus"][:32]):
        with contextlib.suppress(ForebearError):
            corpus = Corpus.open(folder)
            if corpus.key == data["corpus"]:
                return corpus
    return None


def trained_documents(data: Mapping[str, Any], held_out: float, corpus: Corpus) -> np.ndarray | None:
    """Whether a run was trained on each document of a corpus, at least partly; None if the run's corpus is gone."""
    run_corpus = _find_corpus(data)
    if run_corpus is None:
        return None
    is_trained = np.isin(run_corpus.documents[:-1], run_corpus.split(held_out).train.units[:, 0])
    return np.isin(corpus.hashes, run_corpus.hashes[is_trained])


# --- The tokenizer of a text ---


@dataclass(frozen=True)
class TokenizerTrainingOptions:
    """Options of training a tokenizer; None means the default of its kind."""

    size: int | None = None
    min_count: int | None = None
    lower: bool | None = None
    normalise: Sequence[str] = ()
    split: str = "punctuation"
    limit: int = 200_000_000
    specials: Mapping[str, str] | None = None


def tokenizer_for(
    choice: str | os.PathLike[str],
    paths: Paths,
    text_format: TextFormat,
    training_options: TokenizerTrainingOptions | None = None,
    segmenter: Segmenter | None = None,
    progress: ProgressFn | None = None,
    held_out: float = 0.0,
    single_pass: SinglePassText | None = None,
) -> Tokenizer:
    """The tokenizer `choice`: a kind, trained on these files and cached, or a file.

    A tokenizer is not trained on documents that a corpus would hold out (`Corpus.split` with the fraction `held_out`):
    words that occur only in held-out text must be unknown to the vocabulary, too. While text is read to count words
    split at white space, `single_pass` collects the arrays of its corpus.
    """
    training_options = training_options or TokenizerTrainingOptions()
    if choice not in TOKENIZER_KINDS:
        if not os.path.exists(choice):
            hint = (
                f"choose one of {', '.join(TOKENIZER_KINDS)}, or name a tokenizer.json, a vocab.txt or their folder; "
                "`forebear tokenizer train --kind words --split spaces` makes one for text that is cut already"
            )
            raise InputError("neither a kind of tokenizer nor a file", file=choice, hint=hint)
        return Tokenizer.load(choice, lower=training_options.lower)
    fingerprint = fingerprint_sources(paths, text_format)
    identity = {
        "kind": choice,
        "files": [fingerprint.content_digest, fingerprint.format_digest],
        "reading": asdict(text_format),
        "learning": asdict(training_options),  # field names are part of the key
        "segmenter": segmenter.describe() if segmenter else None,
        "held_out": held_out,
        "forebear": __version__,
    }
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    file = cache_folder() / "tokenizers" / f"{key[:32]}.json"
    with contextlib.suppress(ForebearError):  # missing or corrupt: it is trained again
        return Tokenizer.load(file)
    tokenizer, content_digest = train_on_files(
        str(choice), paths, text_format, training_options, segmenter, progress, held_out, single_pass
    )
    if content_digest == fingerprint.content_digest:  # else the text has changed meanwhile
        with contextlib.suppress(OSError):  # without a cache, only time is lost
            file.parent.mkdir(parents=True, exist_ok=True)
            tokenizer.save(file)
    return tokenizer


def train_on_files(
    kind: str,
    paths: Paths,
    text_format: TextFormat,
    training_options: TokenizerTrainingOptions,
    segmenter: Segmenter | None = None,
    progress: ProgressFn | None = None,
    held_out: float = 0.0,
    single_pass: SinglePassText | None = None,
) -> tuple[Tokenizer, str]:
    """A tokenizer of this kind, trained on these files, and the fingerprint of their text.

    If the files are too large, it is trained on a sample, whose size is recorded.
    """
    from forebear.data.tokenizers.train import AUTO_SEGMENTER, train_tokenizer

    num_bytes = max_characters = 0
    for source in find_sources(paths):
        file_bytes = source.file_stamp()[2]
        num_bytes += file_bytes
        max_characters += file_bytes * (MAX_COMPRESSION_RATIO if is_compressed(source) else 1)
    if kind == WHITESPACE:
        kind, training_options = "words", replace(training_options, split=WHITESPACE)
    options = {**asdict(training_options), "segmenter": segmenter or AUTO_SEGMENTER}
    hashes_and_sizes = document_hashes(paths, text_format) if held_out else None
    if hashes_and_sizes is not None:
        max_characters = int(hashes_and_sizes[1].sum())
    if max_characters > training_options.limit:  # may be too large: count the characters
        all_documents = text_format.documents_in(find_sources(paths), Ledger())
        options["total_characters"] = sum(len(document.text) for document in all_documents)
    is_too_large = single_pass is not None and max_characters > min(single_pass.max_bytes, training_options.limit)
    if hashes_and_sizes is not None or kind != "words" or is_too_large:
        single_pass = None
    ledger = single_pass.ledger if single_pass is not None else Ledger()
    documents = text_format.documents_in(find_sources(paths, ledger), ledger)
    documents = _report_progress(documents, lambda: progress and progress(ledger.position, num_bytes))
    if text_format.format == "tagged":  # the words are marked in the source
        options["segmenter"] = None
    if single_pass is not None:
        texts = single_pass.record_texts(documents)
        return train_tokenizer(kind, texts, single_pass=single_pass, **options), ledger.fingerprint
    if hashes_and_sizes is not None:
        hashes, sizes = hashes_and_sizes
        is_held_out = held_out_mask(hashes, held_out)
        if is_held_out.any() and not is_held_out.all():
            documents = _exclude_held_out(documents, is_held_out)
        else:
            documents = _first_bytes(documents, int(sizes.sum() * (1 - held_out)))
    texts = map(_with_separators if kind == "words" else attrgetter("text"), documents)
    return train_tokenizer(kind, texts, **options), ledger.fingerprint


def _exclude_held_out(documents: Iterable[Document], is_held_out: np.ndarray) -> Iterator[Document]:
    """The documents, or parts of documents, that are not held out."""
    index = -1
    for document in documents:
        index += not document.part
        # A file may have grown since its documents were split.
        if index >= len(is_held_out) or not is_held_out[index]:
            yield document


def _first_bytes(documents: Iterable[Document], num_bytes: int) -> Iterator[Document]:
    """The first `num_bytes` of the text: slightly less than the training text, which ends with a sentence."""
    remaining = num_bytes
    for document in documents:
        data = document.text.encode("utf-8", "surrogatepass")
        if len(data) > remaining:
            text = data[: max(remaining, 1)].decode("utf-8", "ignore")
            text = _drop_partial_word(text, document.text) if document.word_ends is None else text
            ends = document.word_ends
            ends = None if ends is None else (*(end for end in ends if end < len(text)), len(text))
            yield replace(document, text=text, word_ends=ends, entity_spans=None)  # entities are not used in training
            return
        yield document
        remaining -= len(data)
        if not remaining:
            return


def _drop_partial_word(beginning: str, text: str) -> str:
    """The beginning of a text without its last word, if that is incomplete."""
    if len(beginning) == len(text) or text[len(beginning)].isspace() or beginning[-1:].isspace():
        return beginning
    words = beginning.split()
    last = len(words[-1]) if words else 0
    return beginning[:-last] if 0 < last < min(MAX_WORD_LENGTH, len(beginning)) else beginning


def _with_separators(document: Document) -> str:
    """The text with separators between its words, if the source marks them."""
    if not document.word_ends:
        return document.text
    return insert_separators(document.text, np.array(document.word_ends[:-1], np.int64))


def _report_progress(documents: Iterable[Document], on_progress: Callable[[], object]) -> Iterator[Document]:
    """The documents; `on_progress` is called every thousand documents, and for each long one."""
    for index, document in enumerate(documents):
        if index % 1000 == 0 or len(document.text) > 100_000:
            on_progress()
        yield document


def is_pretokenized(paths: Sequence[str], text_format: TextFormat) -> bool:
    """Whether the beginning of the text is pre-tokenized: punctuation is between spaces. Pipes are not checked."""
    if text_format.format not in ("auto", "text") or "-" in paths:
        return False
    num_isolated = num_marks = num_characters = 0
    try:
        for source in find_sources(paths):
            if num_characters >= PRETOKENIZED_SAMPLE:
                break
            if text_format.format_of(source) != "text" or not os.path.isfile(source.path):
                return False
            for document in text_format.documents_in([source], Ledger()):
                for match in PUNCTUATION.finditer(document.text[: PRETOKENIZED_SAMPLE - num_characters]):
                    num_marks += 1
                    num_isolated += match["alone"] is not None
                num_characters += len(document.text)
                if num_characters >= PRETOKENIZED_SAMPLE:
                    break
    except ForebearError:
        return False  # the error is reported when the text is read
    return num_marks >= MIN_PUNCTUATION and num_isolated >= MIN_ISOLATED_FRACTION * num_marks


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
    options: TokenizerPairOptions,
    *,
    default: str,
    held_out: float,
    workers: int | None = None,
    learning_progress: ProgressFn | None = None,
    progress: ProgressFn | None = None,
) -> ParallelCorpus:
    """The corpus of parallel text, cached or prepared now."""
    parallel_format = ParallelFormat(source.columns, source.reading.encoding, source.reading.on_bad_bytes)
    files = read_parallel(source.paths, parallel_format)
    tokenizers = options.source_tokenizer
    if not isinstance(tokenizers, TokenizerPair):
        tokenizers = _train_pair(files, options, default, held_out, learning_progress)
    source_corpus, target_corpus = (
        prepare_corpus(
            [path], tokenizer, text_format=LINE_FORMAT, sentences="whole", workers=workers, progress=progress
        )
        for path, tokenizer in zip(files.paths, (tokenizers.source, tokenizers.target), strict=True)
    )
    return ParallelCorpus(files, source_corpus, target_corpus)


def reopen_parallel_corpus(data: Mapping[str, Any], tokenizers: TokenizerPair, held_out: float) -> ParallelCorpus:
    """The parallel corpus of a run, if its text has not changed."""
    source = reopen_source(data)
    corpus = prepare_parallel_corpus(source, TokenizerPairOptions(tokenizers), default="", held_out=held_out)
    return require_unchanged(corpus, source, data)


def _train_pair(
    files: AlignedFiles, options: TokenizerPairOptions, default: str, held_out: float, progress: ProgressFn | None
) -> TokenizerPair:
    """Tokenizers for both sides, trained on the training pairs, or read from files."""
    defaults = [default, default]
    for side, path in enumerate(files.paths):
        with open(path, encoding="utf-8") as file:
            codes = code_points(file.read(SCRIPT_SAMPLE))
        if is_han(codes).mean() > MIN_CHINESE_FRACTION:
            defaults[side] = "characters"
    source_choice, target_choice = options.source_tokenizer, options.target_tokenizer
    assert not isinstance(source_choice, TokenizerPair)
    is_single_kind = source_choice is not None or defaults[0] == defaults[1]
    is_joint = target_choice is None and options.target_vocab_size is None and is_single_kind
    with tempfile.TemporaryDirectory(prefix="forebear-pairs-") as folder:
        training_files = _training_side_files(files, held_out, Path(folder))
        source_files, target_files = (training_files, []) if is_joint else (training_files[:1], training_files[1:])
        source_kind, source_size = source_choice or defaults[0], options.source_vocab_size
        source = _tokenizer_for_side(source_kind, source_files, source_size, progress)
        if is_joint:
            return TokenizerPair(source, source)
        target_kind = target_choice or source_choice or defaults[1]
        target_size = options.target_vocab_size or source_size
        return TokenizerPair(source, _tokenizer_for_side(target_kind, target_files, target_size, progress))


def _tokenizer_for_side(
    kind: str, paths: Sequence[str], vocab_size: int | None, progress: ProgressFn | None
) -> Tokenizer:
    if kind in TOKENIZER_KINDS:
        size = vocab_size or suggest_vocab_size(kind, sum(Path(path).stat().st_size for path in paths))
        options = TokenizerTrainingOptions(size=size)
        if kind == "wordpiece":  # generated text should have capitals
            options = replace(options, lower=False)
        return tokenizer_for(kind, paths, LINE_FORMAT, options, progress=progress)
    if vocab_size is not None:
        description = f"--vocabulary {vocab_size} means nothing beside a tokenizer that is not learned"
        raise InputError(description, hint="leave it out")
    return tokenizer_for(kind, paths, LINE_FORMAT)


def _training_side_files(files: AlignedFiles, held_out: float, folder: Path) -> list[str]:
    """Files of both sides, without the held-out pairs."""
    with open(files.paths[0], encoding="utf-8") as lines:
        hashes = np.fromiter((content_hash(line) for line in lines), np.uint64, files.count)
    is_held_out = held_out_pairs(hashes, held_out)[0]
    training_files = []
    for path in files.paths:
        training_files.append(str(folder / Path(path).name))
        with open(path, encoding="utf-8") as lines, open(training_files[-1], "w", encoding="utf-8") as training_file:
            training_file.writelines(line for line, skip in zip(lines, is_held_out, strict=True) if not skip)
    return training_files
