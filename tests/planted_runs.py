"""Small adapted runs whose truth is known: of all words of a text, one decides what is right."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from forebear.data.labeled.source import labeled_source
from forebear.experiments import pipeline
from forebear.inference.run import Run
from forebear.registry import model_spec

ENGLISH = "the film about a man and his dog was shown in town last week".split()
CHINESE = "这部 电影 关于 一个 男人 和 他 的 狗 上周 在 镇上 放映".split()
GOOD, BAD = ("splendid", "喜欢"), ("dreadful", "讨厌")
SAID, SAID_IN_CHINESE = "a splendid film about his dog", "上周在镇上放映这部讨厌的电影"
ASKED: dict[str, list[Any]] = {
    "classification": [SAID, SAID_IN_CHINESE],
    "pairs": [(SAID, SAID_IN_CHINESE)],
    "choice": [("now:", SAID, SAID_IN_CHINESE)],
    "tagging": [SAID],
    "answering": [("how was it", SAID), ("how was it", SAID_IN_CHINESE)],
    "numbers": [SAID, SAID_IN_CHINESE],
    "several": [SAID],
}
SMALL = {"width": 32, "depth": 2, "heads": 2, "context": 32, "dropout": 0.0}


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts in both languages, and what each is: good or bad, as one of its words says."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        language = number % 2
        right = chance.randrange(2)
        words = chance.sample((ENGLISH, CHINESE)[language], chance.randrange(4, 9))
        words.insert(chance.randrange(len(words) + 1), (GOOD, BAD)[right][language])
        made.append(((" ", "")[language].join(words), ("good", "bad")[right]))
    return made


def _lines(task: str) -> str:
    told = sentences(240)
    if task == "classification":
        return "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in told)
    if task == "numbers":
        return "text\tlabel\n" + "".join(f"{text}\t{4.5 if label == 'good' else 1.5}\n" for text, label in told)
    if task == "several":
        both = ((text, f"{label}|{'short' if len(text.split()) < 6 else 'long'}") for text, label in told[::2])
        return "text\tlabel\n" + "".join(f"{text}\t{labels}\n" for text, labels in both)
    if task == "pairs":  # the second text decides
        rows = zip(told, told[1:] + told[:1], strict=True)
        return "text1\ttext2\tlabel\n" + "".join(f"{one}\t{other}\t{label}\n" for (one, _), (other, label) in rows)
    if task == "choice":
        goods, bads = ([text for text, label in told if label == which] for which in ("good", "bad"))
        both = enumerate(zip(goods, bads, strict=False))
        rows = [(good, bad, 0) if number % 2 else (bad, good, 1) for number, (good, bad) in both]
        return "text\tchoice1\tchoice2\tlabel\n" + "".join(f"now:\t{a}\t{b}\t{right}\n" for a, b, right in rows)
    if task == "tagging":
        marks = {"splendid": "S-GOOD", "dreadful": "S-BAD"}
        english = [text.split() for text, _ in told[:100:2]]
        return "\n".join("".join(f"{word}\t{marks.get(word, 'O')}\n" for word in words) for words in english)
    import json

    asked = []
    for number, (text, _) in enumerate(told):
        answer = next(word for word in (*GOOD, *BAD) if word in text)
        answers = [{"text": answer, "answer_start": text.index(answer)}]
        asked.append({"context": text, "qas": [{"id": str(number), "question": "how was it", "answers": answers}]})
    return json.dumps({"data": [{"title": "films", "paragraphs": asked}]}, ensure_ascii=False)


def planted(
    folder: Path, task: str = "classification", milestone: str = "bert", *, steps: int = 60, **more: Any
) -> Run:
    """A small run from nothing, adapted to such a task."""
    suffix = {"tagging": ".conll", "answering": ".json"}.get(task, ".tsv")
    file = folder / f"{task}{suffix}"
    file.write_text(_lines(task), encoding="utf-8")
    form = {"several": "|"} if task == "several" else None
    known = "classification" if task in ("numbers", "several") else task
    source, _ = labeled_source(str(file), task=known, form=form)
    learning = model_spec(milestone).learning
    options = {name: more.pop(name) for name in ("crf",) if name in more}
    how = {name: more.pop(name) for name in ("how",) if name in more}
    settings = {"steps": steps, "rate": 3e-3, "threads": 1} if learning == "descending" else {}
    plan = pipeline.plan_adaptation(milestone, source, how=how, options=options, settings=settings)
    if learning == "descending":
        kind = model_spec(milestone)
        plan = replace(plan, spec=kind(**{**SMALL, **more}))
    return Run(pipeline.run_adaptation(plan, folder / f"{milestone}-{task}"))


class Runs:
    """Such runs, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, {}

    def __call__(self, milestone: str, task: str = "classification", **how: Any) -> Run:
        key = f"{milestone}-{task}-{sorted(how.items())}"
        if key not in self.made:
            folder = self.folder / str(len(self.made))
            folder.mkdir()
            self.made[key] = planted(folder, task, milestone, **how)
        return self.made[key]
