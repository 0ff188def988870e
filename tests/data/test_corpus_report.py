"""Corpus reports: counts agree with plain counting, losses with cleaning; reports of real corpora are plausible."""

from __future__ import annotations

import json
import statistics
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.cleaning import CleaningRules, clean_documents
from forebear.data.corpus_report import LONG_LINE, CorpusReport, corpus_report, measure_tokenizers
from forebear.data.io.document import Document
from forebear.data.io.sources import SourceFile
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger

ARTICLE = "The council approved the plan for the new bridge over the river on Monday evening after a long debate. " * 3
BANNER = "Subscribe to our newsletter today!"


def documents(*texts: str, file: str = "f.txt") -> list[Document]:
    result, line = [], 1
    for text in texts:
        result.append(Document(text, file, line))
        line += text.count("\n") + 2
    return result


def report_of(*texts: str) -> CorpusReport:
    return corpus_report(documents(*texts), train=False)


@given(st.lists(st.text(min_size=1)))
def test_size_agrees_with_plain_counting(texts: list[str]) -> None:
    size = report_of(*texts).size
    assert size["documents"] == len(texts)
    assert size["characters"] == sum(map(len, texts))
    assert size["bytes"] == sum(len(text.encode()) for text in texts)
    assert size["lines"] == sum(text.count("\n") + 1 for text in texts)
    if texts:
        assert size["median"] == statistics.median_low(map(len, texts))
        assert size["longest"]["characters"] == max(map(len, texts))


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(0, 3)), min_size=1))
def test_every_character_has_a_class(pairs: list[tuple[str, int]]) -> None:
    """Also with documents in parts."""
    parts = [Document(text, "f", 1, part) for text, num_more in pairs for part in range(num_more + 1)]
    report = corpus_report(parts, train=False)
    facts = dict(report.scripts)
    assert sum(facts.pop("letters").values()) + sum(facts.values()) == sum(len(part.text) for part in parts)
    assert sum(report.languages.values()) == len(pairs)
    json.dumps(report.to_dict())


def test_report_of_no_documents_is_a_problem() -> None:
    report = corpus_report([], ledger=Ledger())
    assert report.size["documents"] == 0
    assert [finding.severity for finding in report.findings] == ["problem"]


def test_special_characters_are_counted_and_located() -> None:
    report = report_of("fine\nab\x07c", "ok", "x\x00\x07\n\ufeff\ue000")
    by_code_point = {facts["point"]: facts for facts in report.characters}
    assert by_code_point["U+0007"]["count"] == 2
    assert by_code_point["U+0007"]["examples"] == [{"file": "f.txt", "line": 2}]  # one example of a batch is enough
    assert by_code_point["U+0000"]["examples"] == [{"file": "f.txt", "line": 6}]
    assert (by_code_point["U+FEFF"]["kind"], by_code_point["U+FEFF"]["examples"][0]["line"]) == ("invisible", 7)
    assert by_code_point["U+E000"]["kind"] == "private use"
    assert any(finding.severity == "warning" and "--strip-controls" in finding.hint for finding in report.findings)


def test_mojibake_is_located_decoded_and_hinted() -> None:
    report = report_of("good text", "also good\nbut cafÃ© is not", "itâ€™s")
    (facts,) = report.mojibake
    assert (facts["places"], facts["documents"]) == (2, 2)
    assert facts["examples"][0] == {"file": "f.txt", "line": 4, "text": "Ã©", "meant": "é"}
    (finding,) = [item for item in report.findings if item.severity == "problem"]
    assert "--encoding utf-8" in finding.hint
    assert "f.txt:4" in finding.message


def test_overlong_lines_are_counted_and_located() -> None:
    report = report_of("a\n" + "x" * (LONG_LINE + 1), "b" * LONG_LINE)
    assert report.lines["overlong"] == 1
    assert report.lines["longest"] == {"characters": LONG_LINE + 1, "file": "f.txt", "line": 2}


def test_simplified_and_traditional_are_counted_in_chinese_documents_only() -> None:
    report = report_of("这个国家的人们说话", "これは国の会の学びです。ひらがなばかり。")
    assert report.chinese == {"simplified": 6, "traditional": 0, "is": "simplified"}
    assert report.languages == {"Chinese": 1, "Japanese": 1}
    mixed = report_of("这个国家的人们说话", "這個國家的人們說話")
    assert mixed.chinese["is"] == "mixed"
    assert any("OpenCC" in finding.hint for finding in mixed.findings)


def test_duplicate_documents_in_parts_are_reported_though_cleaning_keeps_them() -> None:
    parts = [Document(text, "f", line, part) for line in (1, 9) for part, text in enumerate((ARTICLE, ARTICLE[::-1]))]
    report = corpus_report(parts, train=False)
    assert report.size["documents"] == 2
    assert report.duplicates["documents"] == report.duplicates["in_parts"] == 1
    (loss,) = [item for item in report.would_drop if item["option"] == "--drop-duplicates"]
    assert loss["documents"] == 0


MESSY = [
    ARTICLE,
    ARTICLE,
    ARTICLE.replace("Monday", "Friday", 1),
    "short",
    "tab\x00le\x07 and \u200bmarks\ufeff",
    "lost \ufffd\ufffd bytes",
    "cafÃ© bÃªte",
    "two  spaces\t here \nand \n there",
    "ｆｕｌｌ width ①",
    "x" * (LONG_LINE + 5) + "\nnext",
    *(f"number {i} of the documents\n{BANNER}\nend {i}" for i in range(14)),
]


