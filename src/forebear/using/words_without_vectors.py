"""How many words of a task's examples have no vector in the run that is adapted, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from forebear.text.extending import lacking
from forebear.text.tokenizer import Tokenizer

NAMED = 5  # words that are shown
LOOKED_AT = 1000  # texts among which unknown words are looked for, to show some


@dataclass(frozen=True)
class WithoutVectors:
    """Of so many words of the examples, each as often as it stands there."""

    words: int
    begun: int  # have a row of their own, which begins by chance
    unknown: int  # share the row of all unknown words
    named: tuple[str, ...]

    @classmethod
    def of(cls, tokens: np.ndarray, known: np.ndarray, tokenizer: Tokenizer, texts: Sequence[str]) -> WithoutVectors:
        """tokens are those of the texts, and known says of each id whether it has a vector."""
        counts = np.bincount(tokens, minlength=tokenizer.size)
        unknown = 0 if tokenizer.unknown is None else int(counts[tokenizer.unknown])
        counts[list(tokenizer.specials)] = 0
        fresh = np.where(known, 0, counts)
        often = np.argsort(-fresh, kind="stable")[:NAMED].tolist()
        named = [tokenizer.token(number) for number in often if fresh[number]]
        if unknown and len(named) < NAMED:
            named += lacking(tokenizer, texts[:LOOKED_AT], 1)[: NAMED - len(named)]
        return cls(int(counts.sum()) + unknown, int(fresh.sum()), unknown, tuple(named))

    def notes(self) -> list[str]:
        """What is to be said, if anything."""
        lacked = self.begun + self.unknown
        if not lacked:
            return []
        kinds = ((self.begun, "begin with one by chance"), (self.unknown, "are one unknown word"))
        told = ", ".join(f"{count:,} {what}" for count, what in kinds if count)
        shown = f", such as {', '.join(self.named)}" if self.named else ""
        share = f"{lacked / self.words:.1%} of the words of the training examples"
        return [f"{share} ({lacked:,} of {self.words:,}{shown}) have no vector in the run: {told}"]

    def facts(self) -> dict[str, Any]:
        return asdict(self) | {"named": list(self.named)}
