"""The things of the small world, each with its name in every form that a sentence of either language may need."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import log2
from random import Random

from forebear.errors import ForebearError

# Takes every decision behind a generated text and keeps account of how much it told, in bits.


class ChoiceProbabilities:
    """Fixed probabilities of a few options: what is drawn from, and the bits each option is worth."""

    __slots__ = ("bits", "shares", "upto")

    def __init__(self, weights: Sequence[float]) -> None:
        whole = sum(weights)
        self.shares = [weight / whole for weight in weights]
        self.upto = [*accumulate(self.shares)][:-1]  # the last option takes what rounding leaves
        self.bits = [-log2(share) for share in self.shares]

    def bits_without(self, index: int, taken: Collection[int]) -> float:
        """What an option is worth where those taken are known not to come."""
        if not taken:
            return self.bits[index]
        return log2(1 - sum(self.shares[other] for other in taken)) + self.bits[index]


class RandomSource:
    """One text's randomness: the sum of −log2 p over its decisions is `bits`."""

    __slots__ = ("bits", "draw")

    def __init__(self, seed: str) -> None:
        self.draw = Random(seed).random
        self.bits = 0.0

    def choose(self, odds: ChoiceProbabilities) -> int:
        index = bisect_right(odds.upto, self.draw())
        self.bits += odds.bits[index]
        return index

    def choose_without(self, odds: ChoiceProbabilities, taken: Collection[int]) -> int:
        """One of the options that are not taken, in their old proportions."""
        while (index := bisect_right(odds.upto, self.draw())) in taken:
            pass
        self.bits += odds.bits_without(index, taken)
        return index


def zipf_weights(count: int, shift: float) -> list[float]:
    """Weights that fall with rank as words do; a larger shift makes the first ranks more alike."""
    return [1 / (rank + shift) for rank in range(1, count + 1)]


# How English words change: articles, plurals, tenses, for the words of the small world.


def _pairs(text: str) -> dict[str, str]:
    pairs = (pair.partition(":") for pair in text.split())
    return {word: changed for word, _, changed in pairs}


PASTS = _pairs(
    "break:broke bring:brought build:built burn:burnt buy:bought catch:caught choose:chose dig:dug draw:drew "
    "drink:drank drive:drove eat:ate feed:fed find:found forget:forgot get:got go:went hide:hid keep:kept learn:learnt "
    "lose:lost make:made meet:met overtake:overtook read:read run:ran see:saw sell:sold sing:sang steal:stole "
    "sweep:swept take:took teach:taught tear:tore upset:upset win:won write:wrote"
)
PARTICIPLES = _pairs(
    "break:broken choose:chosen draw:drawn drink:drunk drive:driven eat:eaten forget:forgotten go:gone hide:hidden "
    "overtake:overtaken run:run see:seen sing:sung steal:stolen take:taken tear:torn write:written"
)
DOUBLED = frozenset(
    "chat chop dig drop forget get hum knit quarrel run unwrap upset win wrap".split()
)  # the last letter


def with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" and not noun.startswith(("uni", "use")) else f"a {noun}"


def plural(noun: str) -> str:
    """Also the third person of a verb: the spelling rules are the same."""
    if noun.endswith(("s", "x", "z", "ch", "sh")) or noun in ("go", "potato", "tomato"):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


def past_tense(verb: str) -> str:
    if verb in PASTS:
        return PASTS[verb]
    if verb in DOUBLED:
        return verb + verb[-1] + "ed"
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "ed"


def past_participle(verb: str) -> str:
    return PARTICIPLES.get(verb) or past_tense(verb)


def present_participle(verb: str) -> str:
    if verb in DOUBLED:
        return verb + verb[-1] + "ing"
    return verb[:-1] + "ing" if verb.endswith("e") and not verb.endswith("ee") else verb + "ing"


LANGUAGES = ("en", "zh")


@dataclass(frozen=True, eq=False, slots=True)
class LexiconEntry:
    """One thing: `forms` by "language.form" ("en.he", "zh."); `kind` decides what may be said about it."""

    kind: str
    forms: dict[str, str]
    label: str = ""  # PER, LOC or ORG, if it has a proper name ...
    named_by: frozenset[str] = frozenset()  # ... and the forms that spell it

    def form(self, language: str, name: str = "") -> str:
        return self.forms[f"{language}.{name}"]


@dataclass(frozen=True, eq=False)
class DemoLexicon:
    """Entries to choose from, common ones first, and how likely each is."""

    name: str
    entries: Sequence[LexiconEntry]
    odds: ChoiceProbabilities
    places: dict[int, int] = field(init=False)  # id of an entry -> its index

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {id(entry): index for index, entry in enumerate(self.entries)})
        for language in LANGUAGES:
            # Two things of one name would make a text with two origins, and its bits no longer its information.
            names = [entry.form(language) for entry in self.entries]
            if doubled := {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else None:
                raise ForebearError(f"lexicon {self.name!r} has {sorted(doubled)} twice in {language!r}")


def make_lexicon(name: str, entries: Sequence[LexiconEntry], weights: Sequence[float] | None = None) -> DemoLexicon:
    return DemoLexicon(name, entries, ChoiceProbabilities(weights or zipf_weights(len(entries), shift=3)))


def table_rows(table: str) -> list[list[str]]:
    """A table as people write it: a row a line, cells parted by |."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines() if line.strip()]


def grouped_rows(table: str) -> list[tuple[str, list[str]]]:
    """Rows under headings of the form `kind:`, each with its heading."""
    found, kind = [], ""
    for row in table_rows(table):
        if len(row) == 1 and row[0].endswith(":"):
            kind = row[0][:-1]
        else:
            found.append((kind, row))
    return found


def plain_lexicon(name: str, table: str) -> DemoLexicon:
    """Words that never change: English | Chinese, under headings that say their kind."""
    return make_lexicon(name, [LexiconEntry(kind, {"en.": row[0], "zh.": row[1]}) for kind, row in grouped_rows(table)])


def noun_lexicon(name: str, table: str) -> DemoLexicon:
    """Things one can count: singular (/plural) | Chinese | its measure word."""
    entries = []
    for kind, (english, chinese, measure) in grouped_rows(table):
        singular, _, several = english.partition("/")
        several = several or plural(singular)
        forms = {"en.": singular, "en.a": with_article(singular), "en.the": f"the {singular}", "en.s": several}
        forms |= {"zh.": chinese, "zh.a": f"一{measure}{chinese}", "zh.this": f"这{measure}{chinese}", "zh.m": measure}
        entries.append(LexiconEntry(kind, forms))
    return make_lexicon(name, entries)


def action_lexicon(name: str, table: str) -> DemoLexicon:
    """Things people do: English phrase beginning with its verb | Chinese verb, space, the rest."""
    entries = []
    for kind, (english, chinese) in grouped_rows(table):
        verb, space, rest = english.partition(" ")
        did, what = chinese.split(" ") if " " in chinese else (chinese, "")
        forms = {
            "en.": english,
            "en.past": past_tense(verb) + space + rest,
            "en.ing": present_participle(verb) + space + rest,
        }
        forms |= {"en.s": plural(verb) + space + rest, "en.done": past_participle(verb) + space + rest}
        forms |= {
            "zh.": did + what,
            "zh.past": f"{did}了{what}",
            "zh.ing": f"在{did}{what}",
            "zh.once": f"{did}过{what}",
        }
        entries.append(LexiconEntry(kind, forms))
    return make_lexicon(name, entries)
