"""`forebear next --why`: the counts behind an n-gram probability as sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import json_output, printed_output, refusal_message
from forebear.cli.main import main
from forebear.cli.next import evidence_lines
from forebear.statistical.ngram.explain_probability import BackoffStep, NgramEvidence
from small_runs import train_small_run

LINEAGE_SENTENCES = ["词性是动词", "判断单词的词性", "磁性很强的磁铁", "北京的词性是名词"]
HELD_OUT_SENTENCE = "今天下雨"  # so that the held-out text has no sentence with 的
SMOOTHINGS = ["none", "add", "witten-bell", "stupid", "kneser-ney"]
END = 1


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on the four sentences of the lineage, one for each smoothing, one from a file, and a network."""
    working_folder = tmp_path_factory.mktemp("evidence")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(working_folder / "cache"))
        patch.chdir(working_folder)
        Path("four.txt").write_text("\n".join([*LINEAGE_SENTENCES, HELD_OUT_SENTENCE]), encoding="utf-8")
        shared = ["--documents", "lines", "--unit", "sentence", "--order", "2", "--quiet"]
        for smoothing in SMOOTHINGS:
            assert main(["pretrain", "ngram", "four.txt", *shared, "--smoothing", smoothing, "--to", smoothing]) == 0
        assert main(["export", "kneser-ney", "--format", "arpa", "--to", "four.arpa"]) == 0
        assert main(["import", "four.arpa", "--to", "given"]) == 0
        train_small_run("nnlm", working_folder, to="nnlm", steps=2)
    return working_folder


@pytest.fixture(autouse=True)
def working_folder(runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(runs_folder)


def test_next_why_prints_counts_of_the_context(capsys):
    assert "词性: 2 of the 3 times after 的 → 0.6667\n" in printed_output(capsys, "next", "none", "判断单词的", "--why")


@pytest.mark.parametrize("run", [*SMOOTHINGS, "given"])
@pytest.mark.parametrize("text", ["单词 的", "词性", "", "的 unheard"])
def test_next_why_steps_add_up_to_the_probability(capsys, run: str, text: str):
    (answer,) = json_output(capsys, "next", run, text, "--why", "--top", "5")["texts"]
    assert answer["candidates"]
    for candidate in answer["candidates"]:
        evidence = candidate["why"]
        total = sum(backoff_step["part"] for backoff_step in evidence["steps"]) + evidence["even"]
        assert total == pytest.approx(candidate["probability"], abs=1e-6)
        assert total == pytest.approx(evidence["probability"])
    printed = printed_output(capsys, "next", run, text, "--why", "--top", "1")
    printed_total = sum(float(part) for part in re.findall("→ ([0-9.e-]+)", printed))
    assert printed_total == pytest.approx(answer["candidates"][0]["probability"], abs=2e-4)
    assert ("  = " in printed) == (printed.count("→") > 1)


def test_next_why_prints_back_off_steps(capsys):
    printed = printed_output(capsys, "next", "given", "单词 的", "--why", "--top", "20")
    assert "not listed after 的, which hands on log10 -" in printed
    assert "; backed off to the token alone" in printed
    printed = printed_output(capsys, "next", "kneser-ney", "单词的", "--why", "--top", "1")
    assert "2 of the 3 times after 的 (2 different tokens), less " in printed
    assert "by different tokens before it: 2 of " in printed


def test_next_why_of_a_network_or_a_blank_is_refused(capsys):
    assert "did not count n-grams" in refusal_message(capsys, "next", "nnlm", "The cat", "--why")
    assert "where the blank begins" in refusal_message(capsys, "next", "none", "单词的____", "--why")


def test_score_tokens_have_ngram_lengths(capsys):
    (answer,) = json_output(capsys, "score", "kneser-ney", "单词的词性是磁性", "--tokens")["texts"]
    assert [token["ngram_length"] for token in answer["tokens"]] == [1, 2, 2, 2, 1]
    assert "n-gram" in printed_output(capsys, "score", "kneser-ney", "单词的词性", "--tokens")
    assert "n-gram" not in printed_output(capsys, "score", "nnlm", "The cat sat", "--tokens").replace("ngram", "")
    (answer,) = json_output(capsys, "score", "nnlm", "The cat sat", "--tokens")["texts"]
    assert "ngram_length" not in answer["tokens"][0]


def test_measure_reports_perplexity_with_and_without_oov_words(capsys):
    Path("other.txt").write_text("单词的动词\n龘龘的词性\n", encoding="utf-8")
    facts = json_output(capsys, "measure", "kneser-ney", "other.txt")
    assert facts["unknown_tokens"] == 2
    assert facts["perplexity_known"] < facts["perplexity"]
    assert 1 <= facts["ngram_length"] <= 2
    printed = printed_output(capsys, "measure", "kneser-ney", "other.txt", "--quiet")
    assert f"{facts['perplexity_known']:,.2f}" in printed
    assert "without unknown tokens" in printed
    assert "n-gram used" in printed
    Path("known.txt").write_text("单词的词性\n", encoding="utf-8")
    assert "without unknown tokens" not in printed_output(capsys, "measure", "kneser-ney", "known.txt", "--quiet")
    printed = printed_output(capsys, "score", "kneser-ney", "单词的词性", "龘龘的词性", "--quiet")
    assert "without unknown" in printed
    assert "without unknown" not in printed_output(capsys, "score", "kneser-ney", "单词的词性", "--quiet")


def backoff_step(context: tuple[int, ...], words: tuple[str, ...], **changes) -> BackoffStep:
    fields = {"seen": 9, "followers": 4, "times": 3, "counted": 3, "of": 9, "discount": 0.0, "pruned": 0}
    fields |= {"is_known": True, "is_listed": True, "share": 1 / 3, "left": 0.5, "weight": 1.0}
    return BackoffStep(context, words, **(fields | changes))


def test_evidence_lines_of_every_kind_of_step():
    unlisted = {"is_listed": False, "share": 0.0}
    steps = (
        backoff_step(
            (END, 7, 8), ("</s>", "of", "the"), **unlisted, seen=0, times=0, followers=0, is_known=False, left=1.0
        ),
        backoff_step((7, 8), ("of", "the"), **unlisted, is_known=False, left=1.0),
        backoff_step((8,), ("the",), **unlisted, times=1, pruned=1),
        backoff_step((), (), counted=2, of=5, discount=0.25, share=0.35, weight=0.5),
    )
    evidence = NgramEvidence("kneser-ney", 1.0, steps, 0.25, 10)
    assert list(evidence_lines(evidence, "cat", END)) == [
        "cat: ‘of the’ at the beginning was never seen; backed off to ‘of the’",
        "    ‘of the’ was seen 9 times: too rare for this model (--prune); backed off to ‘the’",
        "    1 of the 9 times after ‘the’ (4 different tokens): too rare for this model (--prune); "
        "backed off to the token alone",
        "    3 of the 9 times in all, by different tokens before it: 2 of 5, less 0.25, × 0.5 left → 0.175",
        "  + it is one of 10 tokens, × 0.25 left → 0.025",
        "  = 0.2",
    ]
    evidence_of_one_count = NgramEvidence(
        "none", 1.0, (backoff_step((END,), ("</s>",), seen=1, times=0, followers=1, **unlisted),), 0.0, 10
    )
    assert list(evidence_lines(evidence_of_one_count, "cat", END)) == [
        "cat: something else the only time at the beginning of a text"
    ]
