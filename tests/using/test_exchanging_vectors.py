"""Word vectors from other programs become runs, and runs with words become files of word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forebear as fb
from command_line import Captured, refused, said, told
from forebear.errors import BadInput, ForebearError
from forebear.interop import word_vectors
from forebear.training.folder import RunFolder
from forebear.using import exchanging_vectors
from forebear.using.exchanging import form_of
from forebear.using.run import Run

WORDS = ["the", "北京", "😀", "</s>", "<unk>", "king", "10", "naïve"]
ODD = [
    "",
    "New York",
    ". . .",
    "\x1f",
    "\n",
    "\x00",
    "\x1f x",
    "[UNK]",
    "[SEP]",
    "<unk>",
    "</s>",
    "<[UNK]>",
    "##a",
    "Ｘ",
]


def table(count: int, width: int = 4) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.3, (count, width)).astype(np.float32)


def planted(folder: Path, words: list[str] = WORDS, form: str = "word2vec", **more: Any) -> Path:
    word_vectors.write(folder / "vectors", form, words, table(len(words)), **more)
    return folder / "vectors"


@pytest.mark.parametrize("form", word_vectors.FORMS)
def test_there_and_back_again(tmp_path: Path, form: str):
    run = fb.import_run(planted(tmp_path, form=form), to=tmp_path / "run")
    assert run.facts["milestone"] == "word2vec"
    assert (run.facts["fields"]["width"], run.facts["fields"]["output"]) == (4, "given")
    assert run.parameters == run.facts["parameters"] == 4 * len(WORDS)
    assert list(run.words.words) == WORDS
    assert run.words.matrix.tobytes() == table(len(WORDS)).tobytes()
    assert run.words.counts is None
    assert set(run.tokenizer.roles) == {"unknown", "end"}
    for other in word_vectors.FORMS:
        run.export(tmp_path / other, format=other)
        again = word_vectors.read(tmp_path / other)
        assert (again.words, again.matrix.tobytes()) == (WORDS, table(len(WORDS)).tobytes())
    back = fb.import_run(tmp_path / "safetensors", to=tmp_path / "back")
    assert back.facts["weights"] == run.facts["weights"]


def test_ids_and_rows_agree(tmp_path: Path):
    run = fb.import_run(planted(tmp_path), to=tmp_path / "run")
    ids = run.tokenizer.encode("The KING 北京 zebra</s>").ids
    assert [run.tokenizer.token(i) for i in ids.tolist()][:4] == ["the", "king", "北京", "[UNK]"]
    matrix = run.network.matrix
    assert matrix.shape == (run.tokenizer.size, 4)
    assert matrix[ids[1]].tolist() == table(len(WORDS))[WORDS.index("king")].tolist()
    assert not matrix[list(run.tokenizer.specials)].any()
    (small, unknown) = run.facts["notes"]
    assert "Chinese by rjieba, all in small letters" in small
    assert unknown.startswith("<unk> is a word like others")


def test_capital_letters_stay_where_the_file_has_them(tmp_path: Path):
    run = fb.import_run(planted(tmp_path, ["The", "the", "it"]), to=tmp_path / "run")
    assert run.tokenizer.encode("The the IT").texts == ["The", "the", "[UNK]"]


def test_any_word_can_be_in_a_run(tmp_path: Path):
    counts = np.arange(len(ODD))
    run = fb.import_run(planted(tmp_path, ODD, "safetensors", counts=counts), to=tmp_path / "run")
    assert list(run.words.words) == ODD
    assert np.asarray(run.words.counts).tolist() == counts.tolist()
    assert {run.tokenizer.token(i) for i in run.tokenizer.specials}.isdisjoint(ODD)
    run.export(tmp_path / "out", format="safetensors")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "vectors").read_bytes()
    run.export(tmp_path / "text", format="glove")
    assert any("written otherwise" in note for note in run.notes)
    assert any("not kept" in note for note in run.notes)


def test_much_text_is_parsed_by_the_loops_and_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = planted(tmp_path, [f"w{row}" for row in range(500)])
    plain = fb.import_run(path, to=tmp_path / "plain")
    compiled = []
    monkeypatch.setattr(exchanging_vectors, "MUCH", 0)
    monkeypatch.setattr("forebear.kernels.decimals.compiled", lambda loops: compiled.append(1) or loops)
    fast = fb.import_run(path, to=tmp_path / "fast")
    assert compiled
    assert fast.facts["weights"] == plain.facts["weights"]


def test_what_a_run_of_given_vectors_cannot_do(tmp_path: Path):
    path = planted(tmp_path)
    run = fb.import_run(path, to=tmp_path / "run")
    with pytest.raises(BadInput, match="nothing to learn"):
        fb.pretrain("word2vec", path, to=tmp_path / "more", output="given")
    with pytest.raises(BadInput, match="cannot be written as 'arpa'"):
        run.export(tmp_path / "out", format="arpa")
    with pytest.raises(BadInput, match="exists already"):
        run.export(path, format="glove")
    with pytest.raises(BadInput, match="exists already"):
        fb.import_run(path, to=tmp_path / "run")
    weights = RunFolder.open(tmp_path / "run").path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(ForebearError):
        _ = Run.open(tmp_path / "run").words


@pytest.mark.parametrize(("begins", "said"), [(b"\x80\x04\x95", "pickle"), (b"PK\x03\x04", "zip archive")])
def test_what_other_programs_keep_for_themselves_is_refused(tmp_path: Path, begins: bytes, said: str):
    (tmp_path / "theirs").write_bytes(begins + bytes(100))
    with pytest.raises(BadInput, match=said):
        fb.import_run(tmp_path / "theirs", to=tmp_path / "run")


def test_nothing_is_left_of_an_import_that_fails(tmp_path: Path):
    (tmp_path / "bad").write_text("2 2\na 1 2\nb 1 x\n", encoding="utf-8")
    with pytest.raises(BadInput, match="'x' stands where a number") as caught:
        fb.import_run(tmp_path / "bad", to=tmp_path / "runs" / "bad")
    assert caught.value.line == 3
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_a_trained_run_is_exported_and_gensim_finds_its_neighbours(tmp_path: Path):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    text = tmp_path / "text.txt"
    lines = [f"the {a} saw the {b} of the {c}" for a in "abcd" for b in "efgh" for c in "ijkl"]
    text.write_text("\n".join(lines), encoding="utf-8")
    how: dict[str, Any] = {"width": 12, "min_count": 1, "epochs": 3, "threads": 1}
    run = fb.pretrain("word2vec", text, to=tmp_path / "run", **how)
    assert form_of(run) == "word2vec"
    run.export(tmp_path / "out.txt")
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "out.txt"))
    assert theirs.index_to_key == list(run.words.words)
    assert theirs.vectors.tobytes() == run.words.matrix.tobytes()
    again = fb.import_run(tmp_path / "out.txt", to=tmp_path / "again")
    assert again.words.matrix.tobytes() == run.words.matrix.tobytes()


@pytest.mark.parametrize("milestone", ["onehot", "glove", "nnlm"])
def test_every_run_with_words_is_exported(tmp_path: Path, milestone: str):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(["the cat saw the dog", "a dog saw a cat"] * 20), encoding="utf-8")
    settings: dict[str, dict[str, Any]] = {
        "onehot": {"min_count": 1},
        "glove": {"min_count": 1, "width": 3, "epochs": 1},
        "nnlm": {"tokenizer": "words", "steps": 2},
    }
    run = fb.pretrain(milestone, text, to=tmp_path / "run", **settings[milestone])
    run.export(tmp_path / "out", format="word2vec-binary")
    found = word_vectors.read(tmp_path / "out")
    assert found.words == list(run.words.words)
    assert {"the", "cat", "saw", "dog", "a"} <= set(found.words)
    assert np.array_equal(found.matrix, np.asarray(run.words.matrix[:], np.float32))


# -- the command line


def test_commands(tmp_path: Path, capsys: Captured):
    path = planted(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"king", b"k\xffng"))
    run = tmp_path / "run"
    assert "is no UTF-8" in refused(capsys, "import", path, "--to", run)
    asked = ["--on-bad-bytes", "skip", "--limit", "6", "--format", "word2vec"]
    facts = told(capsys, "import", path, "--to", run, *asked)
    assert (facts["milestone"], facts["parameters"]) == ("word2vec", 24)
    assert facts["notes"][0] == "1 word is no UTF-8, left out (line 7)"
    said(capsys, "export", run, "--format", "glove", "--to", tmp_path / "out.txt")
    assert word_vectors.read(tmp_path / "out.txt").words == ["the", "北京", "😀", "</s>", "<unk>", "10"]
    assert "--heads is for OpenAI" in refused(capsys, "import", path, "--to", tmp_path / "other", "--heads", "2")
