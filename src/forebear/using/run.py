"""A run in one's hands: what it can do is read off the names of its heads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from forebear.errors import BadInput
from forebear.objectives.masked_tokens import MaskedTokens
from forebear.text.portion import Portion, documents
from forebear.training.corpora import learned_from
from forebear.training.recipe import amount
from forebear.using.with_vectors import WithVectors

if TYPE_CHECKING:
    import numpy as np

    from forebear.tasks.answering import Answer
    from forebear.tasks.choice import Chosen
    from forebear.tasks.classification import Classified
    from forebear.tasks.tagging import Told
    from forebear.text.corpus import Corpus
    from forebear.text.reading import Reading
    from forebear.using.asking import Per, Prompted
    from forebear.using.company import Company
    from forebear.using.continuing import Generated
    from forebear.using.examining import Examined
    from forebear.using.filling import Filled
    from forebear.using.following import Following
    from forebear.using.generating import Writing
    from forebear.using.measuring import Measured, Progress
    from forebear.using.prompts import Labels, Shots
    from forebear.using.replying import Written
    from forebear.using.scoring import Scored
    from forebear.using.translating import Search, Translated


class Run(WithVectors):
    """A run folder, opened: its network is loaded when it is first asked something."""

    def score(self, texts: str | Sequence[str], *, ends: bool = False) -> list[Scored]:
        """How probable each text is, in all and token by token."""
        from forebear.using.scoring import score

        return score(self.scorer, self.tokenizer, texts, ends=ends)

    def totals(self, texts: Sequence[str], *, ends: bool = True) -> np.ndarray:
        """(n,) log P of each of very many texts, that it ends there included: the quick way."""
        from forebear.using.totals import totals

        return totals(self.predictor, self.tokenizer, texts, ends=ends)

    def fill(self, text: str, *, top: int = 5, tokens: int = 1) -> Filled:
        """What stands in the blanks (____ or the mask) of the text; ____ hides so many `tokens`."""
        from forebear.using.filling import fill

        return fill(self.restorer, self.tokenizer, text, top=top, tokens=tokens)

    def classify(self, texts: str | Sequence[str] | Sequence[tuple[str, str]]) -> list[Classified]:
        """What each text, or pair of texts, is, and how probable each label."""
        from forebear.using import doing

        self.ready_for("classify")
        return list(doing.done(self, doing.labelled(self, texts)))

    def tag(self, texts: str | Sequence[str | Sequence[str]]) -> list[Told]:
        """A tag for each word of each text (or list of words), in the scheme that it learned, and the names."""
        from forebear.using import doing

        self.ready_for("tag")
        return list(doing.told(self, doing.tagged(self, texts)))

    def answer(self, question: str | Sequence[str], passage: str | Sequence[str]) -> list[Answer]:
        """Where in its passage the answer to each question stands; one passage may serve all questions."""
        from forebear.using import doing

        self.ready_for("answer")
        return list(doing.done(self, doing.asked(question, passage)))

    def translate(self, texts: str | Sequence[str], **how: Unpack[Search]) -> list[Translated]:
        """Each text in the other language, the best `best` versions of it."""
        from forebear.using.translating import translate

        return translate(self.translator, self.folder.sides, texts, **how)

    def choose(self, text: str, choices: Sequence[str]) -> Chosen:
        """Which of the choices goes with the text best."""
        from forebear.using import doing

        self.ready_for("choose")
        return next(iter(doing.done(self, doing.choices(text, choices))))

    def examine(
        self, file: str | os.PathLike[str], *, on_bad_rows: str = "fail", on_bad_tags: str = "fail"
    ) -> Examined:
        """How well it does its task on a file of labelled examples: figures, calibration, every mistake."""
        from forebear.using.examining import examine

        if self.task is None:
            raise BadInput("was adapted to no task", file=self.folder.path, remedy=self._able())
        return examine(self, file, on_bad_rows=on_bad_rows, on_bad_tags=on_bad_tags)

    def next(
        self, text: str, *, top: int = 10, ends: bool = False, among: int | None = None, why: bool = False
    ) -> Following:
        """What comes next, or what fills the blank (____) in the text; `why`: by which counts, of a run that counts."""
        from forebear.using.following import next  # noqa: A004 - the command's word

        return next(self.predictor, self.tokenizer, text, top=top, ends=ends, among=among, why=why)

    def ask(
        self,
        texts: str | Sequence[str],
        *,
        labels: Labels | None = None,
        choices: Sequence[str] | None = None,
        template: str | None = None,
        shots: Shots = (),
        calibrate: bool | None = None,
        neutral: str | None = None,
        per: Per = "total",
    ) -> list[Prompted]:
        """Which of the labels or choices completes each text best, without any training."""
        from forebear.using.asking import ask

        how = {"template": template, "shots": shots, "calibrate": calibrate, "neutral": neutral, "per": per}
        return ask(self.scorer, self.tokenizer, texts, labels=labels, choices=choices, **how)

    def summarise(self, texts: str | Sequence[str], *, cue: str | None = None, sentences: int = 3) -> list[Written]:
        """What it writes after each text and a cue (TL;DR:)."""
        from forebear.using.replying import summarise

        return summarise(self.predictor, self.tokenizer, texts, cue=cue, sentences=sentences)

    def reply(self, texts: str | Sequence[str], *, shots: Shots, template: str | None = None) -> list[Written]:
        """What it answers to each text after examples of answers."""
        from forebear.using.replying import reply

        return reply(self.predictor, self.tokenizer, texts, shots=shots, template=template)

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        *,
        length: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float | None = None,
        stop: str | Sequence[str] | None = None,
        seed: int | None = None,
        samples: int | None = None,
        beams: int | None = None,
        best: int | None = None,
        length_penalty: float | None = None,
        choices: Sequence[str] | None = None,
    ) -> list[Generated]:
        """Continues each prompt by up to `length` (100) tokens.

        By chance: temperature 0.8, top_p 0.95, and the same `seed` (0) writes the same text; `samples` for each. With
        `beams`, by search: the `best` (1) of them. With `choices`, by the likeliest of these.
        """
        from forebear.using.writing import write

        how = {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p, "stop": stop}
        how |= {"repetition_penalty": repetition_penalty, "seed": seed, "samples": samples}
        how |= {"beams": beams, "best": best, "length_penalty": length_penalty, "choices": choices}
        return write(self.predictor, self.tokenizer, prompts, **how)

    def stream(self, prompt: str = "", **how: Unpack[Writing]) -> Iterator[str]:
        """The continuation of one prompt, piece by piece as it comes; takes the words of `generate`."""
        from forebear.using.generating import stream

        return stream(self.predictor, self.tokenizer, prompt, **how)

    def measure(
        self,
        texts: Portion | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        limit: str | int | None = None,
        reading: Reading | None = None,
        workers: int | None = None,
        preparing: Progress | None = None,
        progress: Progress | None = None,
    ) -> Measured | Company:
        """How well it predicts text files, a corpus of its tokenizer, or a portion of one; `limit` is in bytes. Word
        vectors predict no text: of them it is measured how well they know the company of its words.

        What was adapted to a task is asked with `examine`.
        """
        if self.task is not None:
            remedy = "run.examine(FILE) measures how well it does the task"
            raise BadInput(f"was adapted to {self.task.name}", file=self.folder.path, remedy=remedy)
        from forebear.using.measuring import measure, prepared

        most = None if limit is None else amount(limit, "limit")
        if most is not None and most < 1:
            raise BadInput(f"--limit is {limit}", remedy="give a number of bytes above 0, such as 200k")
        portion = prepared(self, texts, reading, workers, preparing)
        portion = portion if most is None else portion.first(most)
        if "token" in self.heads:
            from forebear.using.hiding import measure_hidden

            objective = self.folder.milestone.objective(self.tokenizer)
            assert isinstance(objective, MaskedTokens)
            measured = measure_hidden(self.restorer, self.tokenizer, objective, portion, progress=progress)
        elif "next" in self.heads or "translation" in self.heads:  # the latter is refused there, with what it can do
            measured = measure(self.predictor, self.tokenizer, portion, unit=self.unit, progress=progress)
        else:
            from forebear.using.company import company

            measured = company(self.words, self.tokenizer, portion)
        if not isinstance(texts, str | os.PathLike | Sequence):  # a portion: who has it knows what it is
            return measured
        known, size = self.learned_from(portion.corpus, measured.documents)
        return replace(measured, learned_from=known, learned_bytes=size)

    def learned_from(self, corpus: Corpus, count: int) -> tuple[int | None, int | None]:
        """How many of the first documents it has learned from, and their bytes; None where nobody knows."""
        if self.facts.get("data") is None:
            return None, None
        seen = learned_from(self.facts["data"], self.folder.recipe.held_out, corpus)
        if seen is None:
            return None, None
        known = Portion(corpus, documents(corpus)[:count][seen[:count]])
        return len(known), known.bytes

    def export(self, to: str | os.PathLike[str], *, format: str | None = None) -> Path:  # noqa: A002 - the command's word
        """Writes it as another program's files: a folder for transformers, an ARPA file for KenLM."""
        from forebear.using.exchanging import exported, form_of

        return exported(self, format or form_of(self), os.fspath(to))
