"""Baselines without a model: bits per byte of compressors and of byte frequencies on the same held-out text."""

from __future__ import annotations

import lzma
import zlib
from dataclasses import dataclass

import numpy as np

from forebear.data.corpus.prepare import document_hashes
from forebear.data.corpus.subset import held_out_mask
from forebear.data.io.document import with_continuation
from forebear.data.io.sources import Paths, find_sources
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger, utf8_size
from forebear.data.sentences import SentenceMode, split_sentences
from forebear.errors import InputError
from forebear.experiments.comparison.results import CompressionBaseline

GZIP_WINDOW = 32_768  # bytes: more training text does not help gzip
XZ_WINDOW = 8_388_608  # bytes, at xz's default level
DOCUMENT_SEPARATOR = b"\n"  # compressors too must encode the ends of documents


@dataclass(frozen=True)
class HeldOutText:
    """The text as split by `Corpus.split`: the end of the training text, the start of the held-out text, and counts."""

    train: bytes  # at most the last XZ_WINDOW
    held_out: bytes  # the first units, up to `max_measured` bytes
    byte_counts: np.ndarray  # (256,) of the whole training text
    num_documents: int
    num_bytes: int
    held_out_bytes: int
    measured_bytes: int  # of documents in `held_out`, without separators


def split_text(
    paths: Paths, text_format: TextFormat, held_out_fraction: float, max_measured: int, mode: SentenceMode = "split"
) -> HeldOutText:
    """Read the text twice, to assign documents to train or held-out and to collect them, in bounded memory."""
    hashes, sizes = document_hashes(paths, text_format)
    if not len(sizes):
        raise InputError("there is no text to compare on", hint="give files that hold text")
    is_held_out = held_out_mask(hashes, held_out_fraction)
    splits_by_content, total_bytes = bool(is_held_out.any() and not is_held_out.all()), int(sizes.sum())
    boundary_byte = round(total_bytes * (1 - held_out_fraction))
    train, held_out, byte_counts = bytearray(), bytearray(), np.zeros(256, np.int64)
    position = held_out_bytes = measured_bytes = 0
    index = 0
    for document, is_continued in with_continuation(text_format.documents_in(find_sources(paths), Ledger())):
        text = document.text.encode("utf-8", "replace")
        num_train = 0 if is_held_out[index] else len(text)
        if not splits_by_content:
            num_train = _num_train_bytes(document.text, boundary_byte - position, total_bytes - position, mode)
        index += not is_continued
        position += len(text)
        held_out_bytes += len(text) - num_train
        if train_text := text[:num_train]:
            byte_counts += np.bincount(np.frombuffer(train_text, np.uint8), minlength=256)
            train += train_text + DOCUMENT_SEPARATOR
            if len(train) > 2 * XZ_WINDOW:
                del train[:-XZ_WINDOW]
        if held_out_text := text[num_train:][: max(max_measured - measured_bytes, 0)]:
            measured_bytes += len(held_out_text)
            held_out += held_out_text + DOCUMENT_SEPARATOR
    return HeldOutText(
        bytes(train[-XZ_WINDOW:]), bytes(held_out), byte_counts, len(sizes), total_bytes, held_out_bytes, measured_bytes
    )


def _num_train_bytes(text: str, boundary: int, remaining: int, mode: SentenceMode) -> int:
    """The number of training bytes of a document if the split is `boundary` bytes after its start.

    They end with the sentence that reaches the split, but are never all of the `remaining` bytes.
    """
    length = utf8_size(text)
    if boundary <= 0 or boundary > length:
        return min(max(boundary, 0), length)
    ends = np.cumsum([utf8_size(sentence) for sentence in split_sentences(text, mode)]).tolist()
    end_reached = next(end for end in ends if end >= boundary)
    return end_reached if end_reached < remaining else ([0, *ends])[-2]


def compression_baselines(text: HeldOutText) -> tuple[CompressionBaseline, ...]:
    """Bits per byte of the held-out text, each compressor primed with as much training text as it can use."""
    if not text.measured_bytes or not text.train:
        return ()
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zdict=text.train[-GZIP_WINDOW:])
    gzip_bytes = len(compressor.compress(text.held_out) + compressor.flush())
    xz_bytes = _xz_size(text.train + text.held_out) - _xz_size(text.train)
    byte_probs = (text.byte_counts + 1) / (text.byte_counts.sum() + 256)
    held_out_counts = np.bincount(np.frombuffer(text.held_out, np.uint8), minlength=256)
    frequency_bits = -float((held_out_counts * np.log2(byte_probs)).sum()) / len(text.held_out)
    baselines = (
        ("xz", 8 * xz_bytes / text.measured_bytes, "the compressor, which has just packed the learning text"),
        ("gzip", 8 * gzip_bytes / text.measured_bytes, "the compressor, which remembers 32 kB"),
        ("byte frequencies", frequency_bits, "how often each byte occurs, and nothing else"),
    )
    return tuple(CompressionBaseline(*baseline) for baseline in sorted(baselines, key=lambda baseline: baseline[1]))


def first_words(text: HeldOutText, num_words: int = 4) -> str:
    """The first words of the held-out text, as the common prompt of all models."""
    for line in text.held_out.decode("utf-8", "ignore").split("\n"):
        line_words = line.split()
        if len(line_words) > 1 and all(word.isascii() for word in line_words[:num_words]):
            return " ".join(line_words[:num_words])
        if stripped := line.strip():
            return stripped[: 2 * num_words]
    return ""


def _xz_size(text: bytes) -> int:
    return len(lzma.compress(text, preset=6, check=lzma.CHECK_NONE))
