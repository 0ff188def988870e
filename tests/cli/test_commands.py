"""Commands for corpora and tokenizers, and the command line itself: results, JSON, exit codes, errors with hints."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import small_runs
from command_line import json_output, refusal_message
from forebear.cli.main import COMMANDS, main
from forebear.registry import text_models

STORY = "The cat sat. It was warm!\n\n他走了。她也走了！\n\nThe cat sat. It was warm!\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("story.txt").write_text(STORY)
    return tmp_path


def start_forebear(*arguments, **options) -> subprocess.Popen:
    """As from a terminal: a shell may start background jobs so that they ignore Ctrl-C."""
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = [sys.executable, "-c", code + "from forebear.cli.main import run; run()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS), ["tokenizer", "train"], ["tokenizer", "show"], ["inspect", "why"]]
)
def test_every_command_has_help_with_examples(capsys, command):
    assert main([*command, "--help"]) == 0
    printed = capsys.readouterr().out
    assert "Usage: forebear" in printed
    if command and command not in (["tokenizer"], ["inspect"]):
        assert f"forebear {' '.join(command)}" in printed.replace("\n", " ").split("Usage", 1)[1].split("]", 1)[1]
        assert "--json" in printed


def test_prepare_reports_its_ledger(capsys):
    facts = json_output(capsys, "prepare", "story.txt", "--tokenizer", "characters", "--to", "corpus")
    assert facts["counts"]["documents"] == 3
    assert facts["ledger"]["stages"]["tokens"]["given"]["tokens"] == facts["counts"]["tokens"]
    assert json.loads(Path("corpus/ledger.json").read_text()) == facts["ledger"]
    assert main(["prepare", "story.txt", "--tokenizer", "characters", "--to", "corpus"]) == 0
    printed = capsys.readouterr().out
    assert "blank lines" in printed
    assert "0.00% unknown" in printed


def test_corpus_reports_and_cleans(capsys):
    facts = json_output(capsys, "corpus", "story.txt", "--clean", "clean.txt")
    assert facts["size"]["documents"] == 3
    assert facts["duplicates"]["documents"] == 1
    assert any("equal to" in finding["what"] for finding in facts["findings"])
    assert Path("clean.txt").read_text().split("\n\n") == ["The cat sat. It was warm!", "他走了。她也走了！\n"]
    assert facts["cleaned"]["ledger"]["stages"]["clean"]["taken"]["documents"] == 3
    assert "is already there" in refusal_message(capsys, "corpus", "story.txt", "--clean", "clean.txt")
    assert main(["corpus", "story.txt"]) == 0
    assert "What to do" in capsys.readouterr().out


def test_tokenizers_are_trained_shown_and_applied(capsys):
    description = json_output(capsys, "tokenizer", "train", "story.txt", "--kind", "words", "--to", "words.json")
    assert description["kind"] == "words"
    assert "exists already" in refusal_message(capsys, "tokenizer", "train", "story.txt", "--to", "words.json")
    assert json_output(capsys, "tokenizer", "show", "words.json")["size"] == description["size"]
    pieces = json_output(capsys, "tokenize", "她也走了 zzz", "--tokenizer", "words.json")["texts"][0]["pieces"]
    assert "".join(piece["original"] for piece in pieces) == "她也走了zzz"
    assert pieces[-1] == {
        "token": "[UNK]",
        "id": description["roles"]["unknown"]["id"],
        "start": 5,
        "end": 8,
        "original": "zzz",
    }
    Path("lines.txt").write_text("The cat\n他走了\n")
    assert len(json_output(capsys, "tokenize", "--in", "lines.txt", "--tokenizer", "words.json")["texts"]) == 2


def test_words_of_the_user_dictionary_are_not_split(capsys):
    Path("mine.txt").write_text("她也走\n")
    json_output(
        capsys, "tokenizer", "train", "story.txt", "--kind", "words", "--user-dict", "mine.txt", "--to", "words.json"
    )
    pieces = json_output(capsys, "tokenize", "她也走了", "--tokenizer", "words.json")["texts"][0]["pieces"]
    assert [piece["token"] for piece in pieces] == ["她也走", "了"]


def test_flags_override_the_config_file(capsys):
    Path("settings.toml").write_text('[prepare]\ntokenizer = "characters"\ndocuments = "lines"\n')
    facts = json_output(capsys, "prepare", "story.txt", "--config", "settings.toml")
    assert facts["made_from"]["reading"]["documents"] == "lines"
    facts = json_output(capsys, "prepare", "story.txt", "--config", "settings.toml", "--documents", "files")
    assert facts["made_from"]["reading"]["documents"] == "files"
    assert facts["tokenizer"]["kind"] == "characters"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prepar", "x"], "did you mean prepare?"),
        (["xyzzy"], "there are: lineage, explain"),
        (["prepare", "story.txt", "--docments", "lines"], "Did you mean --documents?"),
        (["prepare", "story.txt", "--documents", "words"], "Choose from"),
        (["prepare", "missing.txt"], "no such file or folder"),
        (["prepare", "story.txt", "--tokenizer", "bret"], "choose one of words, characters"),
        (["prepare", "story.txt", "--workers", "many"], "--workers"),
        (["prepare", "story.txt", "--workers", "0"], "--workers"),
        (["prepare", "story.txt", "--encoding", "klingon"], "no text encoding is called"),
        (["prepare", "story.txt", "--config", "missing.toml"], "missing.toml"),
        (["prepare", "story.txt", "--config"], "--config needs a file"),
        (["prepare", "story.txt", "--config", "story.txt"], "not TOML"),
        (["corpus", "story.txt", "--drop-mojibake", "7"], "share between 0"),
        (["corpus", "story.txt", "--drop-shorter", "7"], "without --clean"),
        (["corpus", "story.txt", "--clean", "story.txt", "--overwrite"], "one of the texts"),
        (["corpus", "story.txt", "--clean", "story.csv"], ".txt or .jsonl"),
        (["prepare", "story.txt", "--tokenizer", "story.txt", "--size", "9"], "have no effect"),
        (["prepare", "story.txt", "--size", "3"], "needs at least 6"),
        (["prepare", "story.txt", "--config=missing.toml"], "missing.toml"),
        (["tokenizer", "train", "story.txt", "--user-dict", "x", "--to", "t.json"], "has no effect on wordpiece"),
        (["corpus", "story.txt", "--tokenizer", "story.txt"], "remedy"),
        (["tokenize", "--tokenizer", "story.txt"], "no text to cut"),
        (["tokenizer", "train", "story.txt", "--normalise", "nfkx", "--to", "t.json"], "nfkc, lower, accents"),
        (["tokenizer", "train", "story.txt", "--to", "no/such/folder.json"], "does not exist"),
        (["tokenizer", "show", "story.txt"], "remedy"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_invalid_commands_are_refused_with_a_hint(capsys, arguments, words):
    error_output = refusal_message(capsys, *arguments)
    assert words in error_output
    assert "remedy" in error_output


def test_undecodable_byte_is_reported_with_its_position(capsys):
    Path("bad.txt").write_bytes(b"fine\n\nb\xffd\n")
    assert "bad.txt, byte 7: not utf-8: 0xff" in refusal_message(capsys, "prepare", "bad.txt")
    assert main(["prepare", "bad.txt", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["file"], error["byte"]) == ("bad.txt", 7)
    facts = json_output(capsys, "prepare", "bad.txt", "--tokenizer", "characters", "--on-bad-bytes", "replace")
    assert facts["ledger"]["mended_bytes"]["replaced"]["count"] == 1


def test_prepare_reads_standard_input():
    child = start_forebear("prepare", "-", "--tokenizer", "characters", "--json", stdin=subprocess.PIPE)
    out, err = child.communicate(STORY, timeout=60)
    assert child.returncode == 0, err
    assert json.loads(out)["counts"]["documents"] == 3


@pytest.mark.parametrize("arguments", ["corpus story.txt --json", "corpus story.txt", "prepare --help"])
def test_closed_pipe_is_not_an_error(folder, arguments):
    command = f"set -o pipefail; {sys.executable} -c 'from forebear.cli.main import run; run()' {arguments} | true"
    process = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stderr) == (0, "")


def test_unwritable_output_paths_are_reported(folder):
    for arguments in (
        ["prepare", "story.txt", "--to", "/dev/null/x"],
        ["prepare", "story.txt", "--to", "x" * 300],
        ["tokenizer", "train", "story.txt", "--to", "/proc/x.json"],
        ["corpus", "story.txt", "--clean", "/proc/x.txt"],
    ):
        child = start_forebear(*arguments, "--json")
        out, err = child.communicate(timeout=60)
        assert child.returncode in (1, 2), arguments
        assert "Traceback" not in err
        assert json.loads(out)["error"]["remedy"]


def test_unwritable_cache_is_an_error_only_as_output(folder):
    environment = {**os.environ, "FOREBEAR_CACHE": "/dev/null/x"}
    child = start_forebear("prepare", "story.txt", "--to", "c", "--json", env=environment)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    child = start_forebear("prepare", "story.txt", "--json", env=environment)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "Traceback" not in err


def test_narrow_terminal_ascii_terminal_and_full_device(folder):
    child = start_forebear("tokenizer", "train", "story.txt", "--to", "t.json", env={**os.environ, "COLUMNS": "40"})
    assert child.wait(60) == 0
    ascii_environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    child = start_forebear("tokenize", "北京", "--tokenizer", "t.json", env=ascii_environment)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert "\\u5317" in out
    command = (
        f"{sys.executable} -c 'from forebear.cli.main import run; run()' tokenize x --tokenizer t.json > /dev/full"
    )
    shell_process = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert shell_process.returncode == 1
    assert "No space left" in shell_process.stderr
    assert "Traceback" not in shell_process.stderr


def test_tokenize_reads_lines_of_standard_input():
    child = start_forebear("tokenizer", "train", "story.txt", "--to", "t.json")
    assert child.wait(60) == 0
    child = start_forebear("tokenize", "-", "--tokenizer", "t.json", "--json", stdin=subprocess.PIPE)
    out, err = child.communicate("The cat\n他走了\n", timeout=60)
    assert [text["text"] for text in json.loads(out)["texts"]] == ["The cat", "他走了"], err


def test_interrupted_prepare_keeps_its_shards_and_resumes(folder):
    Path("large.txt").write_text("\n\n".join(f"document {n}, 第{n}篇。" * 20 for n in range(20_000)))  # 9 shards
    child = start_forebear("prepare", "large.txt", "--tokenizer", "characters", "--to", "corpus", "--workers", "2")
    partial_shards = Path("corpus.part/shards")
    deadline = time.monotonic() + 60
    while not list(partial_shards.glob("*.npz")):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, error_output = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "interrupted" in error_output
    assert "Traceback" not in error_output
    assert not Path("corpus").exists()
    assert main(["prepare", "large.txt", "--tokenizer", "characters", "--to", "corpus", "--quiet"]) == 0
    assert not partial_shards.exists()


@pytest.mark.slow
def test_demo_compares_all_models_and_resumes(capsys):
    """In seconds instead of minutes: the comparison, its page, the entropy bound, and the suggested commands work."""
    facts = json_output(capsys, "demo", "--to", "kept", "--time", "4s")
    assert [row["name"] for row in facts["rows"]] == text_models()
    for row in facts["rows"]:
        trial = row["trials"][0]
        if row["name"] in small_runs.MASKED_MODELS:
            assert trial["bits_per_byte"] is None
            assert trial["found"] > 0
        elif row["name"] in small_runs.WORD_VECTOR_MODELS:
            assert trial["told_apart"] >= 0.45
        else:
            assert trial["bits_per_byte"] > facts["limit"] > 0.1
    assert Path(facts["page"]).read_text().startswith("<!doctype html>")
    assert {(row["task"], row["milestone"]) for row in facts["tasks"]} >= {("names", "ngram"), ("answers", "bert")}
    for command in facts["next"][:5]:
        assert main(shlex.split(command)[1:]) == 0
    assert main(["demo", "--to", "kept", "--time", "4s"]) == 0
    assert "try next" in capsys.readouterr().out


def test_tokenized_text_has_the_same_measure_with_the_exported_arpa_file(capsys, tmp_path):
    small_runs.train_small_run("ngram", tmp_path, tokenizer="words", unit="sentence")
    Path("new.txt").write_text("The cat sat under an unheard-of tree, and it was warm!\n他走了。\n")
    assert main(["tokenize", "--in", "new.txt", "--tokenizer", "run", "--spaced"]) == 0
    tokenized = capsys.readouterr().out
    assert tokenized.splitlines()[0].split()[-3:] == ["was", "warm", "!"]
    assert "unheard" in tokenized  # out-of-vocabulary words stay as written
    assert (
        json_output(capsys, "tokenize", "--in", "new.txt", "--tokenizer", "run", "--spaced")["texts"]
        == tokenized.splitlines()
    )
    Path("new.cut").write_text(tokenized)
    assert main(["export", "run", "--format", "arpa", "--to", "run.arpa"]) == 0
    assert main(["import", "run.arpa", "--to", "back"]) == 0
    capsys.readouterr()
    expected = json_output(capsys, "measure", "run", "new.txt")
    measured = json_output(capsys, "measure", "back", "new.cut")
    assert measured["tokens"] == expected["tokens"]
    assert measured["nats_per_token"] == pytest.approx(expected["nats_per_token"], rel=1e-5)


def test_memory_limit_without_unit_is_refused(capsys):
    assert "50M" in refusal_message(capsys, "pretrain", "ngram", "story.txt", "--max-memory", "50", "--to", "run")


def test_measure_reports_training_text_and_lossy_tokenization(capsys, tmp_path):
    run = small_runs.train_small_run("ngram", tmp_path, tokenizer="words")
    measured = json_output(capsys, "measure", "run", "text.txt")
    held_out = run.metadata["metrics"]["held_out"]["documents"]
    assert (measured["learned_from"], measured["forgotten"]) == (measured["documents"] - held_out, ["white space"])
    held_out_bytes = run.metadata["metrics"]["held_out"]["bytes"]
    assert measured["learned_bytes"] == measured["bytes"] - held_out_bytes
    assert main(["measure", "run", "text.txt"]) == 0
    printed = capsys.readouterr().out
    assert f"({measured['learned_bytes'] / measured['bytes']:.1%} of the text) are text that the run" in printed
    assert "learned from: no test of it" in printed
    card = Path("run/card.md").read_text()
    assert "| order |" in card
    assert "| seed |" in card
    assert not any(
        f"| {unused} |" in card for unused in ("rate", "k", "clip", "steps of warm-up")
    )  # it only counts n-grams
    assert "does not keep white space" in printed
    Path("other.txt").write_text("The cat is new.")
    assert json_output(capsys, "measure", "run", "other.txt")["learned_from"] == 0
