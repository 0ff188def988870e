"""`embed` and `neighbours` with files: formats, batches, invalid lines, full disks, killed processes."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli import embed as embed_command
from forebear.errors import ForebearError
from forebear.inference.run import Run
from small_runs import open_small_run, train_small_run

SENTENCES = [
    f"The {animal} sat by the {place}." for animal in ("cat", "dog", "bird") for place in ("mat", "hill", "tree")
]


@pytest.fixture(scope="module")
def bert_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_small_run("bert", tmp_path_factory.mktemp("vectors"), steps=20).folder.path


@pytest.fixture
def sentences_file(tmp_path: Path) -> Path:
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(SENTENCES * 3) + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("batch_texts", [1, 4, 2048])
def test_embed_writes_equal_vectors_in_every_format_and_batch_size(
    bert_run: Path, sentences_file: Path, batch_texts: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(embed_command, "EMBED_BATCH_SIZE", batch_texts)
    folder = sentences_file.parent
    for name in ("v.npy", "v.safetensors", "v.jsonl", "v.jsonl.gz"):
        assert (
            json_output(capsys, "embed", bert_run, "A first one.", "--in", sentences_file, "--out", folder / name)[
                "texts"
            ]
            == 28
        )
    vectors = np.load(folder / "v.npy", allow_pickle=False)
    single_vectors = np.stack([Run.open(bert_run).embed(text)[0].vector for text in ["A first one.", *SENTENCES]])
    assert vectors == pytest.approx(np.concatenate((single_vectors, single_vectors[1:], single_vectors[1:])), abs=1e-5)
    assert (load_file(folder / "v.safetensors")["vectors"] == vectors).all()
    lines = (folder / "v.jsonl").read_bytes()
    assert gzip.decompress((folder / "v.jsonl.gz").read_bytes()) == lines
    assert [json.loads(line)["vector"] for line in lines.splitlines()] == [
        pytest.approx(row, abs=1e-6) for row in vectors
    ]


def test_invalid_line_is_reported_before_embedding(
    bert_run: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("forebear.inference.embed.embed_matrix", lambda *_, **__: pytest.fail("it worked"))
    for name, data, line_suffix in (("empty", b"a cat\n \nthe end\n", ":2"), ("bytes", b"a cat\nthe \xff end\n", ":2")):
        file = tmp_path / f"{name}.txt"
        file.write_bytes(data)
        error_output = refusal_message(capsys, "embed", bert_run, "--in", file, "--out", tmp_path / "v.npy")
        assert f"{name}.txt{line_suffix}" in error_output
        assert "remedy" in error_output
        assert f"{name}.txt{line_suffix}" in refusal_message(capsys, "neighbours", bert_run, "a cat", "--among", file)
    assert not (tmp_path / "v.npy").exists()


def test_lines_without_known_words_have_zero_vectors(tmp_path: Path, capsys: Captured):
    word2vec_run = open_small_run("word2vec", tmp_path, to="words", steps=10).folder.path
    file, vectors = tmp_path / "lines.txt", tmp_path / "v.npy"
    file.write_text("the cat sat\n\nxyzzy\n  \nthe dog ran\n", encoding="utf-8")
    facts = json_output(capsys, "embed", word2vec_run, "--in", file, "--out", vectors)
    assert (facts["texts"], facts["zeros"]) == (5, [2, 3, 4])
    rows = np.load(vectors, allow_pickle=False)
    assert (np.linalg.norm(rows, axis=1) > 0).tolist() == [True, False, False, False, True]
    assert "3 lines have no word with a vector, and zeros: 2, 3, 4" in printed_output(
        capsys, "embed", word2vec_run, "--in", file, "--out", tmp_path / "v.jsonl"
    )
    records = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["text"] for record in records] == ["the cat sat", "", "xyzzy", "  ", "the dog ran"]
    near = json_output(
        capsys, "neighbours", word2vec_run, "the dog ran", "--among", file, "--vectors", vectors, "--top", 1
    )
    assert near["texts"][0]["nearest"][0]["line"] == 5
    assert "none of this text's words has a vector" in refusal_message(capsys, "embed", word2vec_run, "xyzzy")


def test_embed_refuses_invalid_options(bert_run: Path, sentences_file: Path, capsys: Captured):
    folder = sentences_file.parent
    assert "different numbers" in refusal_message(capsys, "embed", bert_run, "a", "--words", "--out", folder / "v.npy")
    assert "leave .gz" in refusal_message(capsys, "embed", bert_run, "a", "--out", folder / "v.npy.gz")
    assert "no text to embed" in refusal_message(
        capsys, "embed", bert_run, "--in", os.devnull, "--out", folder / "v.npy"
    )
    assert "--top is 0" in refusal_message(capsys, "neighbours", bert_run, "a", "--among", sentences_file, "--top", 0)
    assert "no text" in refusal_message(capsys, "neighbours", bert_run, "--among", sentences_file)
    assert "no text to search" in refusal_message(capsys, "neighbours", bert_run, "a", "--among", os.devnull)
    assert [path.name for path in folder.iterdir() if "v." in path.name] == []


def test_embed_on_a_full_disk_leaves_no_file(sentences_file: Path, monkeypatch: pytest.MonkeyPatch):
    from forebear.data.io import arrays

    def raise_disk_full(file: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("forebear.data.io.atomic.sync_file", raise_disk_full)
    with pytest.raises(ForebearError, match="No space left"):
        arrays.write_vectors(sentences_file.parent / "v.npy", [np.ones((2, 2), np.float32)])
    assert [path.name for path in sentences_file.parent.iterdir()] == ["sentences.txt"]


def test_killed_embed_leaves_only_a_temporary_file(bert_run: Path, tmp_path: Path):
    """Killed when the first vectors are on disk, long before the end."""
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(SENTENCES * 5000), encoding="utf-8")
    code = "from forebear.cli import embed, main; embed.EMBED_BATCH_SIZE = 8; main.run()"
    command = [sys.executable, "-c", code, "embed", str(bert_run), "--in", str(file), "--out", str(tmp_path / "v.npy")]
    with subprocess.Popen(command) as process:
        deadline = time.monotonic() + 60
        while (
            not any(path.stat().st_size > 10_000 for path in tmp_path.glob(".v.npy*")) and time.monotonic() < deadline
        ):
            time.sleep(0.02)
        process.kill()
    assert time.monotonic() < deadline
    file.unlink()
    assert [path.name[:7] for path in tmp_path.iterdir()] == [".v.npy."]
    assert not (tmp_path / "v.npy").exists()


def test_neighbours_are_printed_and_written(bert_run: Path, sentences_file: Path, capsys: Captured):
    folder = sentences_file.parent
    printed = printed_output(
        capsys, "neighbours", bert_run, "The dog sat by the hill.", "--among", sentences_file, "--top", 2
    )
    assert printed.count("The dog sat by the hill.") == 3  # itself and two duplicates
    json_output(capsys, "embed", bert_run, "--in", sentences_file, "--out", folder / "v.npy")
    options = ("--among", sentences_file, "--vectors", folder / "v.npy", "--top", 4)
    (answer,) = json_output(capsys, "neighbours", bert_run, "The dog sat by the hill.", *options)["texts"]
    assert [neighbor["line"] for neighbor in answer["nearest"][:3]] == [5, 14, 23]
    facts = json_output(
        capsys, "neighbours", bert_run, "--in", sentences_file, *options, "--out", folder / "near.jsonl"
    )
    assert facts["texts"] == facts["sentences"] == 27
    lines = [json.loads(line) for line in (folder / "near.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == SENTENCES * 3
    assert all(line["nearest"][0]["text"] == line["text"] for line in lines)


def test_approximate_neighbours_report_their_recall(bert_run: Path, sentences_file: Path, capsys: Captured):
    pytest.importorskip("usearch")
    facts = json_output(capsys, "neighbours", bert_run, "The dog sat.", "--among", sentences_file, "--approximate")
    assert 0.5 < facts["recall"] <= 1
    assert "of the nearest" in printed_output(
        capsys, "neighbours", bert_run, "A cat", "--among", sentences_file, "--approximate"
    )


def test_embed_reports_words_above_the_maximum_length(tmp_path: Path, capsys: Captured):
    elmo_run = train_small_run(
        "elmo", tmp_path, steps=2, width=8, cells=8, characters=4, filters="1:4,2:4", longest=20
    ).path
    printed = printed_output(capsys, "embed", elmo_run, "the " + "x" * 19, "the fox", "--quiet")
    assert "1 word is longer than the run reads, and read as far as that: xxx" in printed
    assert json.loads(printed_output(capsys, "embed", elmo_run, "the " + "y" * 19, "--json"))["long_words"] == [
        "y" * 19
    ]
    assert "longer than" not in printed_output(capsys, "embed", elmo_run, "the fox", "--quiet")
