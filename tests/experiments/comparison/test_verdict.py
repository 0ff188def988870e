"""Conclusions of a text comparison, which model is best at which cost, against worked examples."""

from dataclasses import replace

from text_comparisons import BASELINES, COUNTS, NETWORK, TWO_MODELS, comparison, row, trial

from forebear.experiments.comparison.results import TextTrial
from forebear.experiments.comparison.verdict import (
    lead_intervals,
    pareto_front_over_time,
    text_conclusions,
    text_headline,
)
from forebear.settings.units import format_bytes, format_count, format_duration


def test_lead_intervals_match_worked_example():
    # The network is at 6.0 and 3.0 bits long after counting has reached 2.5; it overtakes with 2.4 after 40 seconds.
    intervals = [
        (interval.row.name, interval.start, interval.start_bits, interval.end_bits)
        for interval in lead_intervals([NETWORK, COUNTS])
    ]
    assert intervals == [("counts", 2.0, 2.5, 2.5), ("network", 40, 2.4, 2.0)]


def test_time_frontier_ignores_leads_above_the_worst_final_result():
    assert [seconds for seconds, _, _ in pareto_front_over_time([NETWORK, COUNTS])] == [2.0, 40, 80, 100.0]


def test_tiny_improvement_does_not_take_the_lead():
    assert [interval.row.name for interval in lead_intervals([COUNTS, row("later", 2000, trial(3.0, 2.4999))])] == [
        "counts"
    ]


def test_text_conclusions_match_worked_example():
    first, cost, scale, limit = text_conclusions(TWO_MODELS)
    assert first == "Up to 40 s of learning, Counts is best (2.500 bits a byte), from 40 s on Network (2.000)."
    assert cost == "Network needs 20% fewer bits than Counts, for 50 times the seconds."
    assert scale == "For scale: xz 2.300, byte frequencies 4.600."
    assert "1.750" in limit
    assert "0.250 above" in limit
    assert text_headline(TWO_MODELS) == "Network describes this text best, in 2.000 bits a byte"


def test_text_conclusions_where_one_model_is_best_at_every_cost():
    assert text_conclusions(comparison(COUNTS))[0].startswith("Counts: it gives its first answer after")
    assert "best at every cost" in text_conclusions(comparison(COUNTS, row("worse", 2000, trial(9.0, 3.125))))[0]
    for seconds, cost in ((9.0, "and learns 4.5 times as fast"), (2.1, "for about the same seconds")):
        two_rows = comparison(COUNTS, row("worse", 2000, trial(seconds, 3.125)))
        assert text_conclusions(two_rows)[1] == f"Counts needs 20% fewer bits than Worse, {cost}."


def test_text_conclusions_name_text_that_a_tokenizer_drops():
    lossy = row("counts", 1948, replace(trial(2.0, 2.5), tokenizer="words", forgotten=("white space", "case")))
    conclusions = text_conclusions(comparison(lossy, NETWORK))
    assert conclusions[1] == "Counts does not pay for white space and case: its tokenizer (words) keeps none."
    assert not any("does not pay" in text for text in text_conclusions(TWO_MODELS))


def test_text_conclusions_name_a_different_number_of_text_ends():
    states = row("states", 1989, trial(2.0, 2.5, unit="sentence", ends=1200))
    counts = row("counts", 1948, trial(2.0, 2.5, ends=40))
    (conclusion,) = [text for text in text_conclusions(comparison(states, counts)) if "pays for" in text]
    assert conclusion == (
        "States takes each sentence for a text of its own, and pays for 1,200 ends where others pay for 40:"
        " perplexities of the two kinds cannot be compared."
    )
    same_unit = row("counts", 1948, trial(2.0, 2.5, unit="sentence", ends=1200))
    assert not any("pays for" in text for text in text_conclusions(comparison(states, same_unit)))


def test_text_conclusions_without_results():
    failed = comparison(row("x", 2000, TextTrial(0, error="no")), yardsticks=BASELINES)
    assert "Nothing to compare yet" in text_conclusions(failed)[0]
    assert text_headline(failed) == "No milestone has come to a result"


def test_durations_counts_and_bytes_are_formatted_for_people():
    assert [format_duration(value) for value in (0.0312, 2.04, 9.96, 60, 99.6, 120, 5939, 7200)] == [
        *("0.031 s", "2 s", "10 s", "60 s", "2 min", "2 min", "99 min", "2.0 h"),
    ]
    assert [format_count(value) for value in (7, 999, 1000, 12_345, 124_439_808, 1.5e9)] == [
        "7",
        "999",
        "1 k",
        "12.3 k",
        "124 M",
        "1.5 G",
    ]
    assert [format_bytes(value) for value in (5, 1500, 2_000_000_000)] == ["5 bytes", "1.5 kB", "2 GB"]
