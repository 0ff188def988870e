"""The books: they balance or they raise, survive JSON, and add up when merged."""

import pytest

from forebear.data.io.ledger import MAX_EXAMPLES, Ledger, LedgerError


def filled() -> Ledger:
    ledger = Ledger()
    ledger.stage("read").add_in(documents=3, characters=30)
    ledger.stage("read").add_out(documents=2, characters=20)
    ledger.drop("read", "empty", file="a.txt", line=4, documents=1, characters=9)
    ledger.stage("sentences").add_in(documents=2, characters=20)
    ledger.stage("sentences").add_out(documents=2, characters=20, sentences=5)
    return ledger


def test_a_lost_character_is_noticed():
    ledger = filled()
    with pytest.raises(LedgerError, match="read lost 1 of 30 characters"):
        ledger.verify()
    ledger.add_structure_count("line ends", 0, 0)
    ledger.stage("read").add_out(characters=1)
    with pytest.raises(LedgerError, match="read gave 21 characters, sentences took 20"):
        ledger.verify()
    ledger.stage("sentences").add_in(characters=1)
    ledger.stage("sentences").add_out(characters=1)
    ledger.verify()


def test_json_and_merge():
    ledger = filled()
    ledger.repair("a.txt", 7, 2, "replaced")
    ledger.quarantine("b.png", "not text")
    again = Ledger.from_dict(ledger.to_dict())
    assert again.to_dict() == ledger.to_dict()
    again.merge(ledger)
    assert again.stages["read"].inputs["documents"] == 6
    assert again.drops["empty"].count == 2
    assert again.repaired["replaced"].count == 4  # bytes


def test_counts_are_exact_and_examples_bounded():
    seen = []
    ledger = Ledger(on_drop=seen.append)
    for line in range(1000):
        ledger.drop("read", "empty", file="a", line=line, documents=1)
    assert ledger.drops["empty"].count == len(seen) == 1000
    assert len(ledger.drops["empty"].examples) == MAX_EXAMPLES
    assert ledger.stages["read"].dropped["empty"]["documents"] == 1000
