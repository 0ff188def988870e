"""`forebear ask`: labels, choices, blanks, summaries and replies; one text and many; refused input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli.main import main
from forebear.inference.run import Run
from small_runs import open_small_run


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")  # tables are not wrapped


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    return open_small_run("gpt2", folder, tokenizer="words", context=40, steps=120, rate=1e-2).folder.path


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_small_run("bert", tmp_path_factory.mktemp("bert"), tokenizer="wordpiece", steps=30).folder.path


@pytest.fixture(scope="module")
def ngram(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_small_run("ngram", tmp_path_factory.mktemp("ngram"), smoothing="none").folder.path


def test_ask_ranks_choices_and_fills_blanks(gpt2: Path, capsys: Captured):
    (text,) = json_output(capsys, "ask", gpt2, "The cat sat by", "--choices", "the mat.", "the over.")["texts"]
    assert text["answer"] == "the mat."
    assert sum(answer["probability"] for answer in text["answers"]) == pytest.approx(1)
    log_probs = {
        text_with_choice: json_output(capsys, "score", gpt2, text_with_choice)["texts"][0]["log_probability"]
        for text_with_choice in ("The cat sat by", "The cat sat by the mat.")
    }
    difference = log_probs["The cat sat by the mat."] - log_probs["The cat sat by"]
    assert text["answers"][0]["log_probability"] == pytest.approx(difference, abs=1e-4)
    printed = printed_output(capsys, "ask", gpt2, "The ____ sat by the mat.", "--choices", "over", "dog")
    assert printed.index("The dog sat by the mat.") < printed.index("The over sat by the mat.")
    assert "bits/byte" in printed


def test_ask_labels_with_template_and_calibration(gpt2: Path, capsys: Captured):
    options = ("--labels", "animal=cat|dog,place=mat|tree", "--template", "{text}\\nThe {label} and")
    facts = json_output(capsys, "ask", gpt2, "The bird sat.", *options)
    assert facts["settings"] == {"labels": options[1], "template": options[3]}
    best = facts["texts"][0]["answers"][0]
    assert best["whole"] == f"The bird sat.\nThe {best['wording']} and"
    assert "neutral" in best
    (uncalibrated,) = json_output(capsys, "ask", gpt2, "The bird sat.", *options, "--no-calibrate", "--per", "token")[
        "texts"
    ]
    assert "neutral" not in uncalibrated["answers"][0]
    printed = printed_output(capsys, "ask", gpt2, "The bird sat.", *options, "--neutral", "N/A")
    assert "without the text" in printed
    assert "best as" in printed


def test_ask_reads_and_writes_many_texts(gpt2: Path, capsys: Captured):
    Path("in.txt").write_text(
        "The cat sat.\r\nThe dog ran to the tree.\n" + "The cat sat. " * 30 + "\n", encoding="utf-8"
    )
    options = ("--labels", "cat,dog", "--in", "in.txt")
    facts = json_output(capsys, "ask", gpt2, "The bird.", *options, "--out", "out.jsonl")
    assert (facts["texts"], facts["cut_texts"]) == (4, 1)
    lines = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["text"][:12] for line in lines] == ["The bird.", "The cat sat.", "The dog ran ", "The cat sat."]
    assert lines == json_output(capsys, "ask", gpt2, "The bird.", *options)["texts"]
    assert main(["ask", str(gpt2), *options]) == 0
    printed = capsys.readouterr()
    assert "tokens farthest from the answer" in printed.out
    assert "3 texts in" in printed.err
    assert "in its place" not in printed.out
    assert printed_output(capsys, "ask", gpt2, *options, "--table").count("in its place") == 3
    Path("bad.txt").write_text("The cat.\n\n", encoding="utf-8")
    assert "bad.txt:2: this text is empty" in refusal_message(
        capsys, "ask", gpt2, "--labels", "cat,dog", "--in", "bad.txt", "--out", "no.jsonl"
    )
    assert not Path("no.jsonl").exists()


def test_ask_with_few_shot_examples(gpt2: Path, capsys: Captured):
    Path("shots.tsv").write_text("The cat sat.\tmat\nThe dog ran.\ttree\n" * 3, encoding="utf-8")
    facts = json_output(capsys, "ask", gpt2, "The bird.", "--shots", "shots.tsv", "--labels", "mat,tree")
    assert facts["examples"] == 6
    assert 0 < facts["texts"][0]["shots"] < 6
    printed = printed_output(capsys, "ask", gpt2, "The bird.", "--shots", "shots.tsv", "--length", "5")
    assert "examples that had room before the text: 3 of 6" in printed
    (reply,) = json_output(capsys, "ask", gpt2, "The bird.", "--shots", "shots.tsv", "--length", "5")["texts"]
    assert reply["prompt"].endswith("Q: The bird.\nA:")
    assert reply["answer"] in printed
    Path("shots.tsv").write_text("The cat sat.\n", encoding="utf-8")
    assert "shots.tsv:1: 1 columns" in refusal_message(capsys, "ask", gpt2, "The bird.", "--shots", "shots.tsv")


def test_ask_summarizes_a_file_and_a_folder(gpt2: Path, capsys: Captured):
    Path("articles").mkdir()
    Path("articles/a.txt").write_text("The cat sat by the mat.\n\nThe dog saw the cat.\n" * 9, encoding="utf-8")
    Path("articles/b.txt").write_text("The bird sat by the tree.\n", encoding="utf-8")
    options = ("--length", "12", "--sentences", "1")
    first, second = json_output(capsys, "ask", gpt2, "--in", "articles", "--cue", "auto", *options)["texts"]
    assert (first["prompt"][-7:], second["prompt"]) == ("\nTL;DR:", "The bird sat by the tree.\nTL;DR:")
    assert (first["cut_tokens"] > 0, second["cut_tokens"]) == (True, 0)
    assert first["text"].count("saw") == 9
    printed = printed_output(capsys, "ask", gpt2, "--in", "articles/b.txt", "--cue", "TL;DR:", *options)
    assert second["answer"] in printed
    assert (
        json_output(capsys, "ask", gpt2, "--in", "articles", "--cue", "x", *options, "--out", "out.jsonl")["texts"] == 2
    )


def test_ask_with_a_masked_language_model_uses_pseudo_likelihood(bert: Path, capsys: Captured):
    facts = json_output(capsys, "ask", bert, "The ____ sat.", "--choices", "cat", "dog", "old fox")
    assert facts["texts"][0]["pseudo"] is True
    assert "no probability of the text" in printed_output(capsys, "ask", bert, "The cat", "--labels", "cat,dog")
    assert "cannot be asked to generate" in refusal_message(capsys, "ask", bert, "The cat", "--cue", "auto")
    assert "fill" in refusal_message(capsys, "ask", bert, "The cat", "--cue", "auto")


def test_ask_reports_impossible_answers_and_oov_words(ngram: Path, capsys: Captured):
    assert "every answer is impossible" in printed_output(
        capsys, "ask", ngram, "The cat", "--choices", "mat mat", "over over"
    )
    printed = printed_output(capsys, "ask", ngram, "The", "--choices", "zebra", "cat")
    assert "lacks words of: zebra" in printed
    options = ("--template", "{text} and ran to the {label}", "--labels", "mat,tree")
    assert "no answer is likelier" in printed_output(
        capsys, "ask", ngram, "The cat saw the dog", *options, "--neutral", "The dog"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["The cat"], "a text alone asks nothing"),
        (["The cat", "--labels", "a,b", "--cue", "x"], "--labels and --cue together"),
        (["The cat", "--labels", "a"], "with 1 label"),
        (
            ["The cat", "--choices", "a", "b", "--template", "{text} {label}"],
            "--template changes nothing with --choices",
        ),
        (["The cat", "--cue", "x", "--per", "token"], "--per changes nothing with --cue"),
        (["The cat", "--labels", "a,b", "--seed", "1"], "--seed changes nothing with --labels"),
        (["The cat", "--labels", "a,b", "--template", "{text}"], "no {label}"),
        (["The cat", "--labels", "a,b", "--per", "word"], "word"),
        (["--labels", "a,b"], "there is no text to ask about"),
        ([" ", "--labels", "a,b"], "this text is empty (' ')"),
    ],
)
def test_ask_refuses_invalid_options(gpt2: Path, capsys: Captured, arguments: list[str], words: str):
    assert words in refusal_message(capsys, "ask", gpt2, *arguments)


def test_ask_of_a_run_without_the_head_names_its_capabilities(
    gpt2: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Run, "capabilities", ("embed",))
    assert "it can be asked to: embed" in refusal_message(capsys, "ask", gpt2, "The cat", "--labels", "a,b")


def test_ask_removes_control_characters_from_the_output(gpt2: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forebear.inference.prompted_generation.split_sentences", lambda text: ["a\x1b[31m\u3000b\n\t"])
    assert "a\ufffd[31m\u3000b" in printed_output(capsys, "ask", gpt2, "The cat", "--cue", "x", "--length", "2")


def test_ask_help_has_examples_and_loads_no_heavy_module():
    code = "import sys; from forebear.cli.main import main; "
    code += "main(['ask', '--help']); "
    code += "print([name for name in ('torch', 'numba', 'tokenizers') if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "forebear ask runs/" in process.stdout
    assert process.stdout.splitlines()[-1] == "[]"
