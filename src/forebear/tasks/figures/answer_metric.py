"""How well a question was answered: exact match and F1 as SQuAD defines them, and for Chinese as CMRC 2018 does."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from forebear.errors import BadInput
from forebear.text.scripts import NUMBER, WORD_LETTERS, count_classes, points

Language = Literal["english", "chinese"]

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Just these, and no others, are removed by CMRC 2018's script (whose …… never matches, as it looks at one character).
CMRC_PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
CMRC_HAN = "\u4e00-\u9fa5"
# Between Chinese characters, words as in the Penn Treebank, which that script asks NLTK for: marks stand alone, but not
# a comma before a digit, nor a full stop or an apostrophe inside; 's and n't are words of their own.
MARKS = r";@#$%&?!\[\](){}<>\"–—―‘"
SHORTENED = r"(?:'(?:s|m|d|ll|re|ve)|n't)(?!\w)"
LAST = rf"(?=[\])}}>\"'”’\s]*(?:$|[{CMRC_HAN}]))"  # nothing but closing marks until the end, or the next Chinese one
INSIDE = rf"[^\s{CMRC_HAN}{MARKS},.']|,(?=\d)|(?<!\.)\.(?!\.|{LAST})|(?<=\w)'(?=\w)"
WORD = re.compile(rf"[{CMRC_HAN}]|{SHORTENED}|\.\.+|[{MARKS}]|(?:(?!{SHORTENED})(?:{INSIDE}))+|[,.']")


def of_answers(
    golds: Sequence[Sequence[str]], predicted: Sequence[str], language: Language | None = None
) -> dict[str, Any]:
    """Shares from 0 to 1 over all questions, and apart over those that have an answer and those that have none.

    golds     the answers that people gave to each question; none if it has no answer, which "" then matches
    language  whose definition is asked for; by itself, Chinese if more than half of the golds' text is
    """
    if len(golds) != len(predicted):
        raise BadInput(f"{len(predicted)} answers to {len(golds)} questions")
    if not golds:
        raise BadInput("there are no questions to measure with", remedy="give at least one")
    chosen = language or language_of(golds)
    scores = np.array([score(gold, text, chosen) for gold, text in zip(golds, predicted, strict=True)])
    answered = np.array([bool(gold) for gold in golds])
    facts = {**_means(scores), "language": chosen}
    for name, which in (("has_answer", answered), ("no_answer", ~answered)):
        if which.any():
            facts[name] = _means(scores[which])
    return facts


def best_threshold(golds: Sequence[Sequence[str]], predicted: Sequence[str], gaps: Sequence[float]) -> float:
    """How large a gap has to be before nothing is answered, so that F1 is best; of several such, the nearest to 0.

    predicted  what would be answered
    gaps       how much likelier it seems that there is no answer
    """
    language = language_of(golds)
    gains = [
        score(gold, "", language)[1] - score(gold, text, language)[1]
        for gold, text in zip(golds, predicted, strict=True)
    ]
    order = np.argsort(gaps, kind="stable")
    wide = np.asarray(gaps, float)[order]
    edges = np.concatenate([wide[:1] - 1, (wide[1:] + wide[:-1]) / 2, wide[-1:] + 1])
    totals = np.append(np.cumsum(np.array(gains)[order][::-1])[::-1], 0.0)  # gained with each edge as the threshold
    best = totals >= totals.max() - 1e-9
    if best[np.searchsorted(wide, 0.0, side="right")]:
        return 0.0
    return float(edges[best][np.abs(edges[best]).argmin()])


def score(golds: Sequence[str], predicted: str, language: Language) -> tuple[float, float]:
    """(exact match, F1) of an answer: the best that it has with any of the golds."""
    plain, overlap = (plain_chinese, chinese_f1) if language == "chinese" else (plain_english, english_f1)
    wanted = [gold for gold in golds if plain(gold)] or [""]
    exact = plain(predicted) in [plain(gold) for gold in wanted]
    return float(exact), max(overlap(gold, predicted) for gold in wanted)


def language_of(golds: Sequence[Sequence[str]]) -> Language:
    """By what the golds say: a Chinese character counts as much as a Latin word."""
    text = "".join(answer for gold in golds for answer in gold)
    _, counts = count_classes(points(text), [len(text)])
    han, latin = int(counts[0, NUMBER["Han"]]), int(counts[0, NUMBER["Latin"]])
    return "chinese" if han * WORD_LETTERS > latin else "english"


def plain_english(text: str) -> str:
    """SQuAD's normal form: in small letters, without punctuation and articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def english_f1(gold: str, predicted: str) -> float:
    """Of the words that both have, in any order."""
    wanted, given = plain_english(gold).split(), plain_english(predicted).split()
    return _f1((Counter(wanted) & Counter(given)).total(), wanted, given)


def plain_chinese(text: str) -> str:
    """CMRC 2018's normal form: in small letters, without punctuation; white space inside stays."""
    return text.lower().strip().translate(CMRC_PUNCTUATION)


def chinese_f1(gold: str, predicted: str) -> float:
    """Of the longest run of Chinese characters and Latin words that both have."""
    wanted, given = WORD.findall(plain_chinese(gold)), WORD.findall(plain_chinese(predicted))
    return _f1(longest_common(wanted, given), wanted, given)


def longest_common(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest run that stands in both; as fast as there are few words that both have."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(right):
        places.setdefault(word, []).append(place)
    longest, runs = 0, {}  # by the place in `right` where they end, those that end with the word before
    for word in left:
        runs = {place: runs.get(place - 1, 0) + 1 for place in places.get(word, ())}
        longest = max(longest, *runs.values(), 0)
    return longest


def _f1(common: int, wanted: Sequence[str], given: Sequence[str]) -> float:
    if not wanted or not given:
        return float(not wanted and not given)
    return 2 * common / (len(wanted) + len(given))


def _means(scores: np.ndarray) -> dict[str, Any]:
    exact, f1 = scores.mean(0).tolist()
    return {"exact_match": exact, "f1": f1, "questions": len(scores)}
