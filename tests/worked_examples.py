"""Worked examples of four tasks: sentence pairs, sentences or scrambled words, questions, entities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

SUBJECTS = ("我", "他", "她", "小王", "老师", "妈妈", "爷爷", "同学")
OBJECTS = ("你", "他们", "邻居", "医生", "这本书", "那只猫", "新房子", "这首歌")
SYNONYMS = (("很喜欢", "很中意"), ("很讨厌", "很厌恶"), ("很害怕", "很畏惧"), ("很熟悉", "很了解"))
SENTENCES = (
    "大海很美。 球星吃饭。 我喝茶。 大家吃饭喝茶。 海边有大球。 星星很大。 他吃大饭团。 球星爱大海。 茶很好喝。 "
    "饭很好吃。 我们去海边看球。 大球飞到海里。 球星喝了一杯茶。 他在海边吃饭。 她爱吃米饭。 天上有大星星。 "
    "我们吃饭后喝茶。 大家都爱球星。"
).split()
WEATHER = (
    ("最高温度", "摄氏度", range(20, 40)),
    ("最低温度", "摄氏度", range(5, 20)),
    ("风力", "级", range(1, 9)),
    ("降水", "毫米", range(10, 60)),
)
REPORTS = (
    "天气预报显示今天{what} {many} {unit}",
    "今天{what} {many} {unit}，请大家注意",
    "据报道，今天{what} {many} {unit}",
)
PEOPLE = ("爱因斯坦", "牛顿", "居里夫人", "鲁迅", "李白", "达尔文", "老舍", "高斯", "王小明", "欧拉")
PLACES = ("柏林", "北京", "巴黎", "伦敦", "上海", "东京", "纽约", "成都")
ORGANIZATIONS = ("新华社", "清华大学", "红十字会", "联合国")
ACTIONS = ("发表演讲", "参观访问", "开会", "写了一本书", "遇见朋友", "住了三年")

# Queries of the four tasks: arguments of the command, and the expected output.
TASK_QUERIES = {
    "pairs": (("我很喜欢你", "我很中意你"), "similar"),
    "classification": (("海大球星饭茶吃",), "scrambled"),
    "answering": (("今天的最高温度是多少", "天气预报显示今天最高温度 37 摄氏度"), "37 摄氏度"),
    "tagging": (("爱因斯坦在柏林发表演讲",), "爱因斯坦 PER, 柏林 LOC"),
}
FILES = {"pairs": "similar.tsv", "classification": "sentences.tsv"}
FILES |= {"answering": "weather.json", "tagging": "people.conll"}


def write_worked_examples(folder: Path) -> dict[str, Path]:
    """Files of all four tasks; none contains a query."""
    writers = {"pairs": _pairs, "classification": _sentences, "answering": _weather, "tagging": _people}
    paths = {}
    for task, rows_of in writers.items():
        paths[task] = folder / FILES[task]
        paths[task].write_text("".join(rows_of()), encoding="utf-8")
    return paths


def _pairs() -> Iterator[str]:
    yield "first\tsecond\tlabel\n"
    rng = Random(0)
    for subject, object_ in product(SUBJECTS, OBJECTS):
        for group in SYNONYMS:
            verb, synonym = rng.sample(group, 2)
            if (subject, object_, group) != ("我", "你", SYNONYMS[0]):
                yield f"{subject}{verb}{object_}\t{subject}{synonym}{object_}\tsimilar\n"
            unrelated = rng.choice(rng.choice([verbs for verbs in SYNONYMS if verbs is not group]))
            yield f"{subject}{verb}{object_}\t{subject}{unrelated}{object_}\tdifferent\n"


def _sentences() -> Iterator[str]:
    yield "text\tlabel\n"
    rng = Random(0)
    for number in range(12):
        for sentence in SENTENCES:
            characters = list(sentence.rstrip("。"))
            yield f"{''.join(characters)}\tcoherent\n" if number % 4 == 0 else ""
            shuffled = rng.sample(characters, len(characters))
            if shuffled != characters:
                yield f"{''.join(shuffled)}\tscrambled\n"


def _weather() -> Iterator[str]:
    paragraphs: list[dict[str, Any]] = []
    for (quantity, unit, numbers), report in product(WEATHER, REPORTS):
        for value in numbers:
            passage, answer = report.format(what=quantity, many=value, unit=unit), f"{value} {unit}"
            if passage != TASK_QUERIES["answering"][0][1]:
                answer_span = {"text": answer, "answer_start": passage.index(answer)}
                question = {"id": f"{len(paragraphs)}", "question": f"今天的{quantity}是多少", "answers": [answer_span]}
                paragraphs.append({"context": passage, "qas": [question]})
    yield json.dumps({"version": "1.1", "data": [{"title": "天气", "paragraphs": paragraphs}]}, ensure_ascii=False)


def _people() -> Iterator[str]:
    for number, (person, place, action) in enumerate(product(PEOPLE, PLACES, ACTIONS)):
        if (person, place, action) != ("爱因斯坦", "柏林", "发表演讲") and number % 2 == 0:
            parts = [(person, "PER"), ("在", ""), (place, "LOC"), (action, "")]
            if number % 3 == 0:
                parts = [(ORGANIZATIONS[number % 4], "ORG"), ("说", ""), *parts]
            yield "".join(line for text, kind in parts for line in _tagged(text, kind)) + "\n"


def _tagged(text: str, kind: str) -> Iterator[str]:
    for position, character in enumerate(text):
        prefix = "S" if len(text) == 1 else "B" if position == 0 else "E" if position == len(text) - 1 else "I"
        yield f"{character}\t{prefix}-{kind}\n" if kind else f"{character}\tO\n"
