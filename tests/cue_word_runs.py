"""Small adapted runs with a known truth: in every text a single cue word decides the label."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from forebear.data.labeled.labeled_source import labeled_source
from forebear.experiments import training_run
from forebear.inference.run import Run
from forebear.registry import model_spec

ENGLISH = "the film about a man and his dog was shown in town last week".split()
CHINESE = "这部 电影 关于 一个 男人 和 他 的 狗 上周 在 镇上 放映".split()
POSITIVE, NEGATIVE = ("splendid", "喜欢"), ("dreadful", "讨厌")
ENGLISH_TEXT, CHINESE_TEXT = "a splendid film about his dog", "上周在镇上放映这部讨厌的电影"
TASK_INPUTS: dict[str, list[Any]] = {
    "classification": [ENGLISH_TEXT, CHINESE_TEXT],
    "pairs": [(ENGLISH_TEXT, CHINESE_TEXT)],
    "choice": [("now:", ENGLISH_TEXT, CHINESE_TEXT)],
    "tagging": [ENGLISH_TEXT],
    "answering": [("how was it", ENGLISH_TEXT), ("how was it", CHINESE_TEXT)],
    "numbers": [ENGLISH_TEXT, CHINESE_TEXT],
    "several": [ENGLISH_TEXT],
}
SMALL = {"width": 32, "depth": 2, "heads": 2, "context": 32, "dropout": 0.0}


def labeled_sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts in both languages with their labels, good or bad, decided by one cue word."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        language = number % 2
        label = rng.randrange(2)
        words = rng.sample((ENGLISH, CHINESE)[language], rng.randrange(4, 9))
        words.insert(rng.randrange(len(words) + 1), (POSITIVE, NEGATIVE)[label][language])
        rows.append(((" ", "")[language].join(words), ("good", "bad")[label]))
    return rows


def _file_content(task: str) -> str:
    examples = labeled_sentences(240)
    if task == "classification":
        return "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in examples)
    if task == "numbers":
        return "text\tlabel\n" + "".join(f"{text}\t{4.5 if label == 'good' else 1.5}\n" for text, label in examples)
    if task == "several":
        both = ((text, f"{label}|{'short' if len(text.split()) < 6 else 'long'}") for text, label in examples[::2])
        return "text\tlabel\n" + "".join(f"{text}\t{labels}\n" for text, labels in both)
    if task == "pairs":  # the second text decides
        rows = zip(examples, examples[1:] + examples[:1], strict=True)
        return "text1\ttext2\tlabel\n" + "".join(
            f"{first_text}\t{second_text}\t{label}\n" for (first_text, _), (second_text, label) in rows
        )
    if task == "choice":
        goods, bads = ([text for text, label in examples if label == wanted_label] for wanted_label in ("good", "bad"))
        both = enumerate(zip(goods, bads, strict=False))
        rows = [(good, bad, 0) if number % 2 else (bad, good, 1) for number, (good, bad) in both]
        return "text\tchoice1\tchoice2\tlabel\n" + "".join(f"now:\t{a}\t{b}\t{right}\n" for a, b, right in rows)
    if task == "tagging":
        marks = {"splendid": "S-GOOD", "dreadful": "S-BAD"}
        english = [text.split() for text, _ in examples[:100:2]]
        return "\n".join("".join(f"{word}\t{marks.get(word, 'O')}\n" for word in words) for words in english)
    import json

    paragraphs = []
    for number, (text, _) in enumerate(examples):
        answer = next(word for word in (*POSITIVE, *NEGATIVE) if word in text)
        answers = [{"text": answer, "answer_start": text.index(answer)}]
        paragraphs.append({"context": text, "qas": [{"id": str(number), "question": "how was it", "answers": answers}]})
    return json.dumps({"data": [{"title": "films", "paragraphs": paragraphs}]}, ensure_ascii=False)


def train_cue_word_run(
    folder: Path, task: str = "classification", model_name: str = "bert", *, steps: int = 60, **changes: Any
) -> Run:
    """A small run trained from scratch on such a task."""
    suffix = {"tagging": ".conll", "answering": ".json"}.get(task, ".tsv")
    file = folder / f"{task}{suffix}"
    file.write_text(_file_content(task), encoding="utf-8")
    form = {"several": "|"} if task == "several" else None
    task_type = "classification" if task in ("numbers", "several") else task
    source, _ = labeled_source(str(file), task=task_type, form=form)
    learning = model_spec(model_name).learning
    options = {name: changes.pop(name) for name in ("crf",) if name in changes}
    how = {name: changes.pop(name) for name in ("how",) if name in changes}
    settings = {"steps": steps, "rate": 3e-3, "threads": 1} if learning == "descending" else {}
    plan = training_run.plan_adaptation(model_name, source, how=how, options=options, settings=settings)
    if learning == "descending":
        spec_type = model_spec(model_name)
        plan = replace(plan, spec=spec_type(**{**SMALL, **changes}))
    return Run(training_run.run_adaptation(plan, folder / f"{model_name}-{task}"))


class RunCache:
    """Such runs, each trained on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, {}

    def __call__(self, model_name: str, task: str = "classification", **changes: Any) -> Run:
        key = f"{model_name}-{task}-{sorted(changes.items())}"
        if key not in self.runs:
            folder = self.folder / str(len(self.runs))
            folder.mkdir()
            self.runs[key] = train_cue_word_run(folder, task, model_name, **changes)
        return self.runs[key]
