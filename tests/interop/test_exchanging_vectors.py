"""Word vectors from other programs become runs, and runs with words become files of word vectors."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import forebear as fb
from command_line import Captured, refused, said, told
from forebear.cli.main import main
from forebear.errors import ForebearError, InputError
from forebear.inference.run import Run
from forebear.interop import word_vectors
from forebear.interop.convert import default_export_format
from forebear.training.run_folder import RunFolder

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
    word_vectors.write_word_vectors(folder / "vectors", form, words, table(len(words)), **more)
    return folder / "vectors"


@pytest.mark.parametrize("form", word_vectors.VECTOR_FORMATS)
def test_there_and_back_again(tmp_path: Path, form: str):
    run = fb.import_run(planted(tmp_path, form=form), to=tmp_path / "run")
    assert run.metadata["milestone"] == "word2vec"
    assert (run.metadata["fields"]["width"], run.metadata["fields"]["output"]) == (4, "given")
    assert run.num_parameters == run.metadata["parameters"] == 4 * len(WORDS)
    assert list(run.word_table.words) == WORDS
    assert run.word_table.matrix.tobytes() == table(len(WORDS)).tobytes()
    assert run.word_table.counts is None
    assert set(run.tokenizer.special_roles) == {"unknown", "end"}
    for other in word_vectors.VECTOR_FORMATS:
        run.export(tmp_path / other, format=other)
        again = word_vectors.read_word_vectors(tmp_path / other)
        assert (again.words, again.matrix.tobytes()) == (WORDS, table(len(WORDS)).tobytes())
    back = fb.import_run(tmp_path / "safetensors", to=tmp_path / "back")
    assert back.metadata["weights"] == run.metadata["weights"]


def test_ids_and_rows_agree(tmp_path: Path):
    run = fb.import_run(planted(tmp_path), to=tmp_path / "run")
    ids = run.tokenizer.encode("The KING 北京 zebra</s>").ids
    assert [run.tokenizer.id_to_token(i) for i in ids.tolist()][:4] == ["the", "king", "北京", "[UNK]"]
    matrix = run.network.matrix
    assert matrix.shape == (run.tokenizer.vocab_size, 4)
    assert matrix[ids[1]].tolist() == table(len(WORDS))[WORDS.index("king")].tolist()
    assert not matrix[list(run.tokenizer.special_ids)].any()
    (small, unknown) = run.metadata["notes"]
    assert "Chinese by rjieba, all in small letters" in small
    assert unknown.startswith("<unk> is a word like others")


def test_capital_letters_stay_where_the_file_has_them(tmp_path: Path):
    run = fb.import_run(planted(tmp_path, ["The", "the", "it"]), to=tmp_path / "run")
    assert run.tokenizer.encode("The the IT").texts == ["The", "the", "[UNK]"]


def test_any_word_can_be_in_a_run(tmp_path: Path):
    counts = np.arange(len(ODD))
    run = fb.import_run(planted(tmp_path, ODD, "safetensors", counts=counts), to=tmp_path / "run")
    assert list(run.word_table.words) == ODD
    assert np.asarray(run.word_table.counts).tolist() == counts.tolist()
    assert {run.tokenizer.id_to_token(i) for i in run.tokenizer.special_ids}.isdisjoint(ODD)
    run.export(tmp_path / "out", format="safetensors")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "vectors").read_bytes()
    run.export(tmp_path / "text", format="glove")
    assert any("written otherwise" in note for note in run.notes)
    assert any("not kept" in note for note in run.notes)


def test_much_text_is_parsed_by_the_loops_and_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = planted(tmp_path, [f"w{row}" for row in range(500)])
    plain = fb.import_run(path, to=tmp_path / "plain")
    compiled = []
    monkeypatch.setattr(word_vectors, "COMPILED_MIN_BYTES", 0)
    monkeypatch.setattr("forebear.kernels.float_text.compile_kernel", lambda loops: compiled.append(1) or loops)
    fast = fb.import_run(path, to=tmp_path / "fast")
    assert compiled
    assert fast.metadata["weights"] == plain.metadata["weights"]


def test_what_a_run_of_given_vectors_cannot_do(tmp_path: Path):
    path = planted(tmp_path)
    run = fb.import_run(path, to=tmp_path / "run")
    with pytest.raises(
        InputError, match="--output given is that of imported vectors: there is nothing to learn"
    ) as told:
        fb.pretrain("word2vec", path, to=tmp_path / "more", output="given")
    assert told.value.file is None
    with pytest.raises(InputError, match="with one table of vectors") as told:
        fb.pretrain("word2vec", path, to=tmp_path / "more", from_run=tmp_path / "run")
    assert told.value.file == str(tmp_path / "run")
    assert "train anew" in told.value.hint
    assert "adapt" in told.value.hint
    with pytest.raises(InputError, match="output is 'x'") as told:
        fb.pretrain("word2vec", path, to=tmp_path / "more", output="x")
    assert told.value.hint == "there are: negatives, tree"
    for odd in ("", "given"):
        with pytest.raises(InputError, match="architecture is"):
            fb.pretrain("word2vec", path, to=tmp_path / "more", architecture=odd)
    assert "given" not in str(fb.explain("word2vec").fields["output"])
    with pytest.raises(InputError, match="cannot be written as 'arpa'"):
        run.export(tmp_path / "out", format="arpa")
    with pytest.raises(InputError, match="exists already"):
        run.export(path, format="glove")
    with pytest.raises(InputError, match="exists already"):
        fb.import_run(path, to=tmp_path / "run")
    weights = RunFolder.open(tmp_path / "run").path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(ForebearError):
        _ = Run.open(tmp_path / "run").word_table


@pytest.mark.parametrize(("begins", "said"), [(b"\x80\x04\x95", "pickle"), (b"PK\x03\x04", "zip archive")])
def test_what_other_programs_keep_for_themselves_is_refused(tmp_path: Path, begins: bytes, said: str):
    (tmp_path / "theirs").write_bytes(begins + bytes(100))
    with pytest.raises(InputError, match=said):
        fb.import_run(tmp_path / "theirs", to=tmp_path / "run")


FASTTEXT = (793712314).to_bytes(4, "little") + (12).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("name", "content", "what", "hint"),
    [
        ("nothing.vec", b"", "the file is empty", "fetch or write it again"),
        ("blank.txt", b"\n \n", "the file is empty", "fetch or write it again"),
        ("cut.vec.gz", gzip.compress(b"a 1 2\n" * 99, mtime=0)[:-20], "the packed file is damaged", "cut short"),
        ("cut.vec.zst", zstandard.compress(b"a 1 2\n" * 99)[:-9], "the packed file is damaged", "cut short"),
        ("odd.xyz", b"a text\nof it\n", "neither word vectors nor an ARPA file: it begins with 'a text'", "--format"),
        ("wiki.en.bin", FASTTEXT, "is fastText's own model", "(wiki.en.vec)"),
        ("wiki.en.bin.gz", gzip.compress(FASTTEXT, mtime=0), "is fastText's own model", "(wiki.en.vec)"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_of_that_file(
    tmp_path: Path, capsys: Captured, name: str, content: bytes, what: str, hint: str
):
    (tmp_path / name).write_bytes(content)
    for more in ((), ("--limit", "3")) if name != "odd.xyz" else ((),):
        complaint = refused(capsys, "import", str(tmp_path / name), "--to", str(tmp_path / "run"), *more)
        assert f"{name}: {what}" in complaint, complaint
        assert hint in complaint
    if "fastText" in what:  # also where it is called a .vec
        said_so = refused(capsys, "import", str(tmp_path / name), "--to", str(tmp_path / "run"), "--format", "fasttext")
        assert what in said_so


@pytest.mark.parametrize("name", ["wiki.vec", "glove.6B.300d.txt", "words.txt.gz", "some/where/vectors"])
def test_a_file_that_is_not_there_is_looked_for_nowhere_else(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.chdir(tmp_path)
    complaint = refused(capsys, "import", name, "--to", "run", "--limit", "3")
    assert f"{name}: there is no such folder or file" in complaint
    assert "word vectors" in complaint


@pytest.mark.parametrize("form", ["word2vec", "word2vec-binary", "safetensors"])
def test_words_whose_vectors_are_zeros_are_counted(tmp_path: Path, form: str):
    matrix = table(5)
    matrix[[1, 4]] = 0
    word_vectors.write_word_vectors(tmp_path / "v", form, list("abcde"), matrix)
    run = fb.import_run(tmp_path / "v", to=tmp_path / "run")
    assert "2 words are given a vector of zeros, which is near to nothing ('b', 'e')" in run.metadata["notes"]
    few = fb.import_run(tmp_path / "v", to=tmp_path / "few", limit=4)
    assert "1 word is given a vector of zeros, which is near to nothing ('b')" in few.metadata["notes"]


def test_nothing_is_left_of_an_import_that_fails(tmp_path: Path):
    (tmp_path / "bad").write_text("2 2\na 1 2\nb 1 x\n", encoding="utf-8")
    with pytest.raises(InputError, match="'x' stands where a number") as caught:
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
    assert default_export_format(run) == "word2vec"
    run.export(tmp_path / "out.txt")
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "out.txt"))
    assert theirs.index_to_key == list(run.word_table.words)
    assert theirs.vectors.tobytes() == run.word_table.matrix.tobytes()
    again = fb.import_run(tmp_path / "out.txt", to=tmp_path / "again")
    assert again.word_table.matrix.tobytes() == run.word_table.matrix.tobytes()


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
    found = word_vectors.read_word_vectors(tmp_path / "out")
    assert found.words == list(run.word_table.words)
    assert {"the", "cat", "saw", "dog", "a"} <= set(found.words)
    assert np.array_equal(found.matrix, np.asarray(run.word_table.matrix[:], np.float32))


# -- the command line


def test_what_is_large_is_told_before_it_is_written(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(word_vectors, "LARGE_EXPORT_BYTES", 300)
    path, text = planted(tmp_path, [f"w{number}" for number in range(90)]), tmp_path / "text.txt"
    text.write_text("\n\n".join(f"w{number} w{number // 2}" for number in range(90)), encoding="utf-8")
    fb.import_run(path, to=tmp_path / "run")
    fb.pretrain("onehot", text, to=tmp_path / "onehot", min_count=1)
    for number, (run, form, what) in enumerate(
        (
            ("run", "word2vec", "90 words of 4 numbers; --format safetensors takes 0 MB"),
            ("run", "safetensors", "90 words of 4 numbers"),
            ("onehot", "glove", " numbers, all of them 0 but one; packed it is far smaller: --to out2.gz"),
        )
    ):
        capsys.readouterr()
        assert main(["export", str(tmp_path / run), "--format", form, "--to", str(tmp_path / f"out{number}")]) == 0
        assert what in capsys.readouterr().err
    assert main(["export", str(tmp_path / "onehot"), "--format", "glove", "--to", str(tmp_path / "out.gz")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("form", word_vectors.VECTOR_FORMATS)
@pytest.mark.parametrize("matrix", [table(300, 40), np.eye(300, dtype=np.float32)])
def test_the_size_that_is_told_is_about_that_of_the_file(tmp_path: Path, form: str, matrix: np.ndarray):
    words = [f"word{number}" for number in range(300)]
    word_vectors.write_word_vectors(tmp_path / "v", form, words, matrix)
    assert word_vectors.estimate_file_size(form, words, matrix) == pytest.approx(
        (tmp_path / "v").stat().st_size, rel=0.1
    )


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
    assert word_vectors.read_word_vectors(tmp_path / "out.txt").words == ["the", "北京", "😀", "</s>", "<unk>", "10"]
    assert "--heads is for OpenAI" in refused(capsys, "import", path, "--to", tmp_path / "other", "--heads", "2")
