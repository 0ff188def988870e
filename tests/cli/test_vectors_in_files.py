"""embed and neighbours on the command line: files in and out, of any length, whole or not there."""

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

from command_line import Captured, refused, said, told
from forebear.cli import embed as embedding
from forebear.errors import ForebearError
from forebear.inference.run import Run
from small_runs import opened, trained

SENTENCES = [
    f"The {animal} sat by the {place}." for animal in ("cat", "dog", "bird") for place in ("mat", "hill", "tree")
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return opened("bert", tmp_path_factory.mktemp("vectors"), steps=20).folder.path


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(SENTENCES * 3) + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("together", [1, 4, 2048])
def test_every_form_has_the_same_vectors_in_order(
    run: Path, sentences: Path, together: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(embedding, "EMBED_BATCH_SIZE", together)
    folder = sentences.parent
    for name in ("v.npy", "v.safetensors", "v.jsonl", "v.jsonl.gz"):
        assert told(capsys, "embed", run, "A first one.", "--in", sentences, "--out", folder / name)["texts"] == 28
    whole = np.load(folder / "v.npy", allow_pickle=False)
    alone = np.stack([Run.open(run).embed(text)[0].vector for text in ["A first one.", *SENTENCES]])
    assert whole == pytest.approx(np.concatenate((alone, alone[1:], alone[1:])), abs=1e-5)
    assert (load_file(folder / "v.safetensors")["vectors"] == whole).all()
    lines = (folder / "v.jsonl").read_bytes()
    assert gzip.decompress((folder / "v.jsonl.gz").read_bytes()) == lines
    assert [json.loads(line)["vector"] for line in lines.splitlines()] == [
        pytest.approx(row, abs=1e-6) for row in whole
    ]


def test_a_bad_line_is_told_before_any_work(
    run: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("forebear.inference.embed.embed_matrix", lambda *_, **__: pytest.fail("it worked"))
    for name, data, place in (("empty", b"a cat\n \nthe end\n", ":2"), ("bytes", b"a cat\nthe \xff end\n", ":2")):
        file = tmp_path / f"{name}.txt"
        file.write_bytes(data)
        complaint = refused(capsys, "embed", run, "--in", file, "--out", tmp_path / "v.npy")
        assert f"{name}.txt{place}" in complaint
        assert "remedy" in complaint
        assert f"{name}.txt{place}" in refused(capsys, "neighbours", run, "a cat", "--among", file)
    assert not (tmp_path / "v.npy").exists()


def test_lines_without_a_known_word_keep_their_places_in_vectors_of_words(tmp_path: Path, capsys: Captured):
    words = opened("word2vec", tmp_path, to="words", steps=10).folder.path
    file, vectors = tmp_path / "lines.txt", tmp_path / "v.npy"
    file.write_text("the cat sat\n\nxyzzy\n  \nthe dog ran\n", encoding="utf-8")
    facts = told(capsys, "embed", words, "--in", file, "--out", vectors)
    assert (facts["texts"], facts["zeros"]) == (5, [2, 3, 4])
    rows = np.load(vectors, allow_pickle=False)
    assert (np.linalg.norm(rows, axis=1) > 0).tolist() == [True, False, False, False, True]
    assert "3 lines have no word with a vector, and zeros: 2, 3, 4" in said(
        capsys, "embed", words, "--in", file, "--out", tmp_path / "v.jsonl"
    )
    kept = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [one["text"] for one in kept] == ["the cat sat", "", "xyzzy", "  ", "the dog ran"]
    near = told(capsys, "neighbours", words, "the dog ran", "--among", file, "--vectors", vectors, "--top", 1)
    assert near["texts"][0]["nearest"][0]["line"] == 5
    assert "none of this text's words has a vector" in refused(capsys, "embed", words, "xyzzy")


def test_what_makes_no_sense_is_refused(run: Path, sentences: Path, capsys: Captured):
    folder = sentences.parent
    assert "different numbers" in refused(capsys, "embed", run, "a", "--words", "--out", folder / "v.npy")
    assert "leave .gz" in refused(capsys, "embed", run, "a", "--out", folder / "v.npy.gz")
    assert "no text to embed" in refused(capsys, "embed", run, "--in", os.devnull, "--out", folder / "v.npy")
    assert "--top is 0" in refused(capsys, "neighbours", run, "a", "--among", sentences, "--top", 0)
    assert "no text" in refused(capsys, "neighbours", run, "--among", sentences)
    assert "no text to search" in refused(capsys, "neighbours", run, "a", "--among", os.devnull)
    assert [path.name for path in folder.iterdir() if "v." in path.name] == []


def test_a_full_disk_leaves_nothing(sentences: Path, monkeypatch: pytest.MonkeyPatch):
    from forebear.data.io import safetensors

    def full(file: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("forebear.data.io.atomic.sync_file", full)
    with pytest.raises(ForebearError, match="No space left"):
        safetensors.write_vectors(sentences.parent / "v.npy", [np.ones((2, 2), np.float32)])
    assert [path.name for path in sentences.parent.iterdir()] == ["sentences.txt"]


def test_a_killed_command_leaves_no_file_of_that_name(run: Path, tmp_path: Path):
    """It is killed when numbers are on the disk, long before the end."""
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(SENTENCES * 5000), encoding="utf-8")
    code = "from forebear.cli import embed, main; embed.BATCH_TEXTS = 8; main.run()"
    command = [sys.executable, "-c", code, "embed", str(run), "--in", str(file), "--out", str(tmp_path / "v.npy")]
    with subprocess.Popen(command) as process:
        end = time.monotonic() + 60
        while not any(path.stat().st_size > 10_000 for path in tmp_path.glob(".v.npy*")) and time.monotonic() < end:
            time.sleep(0.02)
        process.kill()
    assert time.monotonic() < end
    file.unlink()
    assert [path.name[:7] for path in tmp_path.iterdir()] == [".v.npy."]
    assert not (tmp_path / "v.npy").exists()


def test_neighbours_are_shown_and_written(run: Path, sentences: Path, capsys: Captured):
    folder = sentences.parent
    drawn = said(capsys, "neighbours", run, "The dog sat by the hill.", "--among", sentences, "--top", 2)
    assert drawn.count("The dog sat by the hill.") == 3  # itself and two copies
    told(capsys, "embed", run, "--in", sentences, "--out", folder / "v.npy")
    how = ("--among", sentences, "--vectors", folder / "v.npy", "--top", 4)
    (answer,) = told(capsys, "neighbours", run, "The dog sat by the hill.", *how)["texts"]
    assert [near["line"] for near in answer["nearest"][:3]] == [5, 14, 23]
    facts = told(capsys, "neighbours", run, "--in", sentences, *how, "--out", folder / "near.jsonl")
    assert facts["texts"] == facts["sentences"] == 27
    lines = [json.loads(line) for line in (folder / "near.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == SENTENCES * 3
    assert all(line["nearest"][0]["text"] == line["text"] for line in lines)


def test_an_index_tells_how_much_it_finds(run: Path, sentences: Path, capsys: Captured):
    pytest.importorskip("usearch")
    facts = told(capsys, "neighbours", run, "The dog sat.", "--among", sentences, "--approximate")
    assert 0.5 < facts["recall"] <= 1
    assert "of the nearest" in said(capsys, "neighbours", run, "A cat", "--among", sentences, "--approximate")


def test_words_longer_than_are_read_are_told(tmp_path: Path, capsys: Captured):
    run = trained("elmo", tmp_path, steps=2, width=8, cells=8, characters=4, filters="1:4,2:4", longest=20).path
    shown = said(capsys, "embed", run, "the " + "x" * 19, "the fox", "--quiet")
    assert "1 word is longer than the run reads, and read as far as that: xxx" in shown
    assert json.loads(said(capsys, "embed", run, "the " + "y" * 19, "--json"))["long_words"] == ["y" * 19]
    assert "longer than" not in said(capsys, "embed", run, "the fox", "--quiet")
