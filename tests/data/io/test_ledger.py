"""The ledger: it balances or raises an error, survives JSON, and adds up when merged."""

import pytest

from forebear.data.io.text_ledger import MAX_EXAMPLES, Ledger, LedgerError


def sample_ledger() -> Ledger:
    ledger = Ledger()
    ledger.stage("read").add_in(documents=3, characters=30)
    ledger.stage("read").add_out(documents=2, characters=20)
    ledger.drop("read", "empty", file="a.txt", line=4, documents=1, characters=9)
    ledger.stage("sentences").add_in(documents=2, characters=20)
    ledger.stage("sentences").add_out(documents=2, characters=20, sentences=5)
    return ledger


def test_lost_character_raises_an_error():
    ledger = sample_ledger()
    with pytest.raises(LedgerError, match="read lost 1 of 30 characters"):
        ledger.verify()
    ledger.record_markup_counts("line ends", 0, 0)
    ledger.stage("read").add_out(characters=1)
    with pytest.raises(LedgerError, match="read gave 21 characters, sentences took 20"):
        ledger.verify()
    ledger.stage("sentences").add_in(characters=1)
    ledger.stage("sentences").add_out(characters=1)
    ledger.verify()


def test_ledger_survives_json_and_adds_up_when_merged():
    ledger = sample_ledger()
    ledger.record_repair("a.txt", 7, 2, "replaced")
    ledger.record_skipped_file("b.png", "not text")
    restored = Ledger.from_dict(ledger.to_dict())
    assert restored.to_dict() == ledger.to_dict()
    restored.merge(ledger)
    assert restored.stages["read"].inputs["documents"] == 6
    assert restored.drops["empty"].count == 2
    assert restored.repaired["replaced"].count == 4  # bytes


def test_drop_counts_are_exact_and_examples_are_bounded():
    dropped = []
    ledger = Ledger(on_drop=dropped.append)
    for line in range(1000):
        ledger.drop("read", "empty", file="a", line=line, documents=1)
    assert ledger.drops["empty"].count == len(dropped) == 1000
    assert len(ledger.drops["empty"].examples) == MAX_EXAMPLES
    assert ledger.stages["read"].dropped["empty"]["documents"] == 1000
