"""The books: they balance or they raise, survive JSON, and add up when merged."""

import pytest

from forebear.text.ledger import EXAMPLES, Ledger, LedgerError


def filled() -> Ledger:
    ledger = Ledger()
    ledger.stage("read").take(documents=3, characters=30)
    ledger.stage("read").give(documents=2, characters=20)
    ledger.drop("read", "empty", file="a.txt", line=4, documents=1, characters=9)
    ledger.stage("sentences").take(documents=2, characters=20)
    ledger.stage("sentences").give(documents=2, characters=20, sentences=5)
    return ledger


def test_a_lost_character_is_noticed():
    ledger = filled()
    with pytest.raises(LedgerError, match="read lost 1 of 30 characters"):
        ledger.check()
    ledger.structure_count("line ends", 0, 0)
    ledger.stage("read").give(characters=1)
    with pytest.raises(LedgerError, match="read gave 21 characters, sentences took 20"):
        ledger.check()
    ledger.stage("sentences").take(characters=1)
    ledger.stage("sentences").give(characters=1)
    ledger.check()


def test_json_and_merge():
    ledger = filled()
    ledger.mend("a.txt", 7, 2, "replaced")
    ledger.set_aside("b.png", "not text")
    again = Ledger.from_json(ledger.to_json())
    assert again.to_json() == ledger.to_json()
    again.merge(ledger)
    assert again.stages["read"].taken["documents"] == 6
    assert again.drops["empty"].count == 2
    assert again.mended["replaced"].count == 4  # bytes


def test_counts_are_exact_and_examples_bounded():
    seen = []
    ledger = Ledger(on_drop=seen.append)
    for line in range(1000):
        ledger.drop("read", "empty", file="a", line=line, documents=1)
    assert ledger.drops["empty"].count == len(seen) == 1000
    assert len(ledger.drops["empty"].examples) == EXAMPLES
    assert ledger.stages["read"].dropped["empty"]["documents"] == 1000
