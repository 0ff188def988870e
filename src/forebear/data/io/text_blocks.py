"""Text of a file in blocks: decompressed, decoded, with undecodable bytes handled and counted."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal

from forebear.data.io.compression import decompressed_stream
from forebear.data.io.sources import BLOCK_BYTES, SourceFile, explain_file_errors
from forebear.data.io.text_ledger import Ledger
from forebear.errors import InputError

OnBadBytes = Literal["fail", "replace", "skip"]


@dataclass
class TextBlocks:
    """The decoded text of one file in bounded blocks; bytes and repairs are recorded in the ledger."""

    source: SourceFile
    encoding: str
    on_bad_bytes: OnBadBytes
    ledger: Ledger
    file_bytes: int = 0  # bytes read from the file so far
    decompressed_bytes: int = 0  # the same after decompression

    def __iter__(self) -> Iterator[str]:
        decoder, digest = _decoder(self.encoding), hashlib.sha256()
        is_at_start, held_back = True, ""
        with explain_file_errors(self.source.name), open(self.source.path, "rb") as file:
            stream = decompressed_stream(_CountingFile(file, self, digest), file.peek(4)[:4])
            for block in self._decompress(stream):
                text = held_back + self._decode(decoder, block, final=False)
                if is_at_start and text:
                    is_at_start = False
                    if text.startswith("\ufeff"):
                        self.ledger.record_markup("byte order mark", "\ufeff")
                        text = text[1:]
                # A carriage return at the end may be half of a line ending: wait for the next block.
                held_back = "\r" if text.endswith("\r") else ""
                text = text[: len(text) - len(held_back)]
                if "\r" in text and "\r\n" in text:  # a search for one character is much faster than for two
                    normalized = text.replace("\r\n", "\n")
                    self.ledger.record_markup("carriage returns", "\r" * (len(text) - len(normalized)))
                    text = normalized
                if text:
                    yield text
        if rest := held_back + self._decode(decoder, b"", final=True):
            yield rest
        self.ledger.add_source(self.file_bytes, self.decompressed_bytes, digest.digest())

    def _decompress(self, stream: Any) -> Iterator[bytes]:
        try:
            while block := stream.read(BLOCK_BYTES):
                self.decompressed_bytes += len(block)
                yield block
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            message = f"the compressed file is damaged or cut short ({error})"
            hint = "fetch or compress it again; what was read of it is not used"
            raise InputError(message, file=self.source.name, byte=self.file_bytes, hint=hint) from error

    def _decode(self, decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool) -> str:
        previous, _DECODING.blocks = getattr(_DECODING, "blocks", None), self
        try:
            return decoder.decode(block, final)
        except UnicodeError as error:  # of the whole text, such as UTF-16 without a byte order mark
            hint = "name the right --encoding (utf-16-le, utf-16-be, gb18030, …)"
            raise InputError(f"cannot be read as {self.encoding}: {error}", file=self.source.name, hint=hint) from error
        finally:
            _DECODING.blocks = previous

    def repair(self, error: UnicodeDecodeError) -> tuple[str, int]:
        """Handle undecodable bytes as `on_bad_bytes` says; called by the codec."""
        offset = self.decompressed_bytes - len(error.object) + error.start
        bad_bytes = error.object[error.start : error.end]
        if self.on_bad_bytes == "fail":
            message = f"not {self.encoding}: {' '.join(f'0x{byte:02x}' for byte in bad_bytes)}"
            hint = "name the right --encoding (gb18030, big5, …), or choose --on-bad-bytes replace or skip"
            raise InputError(message, file=self.source.name, byte=offset, hint=hint)
        action, replacement = ("replaced", "�") if self.on_bad_bytes == "replace" else ("skipped", "")
        self.ledger.record_markup_counts(f"bad bytes {action}", 0, len(bad_bytes) - len(replacement.encode()))
        self.ledger.record_repair(self.source.name, offset, len(bad_bytes), action)
        return replacement, error.end


class _CountingFile:
    """A binary file that counts the bytes read and updates their digest."""

    def __init__(self, file: IO[bytes], blocks: TextBlocks, digest: hashlib._Hash) -> None:
        self.file, self.blocks, self.digest = file, blocks, digest

    def read(self, size: int = -1) -> bytes:
        block = self.file.read(size)
        self.digest.update(block)
        self.blocks.file_bytes += len(block)
        self.blocks.ledger.position += len(block)
        return block


_DECODING = threading.local()  # the current TextBlocks: codec error handlers get no context
_HANDLER = "forebear.repair"


def _repair_bad_bytes(error: UnicodeError) -> tuple[str, int]:
    blocks: TextBlocks = _DECODING.blocks
    assert isinstance(error, UnicodeDecodeError)
    return blocks.repair(error)


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        if not codecs.lookup(encoding)._is_text_encoding:  # pyright: ignore[reportAttributeAccessIssue]
            raise LookupError
        return codecs.getincrementaldecoder(encoding)(_HANDLER)
    except LookupError:
        hint = "for example utf-8, gb18030, big5, utf-16, latin-1"
        raise InputError(f"no text encoding is called {encoding!r}", hint=hint) from None


codecs.register_error(_HANDLER, _repair_bad_bytes)
