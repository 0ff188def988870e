"""The text of a file in decoded blocks: unpacked from gzip and zstd, line ends made plain, bad bytes named."""

from __future__ import annotations

import codecs
import hashlib
import io
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from forebear.errors import BadInput
from forebear.text.ledger import Ledger
from forebear.text.sources import Source, told_of

OnBadBytes = Literal["fail", "replace", "skip"]

BLOCK = 1 << 20  # bytes read at a time
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 0x50 to 0x5f: a zstd frame of notes, before the first of text
WINDOW = 1 << 31  # bytes that zstd may look back, as `zstd --long=31` writes


@dataclass
class Blocks:
    """The decoded text of one file in bounded blocks; counts what it read and what it had to mend."""

    source: Source
    encoding: str
    on_bad_bytes: OnBadBytes
    ledger: Ledger
    packed: int = 0  # bytes of the file itself, so far
    unpacked: int = 0  # bytes after decompression, so far

    def __iter__(self) -> Iterator[str]:
        decoder = _decoder(self.encoding)
        digest = hashlib.sha256()
        first, held_back = True, ""
        with told_of(self.source.name), open(self.source.path, "rb") as file:
            for block in self._unpacked(_Counted(file, self, digest)):
                text = held_back + self._decoded(decoder, block, final=False)
                if first and text:
                    text, first = self._without_mark(text), False
                # A carriage return at the very end may be half of a line ending: wait for what follows.
                held_back = "\r" if text.endswith("\r") else ""
                text = self._with_plain_endings(text[: len(text) - len(held_back)])
                if text:
                    yield text
        rest = held_back + self._decoded(decoder, b"", final=True)
        if rest:
            yield rest
        self.ledger.source(files=1, bytes=self.packed, unpacked=self.unpacked, digest=digest.digest())

    def _unpacked(self, file: _Counted) -> Iterator[bytes]:
        head = file.peek(4)
        try:
            if head.startswith(GZIP):
                import gzip

                read = gzip.GzipFile(fileobj=file, mode="rb").read  # pyright: ignore[reportArgumentType]
                blocks: Iterable[bytes] = iter(lambda: read(BLOCK), b"")
            else:
                blocks = _unpacked_zstd(file) if _is_zstd(head) else iter(lambda: file.read(BLOCK), b"")
            for block in blocks:
                self.unpacked += len(block)
                yield block
        except (EOFError, zlib.error) as error:
            raise self._damaged(error) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise self._damaged(error) from error  # gzip.BadGzipFile carries no number

    def _damaged(self, error: Exception) -> BadInput:
        return BadInput(
            f"the compressed file is damaged or cut short ({error})",
            file=self.source.name,
            byte=self.packed,
            remedy="fetch or compress it again; what was read of it is not used",
        )

    def _decoded(self, decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool) -> str:
        before, _MENDING.blocks = getattr(_MENDING, "blocks", None), self
        try:
            return decoder.decode(block, final)
        except UnicodeError as error:  # of the encoding as such, such as UTF-16 without its mark
            remedy = "name the right --encoding (utf-16-le, utf-16-be, gb18030, …)"
            raise BadInput(
                f"cannot be read as {self.encoding}: {error}", file=self.source.name, remedy=remedy
            ) from error
        finally:
            _MENDING.blocks = before

    def mend(self, error: UnicodeDecodeError) -> tuple[str, int]:
        """Called by the codec at each bad byte."""
        offset = self.unpacked - len(error.object) + error.start
        bad = error.object[error.start : error.end]
        if self.on_bad_bytes == "fail":
            raise BadInput(
                f"not {self.encoding}: {' '.join(f'0x{byte:02x}' for byte in bad)}",
                file=self.source.name,
                byte=offset,
                remedy="name the right --encoding (gb18030, big5, …), or choose --on-bad-bytes replace or skip",
            )
        how, mark = ("replaced", "�") if self.on_bad_bytes == "replace" else ("skipped", "")
        self.ledger.structure_count(f"bad bytes {how}", 0, len(bad) - len(mark.encode()))
        self.ledger.mend(self.source.name, offset, len(bad), how)
        return mark, error.end

    def _without_mark(self, text: str) -> str:
        if not text.startswith("\ufeff"):
            return text
        self.ledger.structure("byte order mark", "\ufeff")
        return text[1:]

    def _with_plain_endings(self, text: str) -> str:
        if "\r" not in text or "\r\n" not in text:  # one character is found far sooner than two
            return text
        plain = text.replace("\r\n", "\n")
        self.ledger.structure("carriage returns", "\r" * (len(text) - len(plain)))
        return plain


def is_packed(source: Source) -> bool:
    """Whether its text is larger than the file."""
    with told_of(source.name), open(source.path, "rb") as file:
        head = file.read(4)
    return head.startswith(GZIP) or _is_zstd(head)


def _is_zstd(head: bytes) -> bool:
    return head == ZSTD or (head[1:] == SKIPPABLE and head[0] >> 4 == 5)


def _unpacked_zstd(file: _Counted) -> Iterator[bytes]:
    """Frame after frame; raises EOFError where the last one is cut short (the library's own reader ends in silence)."""
    import zstandard

    packed, small = b"", 1 << 10  # fed in small pieces: each may unfold to thousands of times its size
    frame = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
    begun = False
    while packed or (packed := file.read(BLOCK)):
        try:
            block = frame.decompress(packed[:small])
        except zstandard.ZstdError as error:
            raise EOFError(error) from error
        packed, begun = frame.unused_data + packed[small:], True
        if frame.eof:
            frame, begun = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj(), False
        if block:
            yield block
    if begun:
        raise EOFError("the last frame has no end")


class _Counted(io.RawIOBase):
    """A binary file that tells how far it has been read and what its digest is."""

    def __init__(self, file: BinaryIO, blocks: Blocks, digest: hashlib._Hash) -> None:
        self.file, self.blocks, self.digest, self.ahead = file, blocks, digest, b""

    def peek(self, size: int) -> bytes:
        self.ahead = self.read(size)
        return self.ahead

    def read(self, size: int = -1) -> bytes:
        if self.ahead:
            ahead, self.ahead = self.ahead[:size], self.ahead[size:]
            return ahead if size <= len(ahead) else ahead + self.read(size - len(ahead))
        block = self.file.read(size)
        self.digest.update(block)
        self.blocks.packed += len(block)
        self.blocks.ledger.position += len(block)
        return block

    def readable(self) -> bool:
        return True


_MENDING = threading.local()  # whose bytes are being decoded: codecs do not say
_HANDLER = "forebear.mend"


def _mend(error: UnicodeError) -> tuple[str, int]:
    blocks: Blocks = _MENDING.blocks
    assert isinstance(error, UnicodeDecodeError)
    return blocks.mend(error)


codecs.register_error(_HANDLER, _mend)


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        if not codecs.lookup(encoding)._is_text_encoding:  # pyright: ignore[reportAttributeAccessIssue]
            raise LookupError
        return codecs.getincrementaldecoder(encoding)(_HANDLER)
    except LookupError:
        raise BadInput(
            f"no text encoding is called {encoding!r}", remedy="for example utf-8, gb18030, big5, utf-16, latin-1"
        ) from None
