"""Files of word vectors: what is written is read again to the bit, by us and by gensim, and gensim's files by us."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.errors import InputError
from forebear.interop import word_vectors
from forebear.interop.word_vectors import VECTOR_FORMATS, detect_vector_format, read_word_vectors, write_word_vectors

TEXTS = ("word2vec", "glove", "fasttext")
WORDS = ["the", "北京", "naïve", "😀", "</s>", "<unk>", "10", "1_000", "nan", "e\u0301", "#", '"', "\\", "\u200b"]
ODD = ["New York", "New_York", "a\tb", "line\nend", "\u3000", "", "_", "\ufeffmark", "x\u00a0y", " leads"]
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def table(count: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.3, (count, width)).astype(np.float32)


def path_of(tmp_path: Path, form: str) -> Path:
    names = {"fasttext": "v.vec", "safetensors": "v.safetensors", "word2vec-binary": "v.bin"}
    return tmp_path / names.get(form, "v.txt")


@pytest.mark.parametrize("form", VECTOR_FORMATS)
@pytest.mark.parametrize("width", [1, 2, 7, 300])
def test_written_and_read_to_the_bit(tmp_path: Path, form: str, width: int):
    path, matrix = path_of(tmp_path, form), table(len(WORDS), width)
    assert write_word_vectors(path, form, WORDS, matrix) == []
    assert detect_vector_format(path) == form
    told = read_word_vectors(path)
    assert told.words == WORDS
    assert told.matrix.dtype == np.float32
    assert told.matrix.tobytes() == matrix.tobytes()
    assert (told.file_format, told.notes, told.counts) == (form, [], None)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("packer", ["gz", "zst"])
@pytest.mark.parametrize("form", VECTOR_FORMATS[:4])
def test_packed_files_are_read_and_written(tmp_path: Path, form: str, packer: str):
    path, matrix = tmp_path / f"v.vec.{packer}", table(len(WORDS), 5)
    write_word_vectors(path, form, WORDS, matrix)
    again = tmp_path / f"again.{packer}"
    write_word_vectors(again, form, WORDS, matrix)
    assert path.read_bytes() == again.read_bytes()  # no time of day inside
    assert path.read_bytes()[:2] == {"gz": b"\x1f\x8b", "zst": b"\x28\xb5"}[packer]
    assert detect_vector_format(path) == ("fasttext" if form == "word2vec" else form)
    assert read_word_vectors(path).matrix.tobytes() == matrix.tobytes()
    with pytest.raises(InputError, match="cannot be packed"):
        write_word_vectors(path, "safetensors", WORDS, matrix)


@given(values=st.lists(FLOATS, min_size=1, max_size=40))
def test_numbers_of_text_tell_every_float32(tmp_path_factory: pytest.TempPathFactory, values: list[float]):
    path = tmp_path_factory.getbasetemp() / "numbers.txt"
    for shape in ((len(values), 1), (1, len(values))):
        matrix = np.array(values, np.float32).reshape(shape)
        write_word_vectors(path, "glove", [f"w{row}" for row in range(shape[0])], matrix)
        assert read_word_vectors(path).matrix.tobytes() == matrix.tobytes()


def test_numbers_of_text_are_as_short_as_numpys(tmp_path: Path):
    matrix = table(50, 40) * np.float32(10) ** np.arange(-3, 5, 0.2).astype(np.float32)
    write_word_vectors(tmp_path / "v", "glove", [f"w{row}" for row in range(50)], matrix)
    lines = (tmp_path / "v").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ")[1:] for line in lines] == [
        [str(value).removesuffix(".0") for value in row] for row in matrix
    ]


# -- gensim


@pytest.mark.parametrize("form", VECTOR_FORMATS[:4])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_gensim_reads_ours_and_finds_the_same_neighbours(tmp_path: Path, form: str, packed: str):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    path, matrix = tmp_path / ("v" + packed), table(60, 20)
    words = [*WORDS, *(f"w{row}" for row in range(60 - len(WORDS)))]
    write_word_vectors(path, form, words, matrix)
    binary = form == "word2vec-binary"
    theirs = models.KeyedVectors.load_word2vec_format(str(path), binary=binary, no_header=form == "glove")
    assert theirs.index_to_key == words
    assert theirs.vectors.tobytes() == matrix.tobytes()
    told = read_word_vectors(path)
    unit = told.matrix / np.linalg.norm(told.matrix, axis=1, keepdims=True)
    for row in range(10):
        near = np.argsort(-(unit @ unit[row]), kind="stable")[1:6]
        assert [word for word, _ in theirs.most_similar(told.words[row], topn=5)] == [words[other] for other in near]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("header", [True, False])
def test_gensims_files_are_read(tmp_path: Path, binary: bool, header: bool):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    if binary and not header:
        pytest.skip("there is no such file")
    matrix, theirs = table(len(WORDS), 9), models.KeyedVectors(9)
    theirs.add_vectors(WORDS, matrix)
    theirs.save_word2vec_format(str(tmp_path / "v"), binary=binary, write_header=header)
    told = read_word_vectors(tmp_path / "v")
    assert told.file_format == ("word2vec-binary" if binary else "word2vec" if header else "glove")
    assert (told.words, told.notes) == (WORDS, [])
    assert told.matrix.tobytes() == matrix.tobytes()


def test_gensim_reads_words_that_were_written_otherwise(tmp_path: Path):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    words, matrix = [*ODD, *WORDS], table(len(ODD) + len(WORDS), 4)
    for form in VECTOR_FORMATS[:4]:
        (note,) = write_word_vectors(tmp_path / "v", form, words, matrix)
        assert "8 words are written otherwise" in note
        assert "'New York' as 'New_York_'" in note
        binary = form == "word2vec-binary"
        theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "v"), binary=binary, no_header=form == "glove")
        told = read_word_vectors(tmp_path / "v")
        assert told.words == theirs.index_to_key
        assert told.words[:5] == ["New_York_", "New_York", "a_b", "line_end", "__"]
        assert len(set(told.words)) == len(words)
        assert told.matrix.tobytes() == theirs.vectors.tobytes() == matrix.tobytes()


# -- safetensors


def test_safetensors_keep_any_word_and_counts_and_are_mapped(tmp_path: Path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    words, counts = [*ODD, *WORDS], np.arange(len(ODD) + len(WORDS))[::-1]
    path, matrix = tmp_path / "v.safetensors", table(len(words), 6)
    assert write_word_vectors(path, "safetensors", words, matrix, counts) == []
    told = read_word_vectors(path)
    assert told.words == words
    assert isinstance(told.matrix.base, np.memmap) or isinstance(told.matrix, np.memmap)
    assert told.counts is not None
    assert np.array_equal(told.counts, counts)
    theirs = numpy_files.load_file(path)  # the reference reader agrees
    assert sorted(theirs) == ["counts", "ends", "vectors", "words"]
    assert theirs["vectors"].tobytes() == matrix.tobytes()
    assert theirs["words"].tobytes() == "".join(words).encode()
    assert theirs["ends"][-1] == len(theirs["words"])


@pytest.mark.parametrize("kind", ["float32", "float16", "float64"])
def test_other_safetensors_with_a_vocabulary_beside(tmp_path: Path, kind: str):
    numpy_files = pytest.importorskip("safetensors.numpy")
    matrix = table(3, 4).astype(kind)
    numpy_files.save_file({"embeddings": matrix}, tmp_path / "model.safetensors")
    assert detect_vector_format(tmp_path / "model.safetensors") is None
    with pytest.raises(InputError, match="no words"):
        read_word_vectors(tmp_path / "model.safetensors", form="safetensors")
    (tmp_path / "vocab.txt").write_text("a\nb c\n北\n", encoding="utf-8")
    told = read_word_vectors(tmp_path / "model.safetensors")
    assert told.words == ["a", "b c", "北"]
    assert np.array_equal(told.matrix, matrix.astype(np.float32))
    assert len(told.notes) == (kind != "float32")
    (tmp_path / "model.vocab.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(InputError, match="3 vectors and 1 words"):
        read_word_vectors(tmp_path / "model.safetensors")


def test_counts_are_told_to_be_lost_elsewhere(tmp_path: Path):
    (note,) = write_word_vectors(tmp_path / "v", "glove", ["a"], table(1, 2), np.array([3]))
    assert "not kept" in note


# -- what others' files are like


@pytest.mark.parametrize("width", [100, 300])
def test_gloves_own_files(data: Path, width: int):
    path = data / "weights" / "glove_samples" / f"glove.6B.{width}d.sample.txt.gz"
    if not path.is_file():
        pytest.skip(f"no such sample: {path}")
    told = read_word_vectors(path)
    assert (told.file_format, told.matrix.shape, told.notes) == ("glove", (100, width), [])
    assert told.words[:4] == ["the", ",", ".", "of"]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [[np.float32(number) for number in line.split(" ")[1:]] for line in file]
    assert np.array_equal(told.matrix, np.array(rows, np.float32))


def test_words_with_spaces_are_read_from_the_right(tmp_path: Path):
    (tmp_path / "v").write_text("the 1 2\n. . . 3 4\nat name@domain.com 5 6\nat 7 8 9\n", encoding="utf-8")
    told = read_word_vectors(tmp_path / "v")
    assert told.words == ["the", ". . .", "at name@domain.com", "at 7"]
    assert told.matrix.tolist() == [[1, 2], [3, 4], [5, 6], [8, 9]]
    assert told.notes == [
        "3 words are written with spaces, read as all that stands before the numbers "
        "('. . .', line 2, 'at name@domain.com', line 3, 'at 7', line 4)"
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", " \r\n", "  \n", "\t\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_trailing_spaces_and_marks(tmp_path: Path, end: str, mark: str):
    lines = ["2 3", "</s> 1 2 3", "北 -4e-1 5 6.5"]
    for form, text in (("fasttext", lines), ("glove", lines[1:])):
        (tmp_path / "v.vec").write_bytes((mark + end.join(text) + end).encode())
        told = read_word_vectors(tmp_path / "v.vec")
        assert (told.file_format, told.words, told.notes) == (form, ["</s>", "北"], [])
        assert told.matrix.tolist() == [[1, 2, 3], [np.float32(-0.4), 5, 6.5]]


def test_tabs_blank_lines_and_a_last_line_without_end(tmp_path: Path):
    (tmp_path / "v").write_bytes(b"a\t1\t2\n\nb  3 4\n \nc 5 6")
    told = read_word_vectors(tmp_path / "v")
    assert (told.words, told.matrix.tolist()) == (["a", "b", "c"], [[1, 2], [3, 4], [5, 6]])
    assert [note.split(":")[0] for note in told.notes] == ["2 blank lines are left out", "the last line does not end"]


@pytest.mark.parametrize("beside", [b"", b"x  5 6\n", b"x y 5 6\n", b"x\t5 6\n", b"x 5 6\t\n"])
def test_an_odd_line_changes_no_other_words(tmp_path: Path, beside: bytes):
    (tmp_path / "v").write_bytes(b"o\r 1 2\n" + beside + b"t\tu 3 4\n")
    told = read_word_vectors(tmp_path / "v")
    assert [told.words[0], told.words[-1]] == ["o\r", "t\tu"]
    assert told.matrix[[0, -1]].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_binary_with_and_without_line_ends(tmp_path: Path, newline: bytes):
    rows = [b"%b %b%b" % (word.encode(), table(1, 3).tobytes(), newline) for word in WORDS]
    (tmp_path / "v").write_bytes(b"%d 3\n" % len(WORDS) + b"".join(rows))
    assert read_word_vectors(tmp_path / "v").words == WORDS


def test_the_first_of_equal_words_is_kept(tmp_path: Path):
    words, matrix = [f"w{row % 700}" for row in range(1000)], table(1000, 3)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, matrix, strict=True)]
    (tmp_path / "v").write_text(f"1000 3\n{''.join(lines)}", encoding="utf-8")
    told = read_word_vectors(tmp_path / "v")
    assert told.words == words[:700]
    assert np.array_equal(told.matrix, matrix[:700])
    assert told.notes == [
        "300 words are there again, the first is kept ('w0', line 702, 'w1', line 703, 'w2', line 704, …)"
    ]


@pytest.mark.parametrize("form", VECTOR_FORMATS)
def test_a_limit_takes_the_first_words(tmp_path: Path, form: str):
    path, matrix = path_of(tmp_path, form), table(len(WORDS), 3)
    write_word_vectors(path, form, WORDS, matrix)
    told = read_word_vectors(path, limit=5)
    assert told.words == WORDS[:5]
    assert np.array_equal(told.matrix, matrix[:5])
    assert read_word_vectors(path, limit=500).words == WORDS
    with pytest.raises(InputError, match="limit"):
        read_word_vectors(path, limit=0)


@pytest.mark.parametrize("form", VECTOR_FORMATS)
def test_progress_reaches_the_end(tmp_path: Path, form: str):
    path, told = path_of(tmp_path, form), []
    write_word_vectors(path, form, WORDS, table(len(WORDS), 3))
    read_word_vectors(path, progress=lambda done, size: told.append((done, size)))
    assert told[-1] == (path.stat().st_size,) * 2


# -- which is which


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b"2 1\na 0.5\nb 1\n", "word2vec"),  # N and D are true
        (b"5 1\na 0.5\nb 1\n", "glove"),  # a word 5 with the number 1
        (b"5 3\na 0.5\nb 1\n", "glove"),
        (b"5 3.0\n", "glove"),
        (b"a 1\n", "glove"),
        (b"3 2\na 1 2\nb 1 2\n", "word2vec"),  # cut short, and still word2vec's
        (b"1 1\nw \x00\x00\x00\x00", "word2vec-binary"),
        (b"1 1\nw abcd", "word2vec-binary"),
        (b"2 1\nw abcd\nv efgh\n", "word2vec-binary"),
        (b"Chapter 1\nIt was a dark night.\n", None),
        (b"\\data\\\nngram 1=5\n", None),
        (b"", None),
        (b"\n\n", None),
        (b"just words\nof a text\n", None),
        (b'{"a": 1}', None),
        (b"PK\x03\x04 1 2\n", None),
        (b"\x1f\x8b broken", None),
        (bytes(range(256)), None),
    ],
)
def test_recognised_by_what_is_inside(tmp_path: Path, content: bytes, form: str | None):
    (tmp_path / "v.vec.txt").write_bytes(content)
    assert detect_vector_format(tmp_path / "v.vec.txt") == form


def test_neither_folders_nor_models_are_word_vectors(tmp_path: Path):
    assert detect_vector_format(tmp_path) is None
    assert detect_vector_format(tmp_path / "absent") is None
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    assert detect_vector_format(tmp_path / "m") is None


def test_nothing_is_left_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "v"
    path.write_text("before", encoding="utf-8")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(word_vectors.text, "write_text_vectors", full)
    with pytest.raises(OSError, match="No space"):
        write_word_vectors(path, "glove", ["a"], table(1, 2))
    assert path.read_text(encoding="utf-8") == "before"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("form", ["word2vec", "glove", "fasttext"])
def test_bytes_are_not_read_as_text(tmp_path: Path, form: str):
    matrix = np.random.default_rng(0).standard_normal((200, 50)).astype(np.float32)
    write_word_vectors(tmp_path / "vectors.bin", "word2vec-binary", [f"w{number}" for number in range(200)], matrix)
    with pytest.raises(InputError, match=f"holds bytes that no text has, and is no {form}") as told:
        read_word_vectors(tmp_path / "vectors.bin", form=form)
    assert "give word2vec-binary" in told.value.hint