@pytest.mark.parametrize(
    "option",
    [item["option"] for item in report_of("a").would_drop if item["option"] != "--nfkc"],
    ids=lambda option: option.split()[0],
)
def test_predicted_loss_of_each_rule_is_what_cleaning_drops(option: str) -> None:
    (loss,) = [item for item in report_of(*MESSY).would_drop if item["option"] == option]
    name, _, number = option[2:].replace("-", "_").partition(" ")
    off = {"strip_controls": False, "strip_invisible": False, "drop_duplicates": False}
    value_type = type(getattr(CleaningRules(), name))
    ledger = Ledger()
    texts = MESSY if "near" not in name else [*dict.fromkeys(MESSY)]  # near duplicates are counted beyond equal ones
    cleaned = list(
        clean_documents(
            documents(*texts), CleaningRules(**(off | {name: value_type(number) if number else True})), ledger
        )
    )
    ledger.verify()
    (counts,) = ledger.stage("clean").dropped.values()
    assert loss["characters"] == counts["characters"] > 0
    assert loss["documents"] == counts["documents"] == len(texts) - len(cleaned)


def test_findings_include_undecodable_bytes_met_by_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good line\n\nbad \xff byte\n")
    ledger = Ledger()
    source = SourceFile(str(tmp_path / "a.txt"), "a.txt")
    report = corpus_report(
        TextFormat(on_bad_bytes="replace").documents_in([source], ledger), ledger=ledger, train=False
    )
    assert any("a.txt, byte 15" in finding.message and finding.severity == "problem" for finding in report.findings)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text() -> None:
    def stream(count: int) -> Iterator[Document]:
        for line in range(count):
            yield Document("the same words again and again, and nothing new in any of them at all\n" * 400, "f", line)

    peaks = []
    for count in (12, 72):
        tracemalloc.start()
        corpus_report(stream(count), train=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


class TestTokenizers:
    def test_unknown_rate_is_measured_on_text_not_trained_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        texts = [f"{'abcdefgh'[i % 8] * 3} common words here {chr(0x4E00 + i)}" for i in range(60)]
        monkeypatch.setattr("forebear.data.corpus_report.MIN_SPLIT_CHARACTERS", 100)
        report = corpus_report(documents(*texts))
        kinds = report.tokenizers["kinds"]
        assert set(kinds) == {"words", "characters", "wordpiece", "bytepair"}
        assert report.tokenizers["sample"]["documents"] == report.tokenizers["trained_on"]["documents"] == 30
        # Every text has one character of its own, so that of each measured one is unknown.
        assert kinds["characters"]["unknown"] == 30
        assert all(len(example) == 1 and example > "\u4dff" for example in kinds["characters"]["examples"])
        assert kinds["bytepair"]["unknown"] == 0

    def test_given_tokenizers_are_measured(self) -> None:
        from forebear.data.tokenizers.train import train_tokenizer

        characters = train_tokenizer("characters", ["abc abc"], min_count=1)
        facts = measure_tokenizers(["abc", "abz", "字"], {"mine": characters})["mine"]
        assert (facts["tokens"], facts["unknown"]) == (7, 2)
        assert sorted(facts["examples"]) == ["z", "字"]
        assert facts["characters_per_token"] == 1
        assert facts["bytes_per_token"] == pytest.approx(9 / 7)
        report = corpus_report(documents("abc", "abz"), tokenizers={"mine": characters})
        assert list(report.tokenizers["kinds"]) == ["mine"]
        assert report.tokenizers["trained_on"]["characters"] == 0


def test_wrapped_prose_gets_a_hint() -> None:
    wrapped = "The cat sat on\nthe mat and was\nvery warm indeed.\n" * 20
    assert any(
        "--sentences flow" in finding.hint for finding in corpus_report(documents(wrapped), train=False).findings
    )
    lines = "The cat sat.\nIt was warm.\n" * 20
    assert not any("flow" in finding.hint for finding in corpus_report(documents(lines), train=False).findings)


class TestRealText:
    def test_report_of_chinese_wikipedia_is_plausible(self, data: Path) -> None:
        path = data / "corpora/zhwiki.txt"
        ledger = Ledger()
        report = corpus_report(
            TextFormat().documents_in([SourceFile(str(path), "zhwiki.txt")], ledger), ledger=ledger, train=False
        )
        ledger.verify()
        assert report.size["documents"] == 6_562
        assert report.size["characters"] == ledger.stage("read").outputs["characters"]
        assert report.size["bytes"] == ledger.stage("read").outputs["bytes"]
        assert report.languages["Chinese"] > 6_500
        assert report.chinese["is"] == "mixed"
        assert report.mojibake == []
        assert report.duplicates["documents"] == 0
        assert 5 <= report.near_duplicates["documents"] <= 40
        assert 0.3 < report.vocabulary["beta"] < 0.7
        assert report.vocabulary["covered"][1_000] > 0.7
        assert not [item for item in report.findings if item.severity == "problem"]

    def test_report_of_english_wikipedia_is_plausible(self, data: Path) -> None:
        path = data / "corpora/wikitext2/valid.txt"
        report = corpus_report(TextFormat().documents_in([SourceFile(str(path), "valid.txt")], Ledger()), train=False)
        assert report.languages["English"] > 0.95 * report.size["documents"]
        assert report.scripts["letters"]["Latin"] > 0.99 * sum(report.scripts["letters"].values())
        assert report.mojibake == []
        assert 0.4 < report.vocabulary["beta"] < 0.8
