"""Who GloVe is measured beside: the published loops as they stand, and Stanford's program."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path

import numba
import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.subset import Subset
from forebear.kernels.cooccurrence import count_rows_reference
from forebear.models.glove import GloveSpec
from forebear.objectives.cooccurrence import WEIGHT_DENOMINATOR, CooccurrenceTable, TokenChunks


def plainly_counted(milestone: GloveSpec, source: Subset) -> int:
    """How many entries there are, by numpy."""
    tokenizer = source.corpus.tokenizer
    shares = np.array([round(WEIGHT_DENOMINATOR / distance) for distance in range(1, milestone.window + 1)])
    text = np.concatenate(
        [np.array([-1], np.int32), *TokenChunks(source, tokenizer.vocab_size, tokenizer.special_ids).chunks()]
    )
    return len(count_rows_reference(text, tokenizer.vocab_size, shares, 0, len(text))[0])


@numba.njit(error_model="numpy")
def plain_loops(rows, columns, counts, vectors, biases, vector_squares, bias_squares, largest, power, rate):
    """As published; the first of two tables has words as rows, the second as columns."""
    for entry in range(len(rows)):
        row, column, count = rows[entry], columns[entry], counts[entry]
        error = biases[0, row] + biases[1, column] - np.log(count)
        for place in range(vectors.shape[2]):
            error += vectors[0, row, place] * vectors[1, column, place]
        step = rate * error * (1.0 if count > largest else (count / largest) ** power)
        for place in range(vectors.shape[2]):
            mine, other = step * vectors[1, column, place], step * vectors[0, row, place]
            vectors[0, row, place] -= mine / np.sqrt(vector_squares[0, row, place])
            vectors[1, column, place] -= other / np.sqrt(vector_squares[1, column, place])
            vector_squares[0, row, place] += mine * mine
            vector_squares[1, column, place] += other * other
        for side, word in ((0, row), (1, column)):
            biases[side, word] -= step / np.sqrt(bias_squares[side, word])
            bias_squares[side, word] += step * step


class Plain:
    """The published loops, in double precision and random order."""

    def __init__(self, milestone: GloveSpec, table: CooccurrenceTable, words: int, seed: int = 0) -> None:
        self.milestone, self.table, self.rng = milestone, table, np.random.default_rng(seed)
        shape = 2, words, milestone.width
        self.values = [(self.rng.random(size) - 0.5) / milestone.width for size in (shape, shape[:2])]
        self.squares = [np.ones_like(values) for values in self.values]

    def drawn(self, many: int | None = None) -> tuple[np.ndarray, ...]:
        """All entries in random order, or so many of them."""
        order = self.rng.permutation(len(self.table))[:many]
        return self.table.rows[order], self.table.columns[order], self.table.counts[order].astype(np.float64)

    def learn(self, entries: tuple[np.ndarray, ...]) -> None:
        settings = self.milestone.largest, self.milestone.power, self.milestone.default_recipe()["rate"]
        plain_loops(*entries, *self.values, *self.squares, *settings)

    @property
    def matrix(self) -> np.ndarray:
        return self.values[0].sum(axis=0)


class Program:
    """`cooccur` and `glove` on this text; seconds are those of the processor."""

    def __init__(self, milestone: GloveSpec, corpus: Corpus, folder: Path) -> None:
        self.milestone, self.folder, self.words = milestone, folder, corpus.tokenizer.vocabulary()
        times = np.bincount(corpus.ids, minlength=len(self.words))
        times[list(corpus.tokenizer.special_ids)] = 0
        order = [word for word in np.argsort(-times, kind="stable").tolist() if times[word]]
        (folder / "vocabulary").write_text("".join(f"{self.words[word]} {times[word]}\n" for word in order))
        names = np.array(self.words, object)  # special tokens are in no vocabulary: the program skips them too
        lines = (" ".join(names[corpus.document_ids(number)]) for number in range(len(corpus.documents) - 1))
        (folder / "text").write_text("\n".join(lines) + "\n")

    @staticmethod
    def found() -> bool:
        return all(map(Program.path, ("cooccur", "shuffle", "glove")))

    @staticmethod
    def path(name: str) -> str | None:
        return shutil.which(name, path=os.environ.get("GLOVE_BIN", "") + os.pathsep + os.environ.get("PATH", ""))

    def run(self, name: str, source: str, target: str, *arguments: object) -> float:
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [str(self.path(name)), *map(str, arguments), "-verbose", "0"]
        with open(self.folder / source, "rb") as given, open(self.folder / target, "wb") as made:
            subprocess.run(command, stdin=given, stdout=made, cwd=self.folder, check=True)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime

    def count(self) -> float:
        return self.run(
            "cooccur", "text", "table", "-vocab-file", "vocabulary", "-memory", 4.0, "-symmetric", 1,
            "-window-size", self.milestone.window,
        )  # fmt: skip

    def learn(self, epochs: int, seed: int = 1) -> float:
        rate = self.milestone.default_recipe()["rate"]
        return self.run(
            "glove", "text", "said", "-input-file", "shuffled", "-vocab-file", "vocabulary", "-save-file", "vectors",
            "-threads", 1, "-iter", epochs, "-vector-size", self.milestone.width, "-x-max", self.milestone.largest,
            "-eta", rate, "-alpha", self.milestone.power, "-binary", 0, "-model", 2, "-seed", seed,
        )  # fmt: skip

    def shuffle(self) -> None:
        self.run("shuffle", "table", "shuffled", "-memory", 4.0)

    def matrix(self) -> np.ndarray:
        rows = {word: row for row, word in enumerate(self.words)}
        told = np.zeros((len(rows), self.milestone.width))
        for line in (self.folder / "vectors.txt").read_text().splitlines():
            word, *numbers = line.rsplit(" ", self.milestone.width)
            if word in rows:
                told[rows[word]] = [float(number) for number in numbers]
        return told
