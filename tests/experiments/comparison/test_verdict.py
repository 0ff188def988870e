"""Which wins at which cost: worked by hand."""

from dataclasses import replace

from comparisons import BOTH, COUNTS, NETWORK, STICKS, comparison, row, trial

from forebear.experiments.comparison.results import TextTrial
from forebear.experiments.comparison.verdict import (
    lead_intervals,
    pareto_front_over_time,
    text_conclusions,
    text_headline,
)
from forebear.settings.units import format_bytes, format_count, format_duration


def test_reigns_by_hand():
    # The network is at 6.0 and 3.0 bits when counting has long reached 2.5; it passes it with 2.4 after 40 seconds.
    told = [
        (reign.row.name, reign.start, reign.start_bits, reign.end_bits) for reign in lead_intervals([NETWORK, COUNTS])
    ]
    assert told == [("counts", 2.0, 2.5, 2.5), ("network", 40, 2.4, 2.0)]


def test_who_leads_above_the_worst_result_is_nobodys_business():
    assert [seconds for seconds, _, _ in pareto_front_over_time([NETWORK, COUNTS])] == [2.0, 40, 80, 100.0]


def test_a_hair_is_no_victory():
    assert [reign.row.name for reign in lead_intervals([COUNTS, row("later", 2000, trial(3.0, 2.4999))])] == ["counts"]


def test_the_words():
    first, price, scale, limit = text_conclusions(BOTH)
    assert first == "Up to 40 s of learning, Counts is best (2.500 bits a byte), from 40 s on Network (2.000)."
    assert price == "Network needs 20% fewer bits than Counts, for 50 times the seconds."
    assert scale == "For scale: xz 2.300, byte frequencies 4.600."
    assert "1.750" in limit
    assert "0.250 above" in limit
    assert text_headline(BOTH) == "Network describes this text best, in 2.000 bits a byte"


def test_the_words_where_one_is_best_at_every_cost():
    assert text_conclusions(comparison(COUNTS))[0].startswith("Counts: it gives its first answer after")
    assert "best at every cost" in text_conclusions(comparison(COUNTS, row("worse", 2000, trial(9.0, 3.125))))[0]
    for seconds, price in ((9.0, "and learns 4.5 times as fast"), (2.1, "for about the same seconds")):
        both = comparison(COUNTS, row("worse", 2000, trial(seconds, 3.125)))
        assert text_conclusions(both)[1] == f"Counts needs 20% fewer bits than Worse, {price}."


def test_what_a_tokenizer_forgets_is_said():
    forgetful = row("counts", 1948, replace(trial(2.0, 2.5), tokenizer="words", forgotten=("white space", "case")))
    told = text_conclusions(comparison(forgetful, NETWORK))
    assert told[1] == "Counts does not pay for white space and case: its tokenizer (words) keeps none."
    assert not any("does not pay" in text for text in text_conclusions(BOTH))


def test_who_pays_for_more_ends_is_said():
    states = row("states", 1989, trial(2.0, 2.5, unit="sentence", ends=1200))
    counts = row("counts", 1948, trial(2.0, 2.5, ends=40))
    (told,) = [text for text in text_conclusions(comparison(states, counts)) if "pays for" in text]
    assert told == (
        "States takes each sentence for a text of its own, and pays for 1,200 ends where others pay for 40:"
        " perplexities of the two kinds cannot be compared."
    )
    alike = row("counts", 1948, trial(2.0, 2.5, unit="sentence", ends=1200))
    assert not any("pays for" in text for text in text_conclusions(comparison(states, alike)))


def test_the_words_where_nothing_came_out():
    none = comparison(row("x", 2000, TextTrial(0, error="no")), yardsticks=STICKS)
    assert "Nothing to compare yet" in text_conclusions(none)[0]
    assert text_headline(none) == "No milestone has come to a result"


def test_figures_as_people_say_them():
    assert [format_duration(it) for it in (0.0312, 2.04, 9.96, 60, 99.6, 120, 5939, 7200)] == [
        *("0.031 s", "2 s", "10 s", "60 s", "2 min", "2 min", "99 min", "2.0 h"),
    ]
    assert [format_count(it) for it in (7, 999, 1000, 12_345, 124_439_808, 1.5e9)] == [
        "7",
        "999",
        "1 k",
        "12.3 k",
        "124 M",
        "1.5 G",
    ]
    assert [format_bytes(it) for it in (5, 1500, 2_000_000_000)] == ["5 bytes", "1.5 kB", "2 GB"]
