"""Worked examples of four tasks: sentence pairs, sentences or scrambled words, questions, entities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

WHO = ("我", "他", "她", "小王", "老师", "妈妈", "爷爷", "同学")
WHOM = ("你", "他们", "邻居", "医生", "这本书", "那只猫", "新房子", "这首歌")
ALIKE = (("很喜欢", "很中意"), ("很讨厌", "很厌恶"), ("很害怕", "很畏惧"), ("很熟悉", "很了解"))
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
SAID = (
    "天气预报显示今天{what} {many} {unit}",
    "今天{what} {many} {unit}，请大家注意",
    "据报道，今天{what} {many} {unit}",
)
PEOPLE = ("爱因斯坦", "牛顿", "居里夫人", "鲁迅", "李白", "达尔文", "老舍", "高斯", "王小明", "欧拉")
PLACES = ("柏林", "北京", "巴黎", "伦敦", "上海", "东京", "纽约", "成都")
GROUPS = ("新华社", "清华大学", "红十字会", "联合国")
DEEDS = ("发表演讲", "参观访问", "开会", "写了一本书", "遇见朋友", "住了三年")

# What LINEAGE asks of the four: the file, the command's words, and what is to come out.
ASKED = {
    "pairs": (("我很喜欢你", "我很中意你"), "similar"),
    "classification": (("海大球星饭茶吃",), "scrambled"),
    "answering": (("今天的最高温度是多少", "天气预报显示今天最高温度 37 摄氏度"), "37 摄氏度"),
    "tagging": (("爱因斯坦在柏林发表演讲",), "爱因斯坦 PER, 柏林 LOC"),
}
FILES = {"pairs": "similar.tsv", "classification": "sentences.tsv"}
FILES |= {"answering": "weather.json", "tagging": "people.conll"}


def write_worked(folder: Path) -> dict[str, Path]:
    """The files of all four; what is asked of them later stands in none."""
    made = {"pairs": _pairs, "classification": _sentences, "answering": _weather, "tagging": _people}
    written = {}
    for task, make in made.items():
        written[task] = folder / FILES[task]
        written[task].write_text("".join(make()), encoding="utf-8")
    return written


def _pairs() -> Iterator[str]:
    yield "first\tsecond\tlabel\n"
    rng = Random(0)
    for who, whom in product(WHO, WHOM):
        for group in ALIKE:
            one, other = rng.sample(group, 2)
            if (who, whom, group) != ("我", "你", ALIKE[0]):
                yield f"{who}{one}{whom}\t{who}{other}{whom}\tsimilar\n"
            strange = rng.choice(rng.choice([those for those in ALIKE if those is not group]))
            yield f"{who}{one}{whom}\t{who}{strange}{whom}\tdifferent\n"


def _sentences() -> Iterator[str]:
    yield "text\tlabel\n"
    rng = Random(0)
    for number in range(12):
        for sentence in SENTENCES:
            letters = list(sentence.rstrip("。"))
            yield f"{''.join(letters)}\tcoherent\n" if number % 4 == 0 else ""
            mixed = rng.sample(letters, len(letters))
            if mixed != letters:
                yield f"{''.join(mixed)}\tscrambled\n"


def _weather() -> Iterator[str]:
    paragraphs: list[dict[str, Any]] = []
    for (what, unit, numbers), said in product(WEATHER, SAID):
        for many in numbers:
            passage, answer = said.format(what=what, many=many, unit=unit), f"{many} {unit}"
            if passage != ASKED["answering"][0][1]:
                told = {"text": answer, "answer_start": passage.index(answer)}
                question = {"id": f"{len(paragraphs)}", "question": f"今天的{what}是多少", "answers": [told]}
                paragraphs.append({"context": passage, "qas": [question]})
    yield json.dumps({"version": "1.1", "data": [{"title": "天气", "paragraphs": paragraphs}]}, ensure_ascii=False)


def _people() -> Iterator[str]:
    for number, (who, where, what) in enumerate(product(PEOPLE, PLACES, DEEDS)):
        if (who, where, what) != ("爱因斯坦", "柏林", "发表演讲") and number % 2 == 0:
            kinds = [(who, "PER"), ("在", ""), (where, "LOC"), (what, "")]
            if number % 3 == 0:
                kinds = [(GROUPS[number % 4], "ORG"), ("说", ""), *kinds]
            yield "".join(line for text, kind in kinds for line in _tagged(text, kind)) + "\n"


def _tagged(text: str, kind: str) -> Iterator[str]:
    for place, letter in enumerate(text):
        part = "S" if len(text) == 1 else "B" if place == 0 else "E" if place == len(text) - 1 else "I"
        yield f"{letter}\t{part}-{kind}\n" if kind else f"{letter}\tO\n"
