"""Word vectors of other programs become runs, and runs with word vectors are exported to files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import forebear as fb
from command_line import Captured, json_output, printed_output, refusal_message
from forebear.cli.main import main
from forebear.errors import ForebearError, InputError
from forebear.inference.run import Run
from forebear.interop import word_vectors
from forebear.interop.convert import default_export_format
from forebear.kernels import float_text
from forebear.training.run_folder import RunFolder

WORDS = ["the", "北京", "😀", "</s>", "<unk>", "king", "10", "naïve"]
UNUSUAL_WORDS = [
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


def random_matrix(count: int, size: int = 4) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.3, (count, size)).astype(np.float32)


def write_vectors(folder: Path, words: list[str] = WORDS, file_format: str = "word2vec", **options: Any) -> Path:
    word_vectors.write_word_vectors(folder / "vectors", file_format, words, random_matrix(len(words)), **options)
    return folder / "vectors"


@pytest.mark.parametrize("file_format", word_vectors.VECTOR_FORMATS)
def test_word_vectors_of_every_format_are_imported_and_exported_unchanged(tmp_path: Path, file_format: str):
    run = fb.import_run(write_vectors(tmp_path, file_format=file_format), to=tmp_path / "run")
    assert run.metadata["milestone"] == "word2vec"
    assert (run.metadata["fields"]["width"], run.metadata["fields"]["output"]) == (4, "given")
    assert run.num_parameters == run.metadata["parameters"] == 4 * len(WORDS)
    assert list(run.word_table.words) == WORDS
    assert run.word_table.matrix.tobytes() == random_matrix(len(WORDS)).tobytes()
    assert run.word_table.counts is None
    assert set(run.tokenizer.special_roles) == {"unknown", "end"}
    for export_format in word_vectors.VECTOR_FORMATS:
        run.export(tmp_path / export_format, format=export_format)
        vectors = word_vectors.read_word_vectors(tmp_path / export_format)
        assert (vectors.words, vectors.matrix.tobytes()) == (WORDS, random_matrix(len(WORDS)).tobytes())
    imported_run = fb.import_run(tmp_path / "safetensors", to=tmp_path / "back")
    assert imported_run.metadata["weights"] == run.metadata["weights"]


def test_token_ids_select_the_imported_vectors(tmp_path: Path):
    run = fb.import_run(write_vectors(tmp_path), to=tmp_path / "run")
    ids = run.tokenizer.encode("The KING 北京 zebra</s>").ids
    assert [run.tokenizer.id_to_token(i) for i in ids.tolist()][:4] == ["the", "king", "北京", "[UNK]"]
    matrix = run.network.matrix
    assert matrix.shape == (run.tokenizer.vocab_size, 4)
    assert matrix[ids[1]].tolist() == random_matrix(len(WORDS))[WORDS.index("king")].tolist()
    assert not matrix[list(run.tokenizer.special_ids)].any()
    (tokenizer_note, unknown_note) = run.metadata["notes"]
    assert "Chinese by rjieba, all in small letters" in tokenizer_note
    assert unknown_note.startswith("<unk> is a word like others")


def test_imported_vectors_with_capitals_are_cased(tmp_path: Path):
    run = fb.import_run(write_vectors(tmp_path, ["The", "the", "it"]), to=tmp_path / "run")
    assert run.tokenizer.encode("The the IT").texts == ["The", "the", "[UNK]"]


def test_unusual_words_survive_import_and_export(tmp_path: Path):
    counts = np.arange(len(UNUSUAL_WORDS))
    run = fb.import_run(write_vectors(tmp_path, UNUSUAL_WORDS, "safetensors", counts=counts), to=tmp_path / "run")
    assert list(run.word_table.words) == UNUSUAL_WORDS
    assert np.asarray(run.word_table.counts).tolist() == counts.tolist()
    assert {run.tokenizer.id_to_token(i) for i in run.tokenizer.special_ids}.isdisjoint(UNUSUAL_WORDS)
    run.export(tmp_path / "out", format="safetensors")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "vectors").read_bytes()
    run.export(tmp_path / "text", format="glove")
    assert any("written otherwise" in note for note in run.notes)
    assert any("not kept" in note for note in run.notes)


def test_large_vector_files_are_parsed_by_the_kernel_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write_vectors(tmp_path, [f"w{row}" for row in range(500)])
    interpreted = fb.import_run(path, to=tmp_path / "plain")
    kernel_uses, compile_kernel = [], float_text.compile_kernel
    monkeypatch.setattr(word_vectors, "COMPILED_MIN_BYTES", 0)
    monkeypatch.setattr(float_text, "compile_kernel", lambda loops: kernel_uses.append(1) or compile_kernel(loops))
    compiled_run = fb.import_run(path, to=tmp_path / "fast")
    assert kernel_uses
    assert compiled_run.metadata["weights"] == interpreted.metadata["weights"]


def test_imported_vectors_refuse_training_and_invalid_export(tmp_path: Path):
    path = write_vectors(tmp_path)
    run = fb.import_run(path, to=tmp_path / "run")
    with pytest.raises(
        InputError, match="--output given is that of imported vectors: there is nothing to learn"
    ) as caught:
        fb.pretrain("word2vec", path, to=tmp_path / "more", output="given")
    assert caught.value.file is None
    with pytest.raises(InputError, match="with one table of vectors") as caught:
        fb.pretrain("word2vec", path, to=tmp_path / "more", from_run=tmp_path / "run")
    assert caught.value.file == str(tmp_path / "run")
    assert "train anew" in caught.value.hint
    assert "adapt" in caught.value.hint
    with pytest.raises(InputError, match="output is 'x'") as caught:
        fb.pretrain("word2vec", path, to=tmp_path / "more", output="x")
    assert caught.value.hint == "there are: negatives, tree"
    for architecture in ("", "given"):
        with pytest.raises(InputError, match="architecture is"):
            fb.pretrain("word2vec", path, to=tmp_path / "more", architecture=architecture)
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


@pytest.mark.parametrize(("magic", "message"), [(b"\x80\x04\x95", "pickle"), (b"PK\x03\x04", "zip archive")])
def test_pickles_and_zip_archives_are_refused_as_word_vectors(tmp_path: Path, magic: bytes, message: str):
    (tmp_path / "theirs").write_bytes(magic + bytes(100))
    with pytest.raises(InputError, match=message):
        fb.import_run(tmp_path / "theirs", to=tmp_path / "run")


FASTTEXT = (793712314).to_bytes(4, "little") + (12).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
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
def test_import_command_names_the_invalid_vector_file(
    tmp_path: Path, capsys: Captured, name: str, content: bytes, message: str, hint: str
):
    (tmp_path / name).write_bytes(content)
    for limit_options in ((), ("--limit", "3")) if name != "odd.xyz" else ((),):
        printed = refusal_message(capsys, "import", str(tmp_path / name), "--to", str(tmp_path / "run"), *limit_options)
        assert f"{name}: {message}" in printed, printed
        assert hint in printed
    if "fastText" in message:  # also where it is called a .vec
        printed_with_format = refusal_message(
            capsys, "import", str(tmp_path / name), "--to", str(tmp_path / "run"), "--format", "fasttext"
        )
        assert message in printed_with_format


@pytest.mark.parametrize("name", ["wiki.vec", "glove.6B.300d.txt", "words.txt.gz", "some/where/vectors"])
def test_import_of_a_missing_vector_file_does_not_ask_the_hub(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.chdir(tmp_path)
    printed = refusal_message(capsys, "import", name, "--to", "run", "--limit", "3")
    assert f"{name}: there is no such folder or file" in printed
    assert "word vectors" in printed


@pytest.mark.parametrize("file_format", ["word2vec", "word2vec-binary", "safetensors"])
def test_import_notes_words_with_zero_vectors(tmp_path: Path, file_format: str):
    matrix = random_matrix(5)
    matrix[[1, 4]] = 0
    word_vectors.write_word_vectors(tmp_path / "v", file_format, list("abcde"), matrix)
    run = fb.import_run(tmp_path / "v", to=tmp_path / "run")
    assert "2 words are given a vector of zeros, which is near to nothing ('b', 'e')" in run.metadata["notes"]
    limited_run = fb.import_run(tmp_path / "v", to=tmp_path / "few", limit=4)
    assert "1 word is given a vector of zeros, which is near to nothing ('b')" in limited_run.metadata["notes"]


def test_failed_import_leaves_no_files(tmp_path: Path):
    (tmp_path / "bad").write_text("2 2\na 1 2\nb 1 x\n", encoding="utf-8")
    with pytest.raises(InputError, match="'x' stands where a number") as caught:
        fb.import_run(tmp_path / "bad", to=tmp_path / "runs" / "bad")
    assert caught.value.line == 3
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_gensim_reads_the_exported_vectors_of_a_trained_run(tmp_path: Path):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    text = tmp_path / "text.txt"
    lines = [f"the {a} saw the {b} of the {c}" for a in "abcd" for b in "efgh" for c in "ijkl"]
    text.write_text("\n".join(lines), encoding="utf-8")
    settings: dict[str, Any] = {"width": 12, "min_count": 1, "epochs": 3, "threads": 1}
    run = fb.pretrain("word2vec", text, to=tmp_path / "run", **settings)
    assert default_export_format(run) == "word2vec"
    run.export(tmp_path / "out.txt")
    gensim_vectors = models.KeyedVectors.load_word2vec_format(str(tmp_path / "out.txt"))
    assert gensim_vectors.index_to_key == list(run.word_table.words)
    assert gensim_vectors.vectors.tobytes() == run.word_table.matrix.tobytes()
    imported = fb.import_run(tmp_path / "out.txt", to=tmp_path / "again")
    assert imported.word_table.matrix.tobytes() == run.word_table.matrix.tobytes()


@pytest.mark.parametrize("model_name", ["onehot", "glove", "nnlm"])
def test_every_model_with_word_vectors_is_exported(tmp_path: Path, model_name: str):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(["the cat saw the dog", "a dog saw a cat"] * 20), encoding="utf-8")
    settings: dict[str, dict[str, Any]] = {
        "onehot": {"min_count": 1},
        "glove": {"min_count": 1, "width": 3, "epochs": 1},
        "nnlm": {"tokenizer": "words", "steps": 2},
    }
    run = fb.pretrain(model_name, text, to=tmp_path / "run", **settings[model_name])
    run.export(tmp_path / "out", format="word2vec-binary")
    vectors = word_vectors.read_word_vectors(tmp_path / "out")
    assert vectors.words == list(run.word_table.words)
    assert {"the", "cat", "saw", "dog", "a"} <= set(vectors.words)
    assert np.array_equal(vectors.matrix, np.asarray(run.word_table.matrix[:], np.float32))


# -- command line


def test_export_command_warns_of_large_files(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(word_vectors, "LARGE_EXPORT_BYTES", 300)
    path, text = write_vectors(tmp_path, [f"w{number}" for number in range(90)]), tmp_path / "text.txt"
    text.write_text("\n\n".join(f"w{number} w{number // 2}" for number in range(90)), encoding="utf-8")
    fb.import_run(path, to=tmp_path / "run")
    fb.pretrain("onehot", text, to=tmp_path / "onehot", min_count=1)
    for number, (run, file_format, warning) in enumerate(
        (
            ("run", "word2vec", "90 words of 4 numbers; --format safetensors takes 0 MB"),
            ("run", "safetensors", "90 words of 4 numbers"),
            ("onehot", "glove", " numbers, all of them 0 but one; packed it is far smaller: --to out2.gz"),
        )
    ):
        capsys.readouterr()
        assert (
            main(["export", str(tmp_path / run), "--format", file_format, "--to", str(tmp_path / f"out{number}")]) == 0
        )
        assert warning in capsys.readouterr().err
    assert main(["export", str(tmp_path / "onehot"), "--format", "glove", "--to", str(tmp_path / "out.gz")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("file_format", word_vectors.VECTOR_FORMATS)
@pytest.mark.parametrize("matrix", [random_matrix(300, 40), np.eye(300, dtype=np.float32)])
def test_estimated_size_of_vector_files_is_within_ten_percent(tmp_path: Path, file_format: str, matrix: np.ndarray):
    words = [f"word{number}" for number in range(300)]
    word_vectors.write_word_vectors(tmp_path / "v", file_format, words, matrix)
    assert word_vectors.estimate_file_size(file_format, words, matrix) == pytest.approx(
        (tmp_path / "v").stat().st_size, rel=0.1
    )


def test_import_command_skips_bad_bytes_and_export_command_writes_the_rest(tmp_path: Path, capsys: Captured):
    path = write_vectors(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"king", b"k\xffng"))
    run = tmp_path / "run"
    assert "is no UTF-8" in refusal_message(capsys, "import", path, "--to", run)
    options = ["--on-bad-bytes", "skip", "--limit", "6", "--format", "word2vec"]
    output = json_output(capsys, "import", path, "--to", run, *options)
    assert (output["milestone"], output["parameters"]) == ("word2vec", 24)
    assert output["notes"][0] == "1 word is no UTF-8, left out (line 7)"
    printed_output(capsys, "export", run, "--format", "glove", "--to", tmp_path / "out.txt")
    assert word_vectors.read_word_vectors(tmp_path / "out.txt").words == ["the", "北京", "😀", "</s>", "<unk>", "10"]
    assert "--heads is for OpenAI" in refusal_message(
        capsys, "import", path, "--to", tmp_path / "other", "--heads", "2"
    )
