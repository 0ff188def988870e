"""What a run answers by its vectors: of texts by any encoder, of words by a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from forebear.using.opened import Opened

if TYPE_CHECKING:
    from forebear.using.lexicon import Analogy, Method, NearWords
    from forebear.using.likeness import Odd, Similarity
    from forebear.using.neighbours import Neighbours
    from forebear.using.vectors import AnyPooling, Embedded, Layers, Long
    from forebear.using.word_measures import Agreement, Solved


class WithVectors(Opened):
    """A run of which vectors are asked."""

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: Layers | None = None,
        pooling: AnyPooling = "mean",
        words: bool = False,
        long: Long | None = None,
        normalise: bool = True,
        zeros: bool = False,
    ) -> list[Embedded]:
        """A vector for each text, and for each of its words: from any layer or mixture of layers, by itself the last,
        or from a table of words, which has none. A text of which a table knows no word is an error, or has `zeros`."""
        from forebear.using.embedding import embedded_by

        asked = [texts] if isinstance(texts, str) else list(texts)
        how: dict[str, Any] = {"layers": layers, "pooling": pooling, "long": long, "normalise": normalise}
        how["zeros"] = zeros
        return embedded_by(self, asked, words=words, **how)

    def vector(self, word: str) -> np.ndarray:
        """(D,) the numbers of a word as they were learned, or the mean of several words'; all of them, with their
        words, stand in `words`."""
        self.ready_for("neighbours")
        return np.array(self.lexicon.find(word).vector, np.float32)

    @overload
    def neighbours(
        self, texts: str | Sequence[str], *, among: None = None, top: int | None = None, approximate: bool = False
    ) -> list[NearWords]: ...

    @overload
    def neighbours(
        self,
        texts: str | Sequence[str],
        *,
        among: str | os.PathLike[str] | Sequence[str],
        top: int | None = None,
        approximate: bool = False,
        **how: Any,
    ) -> list[Neighbours]: ...

    def neighbours(
        self,
        texts: str | Sequence[str],
        *,
        among: str | os.PathLike[str] | Sequence[str] | None = None,
        top: int | None = None,
        approximate: bool = False,
        **how: Any,
    ) -> list[Neighbours] | list[NearWords]:
        """The nearest texts (5) `among` some, or among the lines of a file; without, the nearest of its own words (10).

        `how` is what `embed` takes, or `vectors` for those that are searched.
        """
        from forebear.using.neighbours import neighbours, own_words

        if among is None:
            own_words(how)
            self.ready_for("neighbours")
            return self.lexicon.neighbours(texts, 10 if top is None else top, approximate=approximate)
        return neighbours(self, texts, among, top=5 if top is None else top, approximate=approximate, **how)

    def similarity(self, first: str, second: str, **how: Any) -> Similarity:
        """How alike two words or texts are; `how` is what `embed` takes."""
        from forebear.using.likeness import similarities

        return similarities(self, [(first, second)], **how)[0]

    def odd_one_out(self, texts: Sequence[str], **how: Any) -> Odd:
        """Which of some words or texts is least like the others; `how` is what `embed` takes."""
        from forebear.using.likeness import odd_one_out

        return odd_one_out(self, texts, **how)

    def analogy(
        self, first: str, second: str, third: str, *, top: int = 5, method: Method = "add", approximate: bool = False
    ) -> Analogy:
        """The first is to the second as the third is to what? By its own words."""
        self.ready_for("analogy")
        return self.lexicon.analogy(first, second, third, top=top, method=method, approximate=approximate)

    def measure_words(
        self,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        most_frequent: int | None = None,
        method: Method = "add",
        encoding: str = "utf-8",
    ) -> list[Agreement | Solved]:
        """How well its vectors agree with what people say of pairs of words, or solve analogies; a file each.

        Analogies are answered by the `most_frequent` words (30,000; 0 for all), by this `method`.
        """
        from forebear.using.word_measures import measure_words

        named = [files] if isinstance(files, str | os.PathLike) else list(files)
        return measure_words(self, named, most_frequent=most_frequent, method=method, encoding=encoding)
