"""Word vectors as word2vec's binary files: a line "N D", then each word, a space and D float32, perhaps a line end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import numpy as np

from forebear.errors import BadInput
from forebear.interop.word_vectors_files import AGAIN, WIDEST, Stream
from forebear.interop.word_vectors_gathering import Decoding, Gathering, WordVectors
from forebear.interop.word_vectors_text import HEADER

LONGEST = 1 << 16  # bytes of a word
ROWS = 4096  # written at once


def looks_so(head: bytes, whole: bool) -> bool:
    """Whether bytes that begin with a line "N D" go on as a binary file does, and not as text."""
    line, _, rest = head.partition(b"\n")
    told = HEADER.fullmatch(line)
    if told is None or not 0 < int(told[2]) <= WIDEST or b" " not in rest[: LONGEST + 1]:
        return False
    if any(byte in rest[:LONGEST] for byte in (0, 1, 2, 3, 4, 5, 6, 7, 8, 0x7F)):
        return True
    try:
        rest[:LONGEST].decode()
    except UnicodeDecodeError as error:
        if len(rest) - error.start > 3:  # not only cut inside a character
            return True
    return whole and _fits(rest, int(told[1]), int(told[2]))


def _fits(rest: bytes, count: int, width: int) -> bool:
    begin = 0
    for _ in range(count):
        begin = rest.find(b" ", begin) + 1 + 4 * width
        if begin <= 4 * width or begin > len(rest):
            return False
    return not rest[begin:].strip(b"\n")


def read(stream: Stream, *, limit: int | None = None, on_bad_bytes: str = "fail") -> WordVectors:
    """The words and vectors, the latter in memory: on the disk they lie apart and unaligned, which no array can."""
    head, _ = stream.look()
    line = head[:100].partition(b"\n")[0]
    told = HEADER.fullmatch(line)
    if told is None:
        what = 'it should begin with a line "N D": how many words of how many numbers'
        raise BadInput("the file is empty" if not head else what, file=stream.path, line=1, remedy=AGAIN)
    count, width = int(told[1]), int(told[2])
    if not count or not 0 < width <= WIDEST:
        what = f"it says that there are {count:,} words of {width:,} numbers"
        raise BadInput(what, file=stream.path, line=1, remedy=AGAIN)
    room = stream.room(min(count, limit or count), 4 * width)
    gathering = Gathering(Decoding(stream.path, "byte", on_bad_bytes), width, room)
    stream.read(len(line) + 1)
    reader = _Reader(stream, gathering, count, width, len(line) + 1)
    while reader.found < count and (limit is None or len(gathering.words) < limit):
        reader.take()
    if limit is None:
        reader.finish()
    return gathering.finish("word2vec-binary", limit)


class _Reader:
    """Words and vectors, as many at a time as are read at once; knows the byte at hand.

    found  words so far
    place  where in the (unpacked) file the bytes at hand begin
    """

    def __init__(self, stream: Stream, gathering: Gathering, count: int, width: int, place: int) -> None:
        self.stream, self.gathering, self.count, self.width = stream, gathering, count, width
        self.found, self.place, self.rest = 0, place, b""

    def take(self) -> None:
        """As many as the next bytes hold."""
        more, size = self.stream.read(), 4 * self.width
        if not more:
            raise self._ended()
        block, begin, left = self.rest + more, 0, self.count - self.found
        words, places, starts = [], [], []
        while len(words) < left:
            space = block.find(b" ", begin, begin + LONGEST)
            if space < 0 or space + 1 + size > len(block):
                break
            words.append(block[begin:space].lstrip(b"\n"))
            places.append(self.place + begin)
            starts.append(space + 1)
            begin = space + 1 + size
        if words:
            self._add(block, words, places, starts)
        if len(words) < left and len(block) - begin >= LONGEST and b" " not in block[begin : begin + LONGEST]:
            raise self.gathering.decoding.at(
                f"no word ends within {LONGEST:,} bytes from here", self.place + begin, AGAIN
            )
        self.rest, self.place = block[begin:], self.place + begin

    def _add(self, block: bytes, words: list[bytes], places: list[int], starts: list[int]) -> None:
        if b"" in words:
            raise self.gathering.decoding.at(
                "a vector stands here with no word before it", places[words.index(b"")], AGAIN
            )
        size = 4 * self.width
        anywhere = np.ndarray(len(block) - size + 1, f"V{size}", block, strides=1)  # a vector from every byte on
        self.gathering.add(words, anywhere[starts].view("<f4").reshape(-1, self.width), places)
        self.found += len(words)

    def _ended(self) -> BadInput:
        if not self.rest.strip(b"\n"):
            what = f"the file ends after {self.found:,} of the {self.count:,} words that its first line tells"
        else:
            what = f"the file ends inside the word that begins here, or inside its {self.width:,} numbers"
        return self.gathering.decoding.at(what, self.place, AGAIN)

    def finish(self) -> None:
        """The end of the file, if it is where the first line says."""
        rest = self.rest
        while (more := self.stream.read()) and not rest.strip(b"\n"):
            self.place, rest = self.place + len(rest), more
        if rest.strip(b"\n"):
            what = f"there is more than the {self.count:,} words of {self.width:,} numbers that the first line tells"
            raise self.gathering.decoding.at(what, self.place, AGAIN)


def write(file: IO[bytes], words: Sequence[str], matrix: np.ndarray) -> None:
    """As the original program does, with a line end after each vector."""
    count, width = matrix.shape
    file.write(b"%d %d\n" % (count, width))
    for begin in range(0, count, ROWS):
        rows = np.ascontiguousarray(matrix[begin : begin + ROWS], "<f4")
        told = zip(words[begin : begin + ROWS], rows, strict=True)
        file.write(b"".join(b"%b %b\n" % (word.encode(), row.tobytes()) for word, row in told))
