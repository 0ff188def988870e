"""score, next, generate and measure on the command line, with a bigram model of known probabilities."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from command_line import json_output, printed_output, refusal_message
from forebear.cli.main import main
from forebear.data.tokenizers.train import train_tokenizer
from forebear.inference import run as runs
from forebear.inference.measure import evaluate_text

LINES = ["the cat sat on the mat", "the dog sat on the log", "我很喜欢你"]


class BigramModel:
    """Bigram probabilities of LINES; uniform after tokens without a successor."""

    max_length = None
    is_pseudo_likelihood = False

    def __init__(self, tokenizer, add=0.0):
        end = tokenizer.special_roles["end"]
        table = np.full((tokenizer.vocab_size, tokenizer.vocab_size), add)
        for line in LINES:
            row = [end, *tokenizer.encode(line).ids.tolist(), end]
            for before, after in pairwise(row):
                table[before, after] += 1
        table[table.sum(axis=1) == 0] = 1
        with np.errstate(divide="ignore"):
            self.logs = np.log(table / table.sum(axis=1, keepdims=True))
        self.vocab_size = tokenizer.vocab_size

    def score(self, rows):
        return [self.logs[row[:-1], row[1:]] for row in rows]

    def next_log_probs(self, rows):
        return np.stack([self.logs[row[-1]] for row in rows])

    def start_decoding(self, rows, max_new_tokens):
        return BigramDecoder(self, rows)


class BigramDecoder:
    def __init__(self, predictor, rows):
        self.predictor, self.last = predictor, np.array([row[-1] for row in rows])

    def next_logits(self):
        return self.predictor.logs[self.last].astype(np.float32)

    def append(self, ids):
        self.last = ids

    def select(self, rows):
        self.last = self.last[rows]


class BigramRun(runs.Run):
    """A run without a folder."""

    name, notes, metadata, text_unit, tokenizer = "bigrams", [], {}, "document", None
    heads, capabilities = ("next",), ("score", "next", "generate", "measure")
    task = None

    def __init__(self, tokenizer, add):
        self.tokenizer, self.predictor = tokenizer, BigramModel(tokenizer, add)


@pytest.fixture(scope="module")
def word_tokenizer():
    return train_tokenizer("words", LINES, min_count=1)


@pytest.fixture(autouse=True)
def bigram_runs(tmp_path, monkeypatch, word_tokenizer):
    """Two runs: one with smoothing, and one that gives unseen bigrams probability 0."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    smoothing = {"smooth": 0.1, "strict": 0.0}
    monkeypatch.setattr(runs.Run, "open", lambda folder: BigramRun(word_tokenizer, smoothing[str(folder)]))


