"""Small adapted runs whose truth is known: of all words of a text, one decides what is right."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from forebear.lineage import milestone_named
from forebear.training.labelled import labelled_source
from forebear.using import adapting
from forebear.using.run import Run

ENGLISH = "the film about a man and his dog was shown in town last week".split()
CHINESE = "这部 电影 关于 一个 男人 和 他 的 狗 上周 在 镇上 放映".split()
GOOD, BAD = ("splendid", "喜欢"), ("dreadful", "讨厌")
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
    source, _ = labelled_source(str(file), task=task)
    learning = milestone_named(milestone).learning
    options = {name: more.pop(name) for name in ("crf",) if name in more}
    how = {name: more.pop(name) for name in ("how",) if name in more}
    settings = {"steps": steps, "rate": 3e-3, "threads": 1} if learning == "descending" else {}
    plan = adapting.plan(milestone, source, how=how, options=options, settings=settings)
    if learning == "descending":
        kind = milestone_named(milestone)
        plan = replace(plan, milestone=kind(**{**SMALL, **more}))
    return Run(adapting.adapt(plan, folder / f"{milestone}-{task}"))
