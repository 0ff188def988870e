"""How English words change: articles, plurals, tenses, for the words of the small world."""

from __future__ import annotations


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


def past(verb: str) -> str:
    if verb in PASTS:
        return PASTS[verb]
    if verb in DOUBLED:
        return verb + verb[-1] + "ed"
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "ed"


def participle(verb: str) -> str:
    return PARTICIPLES.get(verb) or past(verb)


def ing(verb: str) -> str:
    if verb in DOUBLED:
        return verb + verb[-1] + "ing"
    return verb[:-1] + "ing" if verb.endswith("e") and not verb.endswith("ee") else verb + "ing"