def test_generate_reports_an_immediate_end_of_text(capsys):
    capsys.readouterr()
    assert main(["generate", "strict", "the dog sat on the log"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "the dog sat on the log\n"
    assert "the run ends the text here" in printed.err


def test_score_ranks_texts_and_keeps_their_order(capsys):
    facts = json_output(capsys, "score", "smooth", "the mat sat", "the cat sat", "the cat")
    assert [text["text"] for text in facts["texts"]] == ["the mat sat", "the cat sat", "the cat"]
    assert [text["rank"] for text in facts["texts"]] == [3, 2, 1]
    assert "tokens" not in facts["texts"][0]
    printed = printed_output(capsys, "score", "smooth", "the mat sat", "the cat sat")
    assert printed.index("the cat sat") < printed.index("the mat sat")


def test_score_shows_tokens_and_impossible_ones(capsys):
    (text,) = json_output(capsys, "score", "strict", "the sat", "--tokens", "--ends")["texts"]
    assert text["log_probability"] is None
    assert text["impossible_tokens"] == 2  # "sat" after "the", the end after "sat"
    assert [token["original"] for token in text["tokens"]] == ["the", "sat", ""]
    printed = printed_output(capsys, "score", "strict", "the [sat]", "--tokens")
    assert "-inf" in printed
    assert "probability 0" in printed
    assert "[sat]" in printed


def test_score_reads_and_writes_files_line_by_line(capsys):
    Path("in.txt").write_text("the cat\r\nthe dog sat\n我很喜欢你\n")
    facts = json_output(capsys, "score", "smooth", "a first one", "--in", "in.txt", "--out", "out.jsonl")
    assert facts["texts"] == 4
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == ["a first one", "the cat", "the dog sat", "我很喜欢你"]
    assert facts["tokens"] == sum(line["token_count"] for line in lines)
    assert (
        lines[1]["log_probability"] == json_output(capsys, "score", "smooth", "the cat")["texts"][0]["log_probability"]
    )
    assert "4 texts" in printed_output(capsys, "score", "smooth", "a first one", "--in", "in.txt", "--out", "out.jsonl")


def test_score_keeps_the_position_of_empty_lines(capsys):
    Path("in.txt").write_text("the cat\n\nthe dog\n   \n")
    facts = json_output(capsys, "score", "smooth", "--in", "in.txt")
    assert [(text["rank"] is None, "error" in text) for text in facts["texts"]] == [(False, False), (True, True)] * 2
    assert facts["texts"][1]["error"] == "this text has no tokens, so there is nothing to score"
    assert (facts["texts"][3]["line"], facts["unanswered"]) == (4, 2)
    assert main(["score", "smooth", "--in", "in.txt", "--out", "out.jsonl"]) == 0
    printed = capsys.readouterr()
    assert "2 texts of 4 tokens scored" in printed.out
    assert "2 lines have no answer, of 4 texts: 2, 4" in printed.err
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == ["the cat", "", "the dog", "   "]
    assert lines[0]["log_probability"] == facts["texts"][0]["log_probability"]


def test_score_refuses_a_file_of_empty_lines_without_output(capsys):
    Path("in.txt").write_text("\n\n")
    message = refusal_message(capsys, "score", "smooth", "--in", "in.txt", "--out", "out.jsonl")
    assert message.startswith("forebear: in.txt:1: this text has no tokens")
    assert "remedy" in message
    assert sorted(path.name for path in Path().iterdir() if path.is_file()) == ["in.txt"]
    assert "('')" in refusal_message(capsys, "score", "smooth", "the cat", "")
    assert "no text to score" in refusal_message(capsys, "score", "smooth")


def test_score_refuses_an_output_in_a_missing_folder(capsys):
    assert "there is no folder nowhere" in refusal_message(
        capsys, "score", "smooth", "the cat", "--out", "nowhere/out.jsonl"
    )


def test_next_predicts_tokens_and_fills_blanks(capsys):
    (text,) = json_output(capsys, "next", "strict", "the", "--top", "2")["texts"]
    assert [candidate["probability"] for candidate in text["candidates"]] == pytest.approx([0.25, 0.25])
    (text,) = json_output(capsys, "next", "strict", "the ____ sat")["texts"]
    assert {candidate["whole"] for candidate in text["candidates"]} == {"the cat sat", "the dog sat"}
    assert "the dog sat" in printed_output(capsys, "next", "strict", "the ____ sat", "the")
    assert "50.00%" in printed_output(capsys, "next", "strict", "the ____ sat")
    assert "nothing that this run holds possible" in printed_output(capsys, "next", "strict", "the ____ 你")
    assert "tried 2 of" in printed_output(capsys, "next", "smooth", "the ____ sat", "--among", "2")
    assert "2 blanks" in refusal_message(capsys, "next", "smooth", "__ and __")
    Path("in.txt").write_text("the\na\n")
    assert json_output(capsys, "next", "smooth", "--in", "in.txt", "--out", "out.jsonl")["texts"] == 2
    assert len(Path("out.jsonl").read_text().splitlines()) == 2


def test_generate_streams_the_text_of_its_json(capsys):
    assert main(["generate", "smooth", "the cat", "--length", "12", "--seed", "5"]) == 0
    printed = capsys.readouterr()
    (text,) = json_output(capsys, "generate", "smooth", "the cat", "--length", "12", "--seed", "5")["texts"]
    assert printed.out == text["whole"] + "\n"
    assert "tokens/s" in printed.err
    assert text["whole"] == text["prompt"] + text["text"]
    assert (
        printed_output(capsys, "generate", "smooth", "the cat", "--length", "12", "--seed", "5", "--quiet")
        == printed.out
    )
    assert capsys.readouterr().err == ""


def test_generate_samples_for_many_prompts(capsys):
    Path("in.txt").write_text("the cat\n\n我\n")
    facts = json_output(
        capsys, "generate", "smooth", "--in", "in.txt", "--samples", "2", "--length", "6", "--top-k", "4"
    )
    assert [text["prompt"] for text in facts["texts"]] == ["the cat", "the cat", "", "", "我", "我"]
    assert facts["settings"]["top_k"] == 4
    options = ["--samples", "2", "--length", "6", "--top-k", "4", "--out", "out.jsonl"]
    assert json_output(capsys, "generate", "smooth", "--in", "in.txt", *options)["texts"] == 6
    assert [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()] == facts["texts"]
    printed = printed_output(capsys, "generate", "strict", "the", "on", "--temperature", "0", "--length", "3")
    assert printed.count("the cat sat") == 2


def test_generate_without_prompt_and_with_stop_texts(capsys):
    (text,) = json_output(capsys, "generate", "strict", "--temperature", "0")["texts"]
    assert text["prompt"] == ""
    stops = ["--stop", "dog", "--stop", " sat"]
    (text,) = json_output(capsys, "generate", "strict", "the", "--temperature", "0", *stops)["texts"]
    assert (text["whole"], text["ended"]) == ("the cat", "stop")
    assert "top-p is 3" in refusal_message(capsys, "generate", "strict", "--top-p", "3")


def test_generate_by_beam_search_and_by_choices(capsys):
    facts = json_output(capsys, "generate", "smooth", "the cat", "on", "--beams", "3", "--best", "2", "--length", "4")
    assert [(text["prompt"], text["rank"]) for text in facts["texts"]] == [
        (p, n) for p in ("the cat", "on") for n in (1, 2)
    ]
    assert facts["settings"] == {"beams": 3, "best": 2, "length_penalty": 1.0, "length": 4, "stop": []}
    printed = printed_output(capsys, "generate", "smooth", "the cat", "--beams", "3", "--best", "2", "--length", "4")
    assert "rank 2: score -" in printed
    Path("words.txt").write_text("mat\nlog\ncat sat\n")
    (text,) = json_output(capsys, "generate", "strict", "the", "--choices", "words.txt")["texts"]
    assert (text["whole"], text["ended"], text["choices"]["cat sat"]) == ("the mat", "choice", pytest.approx(1 / 3))
    assert (
        text["choices"]
        == json_output(capsys, "generate", "strict", "the", "--choices", "mat", "log", "cat sat")["texts"][0]["choices"]
    )
    assert "33.33%" in printed_output(capsys, "generate", "strict", "the", "--choices", "words.txt")
    assert "--seed changes nothing with --beams" in refusal_message(
        capsys, "generate", "strict", "--beams", "2", "--seed", "1"
    )


def test_generate_removes_control_characters_from_the_output(capsys, monkeypatch):
    monkeypatch.setattr("forebear.inference.sampling.TextStream.append", lambda self, token: "\x1b[31m\n\t")
    assert "\x1b" not in printed_output(capsys, "generate", "strict", "the\x1b", "--length", "3")


def test_measure_reports_bits_per_byte_and_counts(capsys, word_tokenizer):
    Path("text.txt").write_text("the cat sat\n\nthe zebra\n")
    facts = json_output(capsys, "measure", "smooth", "text.txt")
    assert (facts["documents"], facts["tokens"], facts["unknown_tokens"]) == (2, 7, 1)
    assert facts["bytes"] == len("the cat satthe zebra")
    expected = evaluate_text(BigramModel(word_tokenizer, 0.1), word_tokenizer, ["the cat sat", "the zebra"])
    assert facts["bits_per_byte"] == pytest.approx(expected.bits_per_byte)
    assert set(facts) >= {"perplexity", "nats_per_token", "unknown_rate", "impossible_tokens", "seconds"}
    assert json_output(capsys, "measure", "smooth", "text.txt", "--limit", "5")["documents"] == 1
    assert json_output(capsys, "measure", "smooth", "text.txt", "--documents", "files")["documents"] == 1
    assert f"{expected.bits_per_byte:.4f}" in printed_output(capsys, "measure", "smooth", "text.txt")


def test_measure_reports_impossible_tokens(capsys):
    Path("text.txt").write_text("the sat\n")
    facts = json_output(capsys, "measure", "strict", "text.txt")
    assert facts["bits_per_byte"] is facts["perplexity"] is None
    assert facts["impossible_tokens"] == 2
    assert "probability 0" in printed_output(capsys, "measure", "strict", "text.txt")
    assert "--limit is 'much'" in refusal_message(capsys, "measure", "strict", "text.txt", "--limit", "much")


@pytest.mark.parametrize("command", ["score", "next", "generate", "measure"])
def test_help_of_commands_has_examples_and_loads_no_heavy_module(command):
    code = f"import sys; from forebear.cli.main import main; main(['{command}', '--help']); "
    code += "print([name for name in ('torch', 'numba', 'tokenizers') if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"forebear {command} runs/" in process.stdout
    assert process.stdout.splitlines()[-1] == "[]"
