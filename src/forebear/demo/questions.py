"""Questions that a story answers in its own words: what is asked, of which kind of story, and which thing answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

# kind of story, the thing that is the answer, other things that must be known; then the question in both languages.
QUESTIONS = """
weather H T | what is the highest temperature in <T>? | <T>的最高温度是多少？
weather T | which town is the report about? | 这段话说的是哪个地方的天气？
people T P | which town does <P> come from? | <P>是哪里人？
people Y P | in which year was <P> born? | <P>是哪一年出生的？
people J P | what is <P>'s work? | <P>是做什么工作的？
sport A B | which team played against <B>? | 跟<B>比赛的是哪支球队？
sport B A | which team played against <A>? | 跟<A>比赛的是哪支球队？
sport G A | how many goals did <A> score? | <A>进了几个球？
business C | which company is the report about? | 这段话说的是哪家公司？
business T C | which town is mentioned in the report about <C>? | 关于<C>的报道提到了哪个地方？
notice E D | what takes place on <D>? | <D>要举行什么活动？
notice D E | on which day is the <E>? | <E>在星期几举行？
notice T E | where is the <E>? | <E>在哪里举行？
food F | what did the guest order? | 客人吃了什么菜？
food N F | how much did they pay? | 一共花了多少钱？
food P B | who is the author of <B>? | 《<B>》的作者是谁？
food B P | what is the title of the book by <P>? | <P>的书叫什么名字？
travel T | which town is described? | 这段话介绍的是哪个地方？
letter Q P | who is the letter to? | 这封信是写给谁的？
letter P Q | who wrote the letter to <Q>? | 给<Q>写信的是谁？
case T P | in which town did this happen to <P>? | <P>的事发生在哪里？
case G P | what was stolen from <P>? | <P>丢了什么东西？
case P G | who is the owner of the <G>? | <G>的主人是谁？
case Q G | who is the witness? | 目击者是谁？
case A P | which animal was saved by <P>? | <P>救了什么动物？
case F P | what did <P> grow? | <P>种出了什么？
tale T P | in which town does the story of <P> take place? | <P>的故事发生在哪里？
"""


@cache
def story_questions() -> dict[str, list[tuple[str, Sequence[str], int]]]:
    """Kind of story → (thing that answers, things that must be known as well, number of the question)."""
    found: dict[str, list[tuple[str, Sequence[str], int]]] = {}
    for number, line in enumerate(QUESTIONS.strip().splitlines()):
        kind, answer, *known = line.split(" | ")[0].split()
        found.setdefault(kind, []).append((answer, known, number))
    return found


def rules(language: str) -> str:
    column = 1 if language == "en" else 2
    lines = QUESTIONS.strip().splitlines()
    return "\n".join(f"question.{number}\n    {line.split(' | ')[column]}" for number, line in enumerate(lines))
