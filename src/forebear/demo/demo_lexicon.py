"""The words of the demo's world: random choices with known probabilities, English inflection, lexicons."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import accumulate, product
from math import log2
from random import Random
from types import MappingProxyType

from forebear.errors import ForebearError

# Lexicons that are one group of another: name -> (lexicon, group).
GROUP_LEXICONS = {
    "outside": ("place", "out"), "inside": ("place", "in"), "company": ("organisation", "company"),
    "paper": ("organisation", "paper"), "school": ("organisation", "school"), "fortune": ("luck", "good"),
    "misfortune": ("luck", "bad"), "calm": ("doing", "calm"), "busy": ("doing", "busy"), "goodtrait": ("trait", "good"),
    "badtrait": ("trait", "bad"),
}  # fmt: skip
# Types of lexicons -> number of cells of a row; a place may have a third.
NUM_CELLS = {
    "words": 2, "adjectives": 2, "nouns": 3, "actions": 2, "names LOC": 2, "names ORG": 2, "places": 2, "dishes": 2,
    "colors": 2, "weather": 4,
}  # fmt: skip
NAME_PARTS = "parts"  # the type of sections that hold parts of the names of people
SEXES = {  # forms of a person other than the name, by sex
    "m": {
        "en.he": "he", "en.him": "him", "en.his": "his", "en.self": "himself", "zh.he": "他",
        "en.man": "man", "zh.man": "小伙子",
    },
    "f": {
        "en.he": "she", "en.him": "her", "en.his": "her", "en.self": "herself", "zh.he": "她",
        "en.man": "woman", "zh.man": "姑娘",
    },
}  # fmt: skip
PERSON_NAME_FORMS = frozenset({"", "given", "mr"})
TEMPERATURES = {"warm": range(22, 39), "mild": range(9, 24), "cold": range(-12, 5)}  # degrees Celsius
ENGLISH_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
CHINESE_DIGITS = "零一二三四五六七八九十"
_HEADING = re.compile(r"\[(?P<name>\w+)\]\s+(?P<type>\w+(?: \w+)?)")


# --- Random choices ---


class ChoiceProbabilities:
    """Fixed probabilities of several options, and the information of each in bits."""

    __slots__ = ("bits", "cumulative", "probabilities")

    def __init__(self, weights: Sequence[float]) -> None:
        total = sum(weights)
        self.probabilities = [weight / total for weight in weights]
        self.cumulative = [*accumulate(self.probabilities)][:-1]  # the last option absorbs the rounding error
        self.bits = [-log2(probability) for probability in self.probabilities]

    def bits_without(self, index: int, excluded: Collection[int]) -> float:
        """The information of an option in bits if the excluded options cannot be chosen."""
        if not excluded:
            return self.bits[index]
        return log2(1 - sum(self.probabilities[other] for other in excluded)) + self.bits[index]


class RandomSource:
    """The random choices behind one text; `bits` is the sum of −log2 p over them."""

    __slots__ = ("bits", "draw")

    def __init__(self, seed: str) -> None:
        self.draw = Random(seed).random
        self.bits = 0.0

    def choose(self, probabilities: ChoiceProbabilities) -> int:
        index = bisect_right(probabilities.cumulative, self.draw())
        self.bits += probabilities.bits[index]
        return index

    def choose_without(self, probabilities: ChoiceProbabilities, excluded: Collection[int]) -> int:
        """Choose among the options that are not excluded, with their relative probabilities."""
        while (index := bisect_right(probabilities.cumulative, self.draw())) in excluded:
            pass
        self.bits += probabilities.bits_without(index, excluded)
        return index


def zipf_weights(count: int, shift: float) -> list[float]:
    """Zipf weights, which decrease with rank like word frequencies; a larger shift makes the first more equal."""
    return [1 / (rank + shift) for rank in range(1, count + 1)]


# --- English inflection ---


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


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
# Verbs that double their last letter before an ending.
DOUBLED = frozenset("chat chop dig drop forget get hum knit quarrel run unwrap upset win wrap".split())


def with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" and not noun.startswith(("uni", "use")) else f"a {noun}"


def plural(noun: str) -> str:
    """The plural of a noun, or the third person of a verb: the spelling rules are the same."""
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


# --- Lexicons ---

LANGUAGES = ("en", "zh")


@dataclass(frozen=True, eq=False, slots=True)
class LexiconEntry:
    """A person, place or thing: its `forms` by "language.form" ("en.he", "zh."); grammar rules may depend on `kind`."""

    kind: str
    forms: dict[str, str]
    label: str = ""  # PER, LOC or ORG if it has a proper name
    name_forms: frozenset[str] = frozenset()  # the forms that are its proper name

    def form(self, language: str, name: str = "") -> str:
        return self.forms[f"{language}.{name}"]


@dataclass(frozen=True, eq=False)
class DemoLexicon:
    """Entries with their probabilities, the most frequent first."""

    name: str
    entries: Sequence[LexiconEntry]
    probabilities: ChoiceProbabilities
    indices: dict[int, int] = field(init=False)  # id of an entry -> its index

    def __post_init__(self) -> None:
        object.__setattr__(self, "indices", {id(entry): index for index, entry in enumerate(self.entries)})
        for language in LANGUAGES:
            # Two entries with one name would give a text two derivations, and `bits` would only be an upper bound.
            names = Counter(entry.form(language) for entry in self.entries)
            if doubled := [name for name, count in names.items() if count > 1]:
                raise ForebearError(f"lexicon {self.name!r} has {sorted(doubled)} twice in {language!r}")


def make_lexicon(name: str, entries: Sequence[LexiconEntry], weights: Sequence[float] | None = None) -> DemoLexicon:
    """A lexicon whose entries are weighted by rank, unless `weights` are given."""
    return DemoLexicon(name, entries, ChoiceProbabilities(weights or zipf_weights(len(entries), shift=3)))


# --- The format of data/lexicons.txt ---


@dataclass(frozen=True, slots=True)
class LexiconRow:
    """One line of a lexicon file: its cells and its group."""

    cells: tuple[str, ...]
    group: str
    file: str
    line: int

    def columns(self, count: int) -> tuple[str, ...]:
        """The cells; raise ForebearError unless there are `count`."""
        if len(self.cells) != count:
            message = f"{count} cells separated by | are expected, found {len(self.cells)}"
            raise ForebearError(message, file=self.file, line=self.line)
        return self.cells


@dataclass(frozen=True, slots=True)
class LexiconSection:
    """One lexicon of a file: `[name] type` and the rows below it."""

    name: str
    type: str
    rows: list[LexiconRow]
    file: str
    line: int


def parse_lexicon_file(text: str, file: str) -> dict[str, LexiconSection]:
    """The sections of a lexicon file by name; data/lexicons.txt documents the format."""
    sections: dict[str, LexiconSection] = {}
    section: LexiconSection | None = None
    group = ""
    for line, content in enumerate(text.splitlines(), 1):
        content = content.strip()
        if not content or content.startswith("#"):
            continue
        if heading := _HEADING.fullmatch(content):
            name, group = heading["name"], ""
            if name in sections:
                raise ForebearError(f"a second lexicon is named {name!r}", file=file, line=line)
            section = sections[name] = LexiconSection(name, heading["type"], [], file, line)
        elif section is None:
            raise ForebearError("the first entry is not below a heading such as [town] names LOC", file=file, line=line)
        elif content.endswith(":") and "|" not in content:
            group = content[:-1]
        else:
            cells = tuple(cell.strip() for cell in content.split("|"))
            section.rows.append(LexiconRow(cells, group, file, line))
    return sections


def section_lexicon(section: LexiconSection) -> DemoLexicon:
    """The lexicon of a section, by its type."""
    if section.type not in NUM_CELLS:
        known = ", ".join(NUM_CELLS)
        message = f"no type of lexicon is called {section.type!r}; there are: {known}"
        raise ForebearError(message, file=section.file, line=section.line)
    label = section.type.removeprefix("names ") if section.type in ("names LOC", "names ORG") else ""
    name_forms = frozenset({""}) if label else frozenset()
    entries = [LexiconEntry(row.group, _forms(section.type, row), label, name_forms) for row in section.rows]
    return make_lexicon(section.name, entries)


def _forms(section_type: str, row: LexiconRow) -> dict[str, str]:
    """The forms of an entry by "language.form"."""
    has_preposition = section_type == "places" and len(row.cells) == 3
    english, chinese, *others = row.cells if has_preposition else row.columns(NUM_CELLS[section_type])
    forms = {"en.": english, "zh.": chinese}
    match section_type:
        case "adjectives":
            return forms | {"en.a": with_article(english)}
        case "colors":
            return forms | {"en.a": with_article(english), "zh.": f"{chinese}色"}
        case "nouns":
            (measure,) = others
            singular, _, irregular = english.partition("/")
            forms |= {"en.": singular, "en.a": with_article(singular), "en.the": f"the {singular}"}
            forms |= {"en.s": irregular or plural(singular)}
            return forms | {"zh.a": f"一{measure}{chinese}", "zh.this": f"这{measure}{chinese}", "zh.m": measure}
        case "actions":
            verb, space, rest = english.partition(" ")
            chinese_verb, _, chinese_rest = chinese.partition(" ")
            return forms | {
                "en.past": past_tense(verb) + space + rest,
                "en.ing": present_participle(verb) + space + rest,
                "en.s": plural(verb) + space + rest,
                "en.done": past_participle(verb) + space + rest,
                "zh.": chinese_verb + chinese_rest,
                "zh.past": f"{chinese_verb}了{chinese_rest}",
                "zh.ing": f"在{chinese_verb}{chinese_rest}",
                "zh.once": f"{chinese_verb}过{chinese_rest}",
            }
        case "places":
            _, article, noun = english.partition("the ")
            if not article:
                raise ForebearError(f"{english!r} has no article", file=row.file, line=row.line)
            chinese_at = "在" + "".join(row.cells[1:])
            return forms | {"en.": f"the {noun}", "en.at": english, "en.to": f"to the {noun}", "zh.at": chinese_at}
        case "dishes":
            is_plural = english.endswith("s")
            return forms | {"en.is": "are" if is_plural else "is", "en.was": "were" if is_plural else "was"}
        case "weather":
            sky, (chinese, chinese_sky) = chinese, others
            return {"en.": english, "en.sky": sky, "zh.": chinese, "zh.sky": chinese_sky}
    return forms


# --- The lexicons of the demo's world ---


@cache
def world_lexicons() -> MappingProxyType[str, DemoLexicon]:
    """All lexicons by name: those of data/lexicons.txt, groups of some of them, people and numbers."""
    text, file = read_demo_data("lexicons.txt")
    sections = parse_lexicon_file(text, file)
    lexicons = [section_lexicon(section) for section in sections.values() if section.type != NAME_PARTS]
    by_name = {lexicon.name: lexicon for lexicon in lexicons}
    lexicons += [
        make_lexicon(name, [entry for entry in by_name[lexicon_name].entries if entry.kind == group])
        for name, (lexicon_name, group) in GROUP_LEXICONS.items()
    ]
    for name, temperatures in TEMPERATURES.items():
        entries = [_temperature(name, degrees) for degrees in temperatures]
        lexicons.append(make_lexicon(name, entries, [1.0] * len(entries)))
    lexicons += [_people(sections), _friends(sections), *_numbers()]
    return MappingProxyType({lexicon.name: lexicon for lexicon in lexicons})


def read_demo_data(name: str) -> tuple[str, str]:
    """The text of a file in forebear/demo/data, and its path for messages."""
    path = files("forebear.demo") / "data" / name
    return path.read_text(encoding="utf-8"), str(path)


def _people(sections: Mapping[str, LexiconSection]) -> DemoLexicon:
    """Every surname with every given name; the most frequent people have frequent surnames and given names."""
    entries, weights = [], []
    for tradition, sex in product(("chinese", "english"), SEXES):
        is_chinese = tradition == "chinese"
        surnames = sections[f"{tradition}_surname"].rows
        given_names = [row for row in sections[f"{tradition}_given_name"].rows if row.group == sex]
        weighted_surnames = zip(surnames, zipf_weights(len(surnames), 4), strict=True)
        weighted_given_names = zip(given_names, zipf_weights(len(given_names), 4), strict=True)
        for (surname, surname_weight), (given, given_weight) in product(weighted_surnames, weighted_given_names):
            if surname.columns(2)[0] != given.columns(2)[0]:  # Li Li would look like a mistake
                entries.append(_person(surname.cells, given.cells, sex, is_chinese=is_chinese))
                weights.append(surname_weight * given_weight * (1.0 if is_chinese else 1.2))
    return make_lexicon("person", entries, weights)


def _friends(sections: Mapping[str, LexiconSection]) -> DemoLexicon:
    """People who call one another by their given names and whose surnames are unknown."""
    rows = [
        row
        for tradition, sex in product(("english", "chinese"), SEXES)
        for row in sections[f"{tradition}_given_name"].rows
        # a single Chinese syllable is not a form of address
        if row.group == sex and (tradition == "english" or len(row.columns(2)[1]) > 1)
    ]
    rows.sort(key=lambda row: len(row.cells[0]))  # short names are the most frequent
    forms = [{"en.": row.cells[0], "zh.": row.cells[1], **SEXES[row.group]} for row in rows]
    entries = [LexiconEntry(row.group, form, "PER", PERSON_NAME_FORMS) for row, form in zip(rows, forms, strict=True)]
    return make_lexicon("friend", entries)


def _person(surname: Sequence[str], given: Sequence[str], sex: str, *, is_chinese: bool) -> LexiconEntry:
    if is_chinese:
        forms = {"en.": f"{surname[0]} {given[0]}", "zh.": surname[1] + given[1]}
        # A given name of one syllable is not a form of address: 李明 stays 李明, but 王建国 is 建国 to friends.
        forms["zh.given"] = given[1] if len(given[1]) > 1 else surname[1] + given[1]
    else:
        forms = {"en.": f"{given[0]} {surname[0]}", "zh.": f"{given[1]}·{surname[1]}", "zh.given": given[1]}
    title, chinese_title = ("Mr", "先生") if sex == "m" else ("Ms", "女士")
    forms |= {"en.mr": f"{title} {surname[0]}", "zh.mr": surname[1] + chinese_title, **SEXES[sex]}
    forms["en.given"] = given[0] if len(given[0]) > 2 or not is_chinese else forms["en."]
    return LexiconEntry(sex, forms, "PER", PERSON_NAME_FORMS)


def _temperature(kind: str, degrees: int) -> LexiconEntry:
    """A temperature; its forms `less5` to `less9` are 5 to 9 degrees lower."""
    forms = {}
    for name, value in (("", degrees), *((f"less{decrease}", degrees - decrease) for decrease in (5, 6, 7, 8, 9))):
        forms[f"en.{name}"] = f"{value} degrees" if value >= 0 else f"minus {-value} degrees"
        forms[f"zh.{name}"] = f" {value} 摄氏度" if value >= 0 else f"零下 {-value} 摄氏度"
    return LexiconEntry(kind, forms)


def _numbers() -> list[DemoLexicon]:
    def number_entry(number: int, chinese: str) -> LexiconEntry:
        english = ENGLISH_NUMBERS[number] if number < len(ENGLISH_NUMBERS) else str(number)
        return LexiconEntry("", {"en.": english, "en.digits": str(number), "zh.": chinese, "zh.digits": str(number)})

    def digits_entry(number: int) -> LexiconEntry:
        return LexiconEntry("", {"en.": str(number), "zh.": str(number)})

    def counts(numbers: range) -> list[LexiconEntry]:
        return [number_entry(number, _chinese_count(number)) for number in numbers]

    large_counts, years = counts(range(11, 80)), [digits_entry(year) for year in range(1931, 2000)]
    return [
        make_lexicon("few", counts(range(2, 10))),
        make_lexicon("many", large_counts, [1.0] * len(large_counts)),
        make_lexicon("year", years, [1.0] * len(years)),
        make_lexicon("hour", counts(range(1, 13))),
        make_lexicon("price", [digits_entry(price) for price in (*range(8, 60, 2), *range(60, 200, 10))]),
        make_lexicon("goals", [number_entry(goal, _chinese_number(goal)) for goal in range(2, 7)]),
    ]


def _chinese_number(number: int) -> str:
    """A number up to 99 in Chinese characters."""
    tens, ones = divmod(number, 10)
    prefix = ("" if tens == 1 else CHINESE_DIGITS[tens]) + "十" if tens else ""
    return prefix + (CHINESE_DIGITS[ones] if ones or not tens else "")


def _chinese_count(number: int) -> str:
    """A number before a measure word, where 2 is 两."""
    return "两" if number == 2 else _chinese_number(number)
