"""The things of the small world, each with its name in every form that a sentence of either language may need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from forebear.demo.chooser import Odds, zipf
from forebear.demo.inflection import ing, participle, past, plural, with_article
from forebear.errors import ForebearError

LANGUAGES = ("en", "zh")


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """One thing: `forms` by "language.form" ("en.he", "zh."); `kind` decides what may be said about it."""

    kind: str
    forms: dict[str, str]
    label: str = ""  # PER, LOC or ORG, if it has a proper name ...
    named_by: frozenset[str] = frozenset()  # ... and the forms that spell it

    def form(self, language: str, name: str = "") -> str:
        return self.forms[f"{language}.{name}"]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Entries to choose from, common ones first, and how likely each is."""

    name: str
    entries: Sequence[Entry]
    odds: Odds
    places: dict[int, int] = field(init=False)  # id of an entry -> its index

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {id(entry): index for index, entry in enumerate(self.entries)})
        for language in LANGUAGES:
            # Two things of one name would make a text with two origins, and its bits no longer its information.
            names = [entry.form(language) for entry in self.entries]
            if doubled := {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else None:
                raise ForebearError(f"lexicon {self.name!r} has {sorted(doubled)} twice in {language!r}")


def lexicon(name: str, entries: Sequence[Entry], weights: Sequence[float] | None = None) -> Lexicon:
    return Lexicon(name, entries, Odds(weights or zipf(len(entries), shift=3)))


def rows(table: str) -> list[list[str]]:
    """A table as people write it: a row a line, cells parted by |."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines() if line.strip()]


def grouped(table: str) -> list[tuple[str, list[str]]]:
    """Rows under headings of the form `kind:`, each with its heading."""
    found, kind = [], ""
    for row in rows(table):
        if len(row) == 1 and row[0].endswith(":"):
            kind = row[0][:-1]
        else:
            found.append((kind, row))
    return found


def plain(name: str, table: str) -> Lexicon:
    """Words that never change: English | Chinese, under headings that say their kind."""
    return lexicon(name, [Entry(kind, {"en.": row[0], "zh.": row[1]}) for kind, row in grouped(table)])


def nouns(name: str, table: str) -> Lexicon:
    """Things one can count: singular (/plural) | Chinese | its measure word."""
    entries = []
    for kind, (english, chinese, measure) in grouped(table):
        singular, _, several = english.partition("/")
        several = several or plural(singular)
        forms = {"en.": singular, "en.a": with_article(singular), "en.the": f"the {singular}", "en.s": several}
        forms |= {"zh.": chinese, "zh.a": f"一{measure}{chinese}", "zh.this": f"这{measure}{chinese}", "zh.m": measure}
        entries.append(Entry(kind, forms))
    return lexicon(name, entries)


def actions(name: str, table: str) -> Lexicon:
    """Things people do: English phrase beginning with its verb | Chinese verb, space, the rest."""
    entries = []
    for kind, (english, chinese) in grouped(table):
        verb, space, rest = english.partition(" ")
        did, what = chinese.split(" ") if " " in chinese else (chinese, "")
        forms = {"en.": english, "en.past": past(verb) + space + rest, "en.ing": ing(verb) + space + rest}
        forms |= {"en.s": plural(verb) + space + rest, "en.done": participle(verb) + space + rest}
        forms |= {
            "zh.": did + what,
            "zh.past": f"{did}了{what}",
            "zh.ing": f"在{did}{what}",
            "zh.once": f"{did}过{what}",
        }
        entries.append(Entry(kind, forms))
    return lexicon(name, entries)
