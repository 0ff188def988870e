"""Files of word vectors: read and written bit for bit, by forebear and by gensim."""

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
UNUSUAL_WORDS = ["New York", "New_York", "a\tb", "line\nend", "\u3000", "", "_", "\ufeffmark", "x\u00a0y", " leads"]
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def random_matrix(count: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.3, (count, width)).astype(np.float32)


def path_for_format(tmp_path: Path, file_format: str) -> Path:
    names = {"fasttext": "v.vec", "safetensors": "v.safetensors", "word2vec-binary": "v.bin"}
    return tmp_path / names.get(file_format, "v.txt")


@pytest.mark.parametrize("file_format", VECTOR_FORMATS)
@pytest.mark.parametrize("width", [1, 2, 7, 300])
def test_word_vectors_write_and_read_round_trip_is_bit_for_bit(tmp_path: Path, file_format: str, width: int):
    path, matrix = path_for_format(tmp_path, file_format), random_matrix(len(WORDS), width)
    assert write_word_vectors(path, file_format, WORDS, matrix) == []
    assert detect_vector_format(path) == file_format
    vectors = read_word_vectors(path)
    assert vectors.words == WORDS
    assert vectors.matrix.dtype == np.float32
    assert vectors.matrix.tobytes() == matrix.tobytes()
    assert (vectors.file_format, vectors.notes, vectors.counts) == (file_format, [], None)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["gz", "zst"])
@pytest.mark.parametrize("file_format", VECTOR_FORMATS[:4])
def test_compressed_word_vectors_are_read_and_written_reproducibly(tmp_path: Path, file_format: str, suffix: str):
    path, matrix = tmp_path / f"v.vec.{suffix}", random_matrix(len(WORDS), 5)
    write_word_vectors(path, file_format, WORDS, matrix)
    second_path = tmp_path / f"again.{suffix}"
    write_word_vectors(second_path, file_format, WORDS, matrix)
    assert path.read_bytes() == second_path.read_bytes()  # no timestamp inside
    assert path.read_bytes()[:2] == {"gz": b"\x1f\x8b", "zst": b"\x28\xb5"}[suffix]
    assert detect_vector_format(path) == ("fasttext" if file_format == "word2vec" else file_format)
    assert read_word_vectors(path).matrix.tobytes() == matrix.tobytes()
    with pytest.raises(InputError, match="cannot be packed"):
        write_word_vectors(path, "safetensors", WORDS, matrix)


@given(values=st.lists(FLOATS, min_size=1, max_size=40))
def test_word_vectors_as_text_keep_every_float32(tmp_path_factory: pytest.TempPathFactory, values: list[float]):
    path = tmp_path_factory.getbasetemp() / "numbers.txt"
    for shape in ((len(values), 1), (1, len(values))):
        matrix = np.array(values, np.float32).reshape(shape)
        write_word_vectors(path, "glove", [f"w{row}" for row in range(shape[0])], matrix)
        assert read_word_vectors(path).matrix.tobytes() == matrix.tobytes()


def test_word_vectors_as_text_use_the_shortest_decimals(tmp_path: Path):
    matrix = random_matrix(50, 40) * np.float32(10) ** np.arange(-3, 5, 0.2).astype(np.float32)
    write_word_vectors(tmp_path / "v", "glove", [f"w{row}" for row in range(50)], matrix)
    lines = (tmp_path / "v").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ")[1:] for line in lines] == [
        [str(value).removesuffix(".0") for value in row] for row in matrix
    ]


# -- gensim


@pytest.mark.parametrize("file_format", VECTOR_FORMATS[:4])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_gensim_reads_word_vectors_and_finds_the_same_neighbors(tmp_path: Path, file_format: str, suffix: str):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    path, matrix = tmp_path / ("v" + suffix), random_matrix(60, 20)
    words = [*WORDS, *(f"w{row}" for row in range(60 - len(WORDS)))]
    write_word_vectors(path, file_format, words, matrix)
    binary = file_format == "word2vec-binary"
    gensim_vectors = models.KeyedVectors.load_word2vec_format(
        str(path), binary=binary, no_header=file_format == "glove"
    )
    assert gensim_vectors.index_to_key == words
    assert gensim_vectors.vectors.tobytes() == matrix.tobytes()
    vectors = read_word_vectors(path)
    unit = vectors.matrix / np.linalg.norm(vectors.matrix, axis=1, keepdims=True)
    for row in range(10):
        nearest = np.argsort(-(unit @ unit[row]), kind="stable")[1:6]
        assert [word for word, _ in gensim_vectors.most_similar(vectors.words[row], topn=5)] == [
            words[index] for index in nearest
        ]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("header", [True, False])
def test_word_vectors_of_gensim_are_read(tmp_path: Path, binary: bool, header: bool):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    if binary and not header:
        pytest.skip("there is no such file")
    matrix, gensim_vectors = random_matrix(len(WORDS), 9), models.KeyedVectors(9)
    gensim_vectors.add_vectors(WORDS, matrix)
    gensim_vectors.save_word2vec_format(str(tmp_path / "v"), binary=binary, write_header=header)
    vectors = read_word_vectors(tmp_path / "v")
    assert vectors.file_format == ("word2vec-binary" if binary else "word2vec" if header else "glove")
    assert (vectors.words, vectors.notes) == (WORDS, [])
    assert vectors.matrix.tobytes() == matrix.tobytes()


def test_gensim_reads_words_with_replaced_whitespace(tmp_path: Path):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    words, matrix = [*UNUSUAL_WORDS, *WORDS], random_matrix(len(UNUSUAL_WORDS) + len(WORDS), 4)
    for file_format in VECTOR_FORMATS[:4]:
        (note,) = write_word_vectors(tmp_path / "v", file_format, words, matrix)
        assert "8 words are written otherwise" in note
        assert "'New York' as 'New_York_'" in note
        binary = file_format == "word2vec-binary"
        gensim_vectors = models.KeyedVectors.load_word2vec_format(
            str(tmp_path / "v"), binary=binary, no_header=file_format == "glove"
        )
        vectors = read_word_vectors(tmp_path / "v")
        assert vectors.words == gensim_vectors.index_to_key
        assert vectors.words[:5] == ["New_York_", "New_York", "a_b", "line_end", "__"]
        assert len(set(vectors.words)) == len(words)
        assert vectors.matrix.tobytes() == gensim_vectors.vectors.tobytes() == matrix.tobytes()


# -- safetensors


def test_safetensors_word_vectors_keep_words_and_counts_and_are_memory_mapped(tmp_path: Path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    words, counts = [*UNUSUAL_WORDS, *WORDS], np.arange(len(UNUSUAL_WORDS) + len(WORDS))[::-1]
    path, matrix = tmp_path / "v.safetensors", random_matrix(len(words), 6)
    assert write_word_vectors(path, "safetensors", words, matrix, counts) == []
    vectors = read_word_vectors(path)
    assert vectors.words == words
    assert isinstance(vectors.matrix.base, np.memmap) or isinstance(vectors.matrix, np.memmap)
    assert vectors.counts is not None
    assert np.array_equal(vectors.counts, counts)
    tensors = numpy_files.load_file(path)  # as the reference reader reads it
    assert sorted(tensors) == ["counts", "ends", "vectors", "words"]
    assert tensors["vectors"].tobytes() == matrix.tobytes()
    assert tensors["words"].tobytes() == "".join(words).encode()
    assert tensors["ends"][-1] == len(tensors["words"])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_plain_safetensors_are_read_with_a_vocabulary_file(tmp_path: Path, dtype: str):
    numpy_files = pytest.importorskip("safetensors.numpy")
    matrix = random_matrix(3, 4).astype(dtype)
    numpy_files.save_file({"embeddings": matrix}, tmp_path / "model.safetensors")
    assert detect_vector_format(tmp_path / "model.safetensors") is None
    with pytest.raises(InputError, match="no words"):
        read_word_vectors(tmp_path / "model.safetensors", form="safetensors")
    (tmp_path / "vocab.txt").write_text("a\nb c\n北\n", encoding="utf-8")
    vectors = read_word_vectors(tmp_path / "model.safetensors")
    assert vectors.words == ["a", "b c", "北"]
    assert np.array_equal(vectors.matrix, matrix.astype(np.float32))
    assert len(vectors.notes) == (dtype != "float32")
    (tmp_path / "model.vocab.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(InputError, match="3 vectors and 1 words"):
        read_word_vectors(tmp_path / "model.safetensors")


def test_writing_counts_to_text_notes_that_they_are_lost(tmp_path: Path):
    (note,) = write_word_vectors(tmp_path / "v", "glove", ["a"], random_matrix(1, 2), np.array([3]))
    assert "not kept" in note


# -- files of other programs


@pytest.mark.parametrize("width", [100, 300])
def test_published_glove_samples_are_read(data: Path, width: int):
    path = data / "weights" / "glove_samples" / f"glove.6B.{width}d.sample.txt.gz"
    if not path.is_file():
        pytest.skip(f"no such sample: {path}")
    vectors = read_word_vectors(path)
    assert (vectors.file_format, vectors.matrix.shape, vectors.notes) == ("glove", (100, width), [])
    assert vectors.words[:4] == ["the", ",", ".", "of"]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [[np.float32(number) for number in line.split(" ")[1:]] for line in file]
    assert np.array_equal(vectors.matrix, np.array(rows, np.float32))


def test_words_with_spaces_are_parsed_from_the_right(tmp_path: Path):
    (tmp_path / "v").write_text("the 1 2\n. . . 3 4\nat name@domain.com 5 6\nat 7 8 9\n", encoding="utf-8")
    vectors = read_word_vectors(tmp_path / "v")
    assert vectors.words == ["the", ". . .", "at name@domain.com", "at 7"]
    assert vectors.matrix.tolist() == [[1, 2], [3, 4], [5, 6], [8, 9]]
    assert vectors.notes == [
        "3 words are written with spaces, read as all that stands before the numbers "
        "('. . .', line 2, 'at name@domain.com', line 3, 'at 7', line 4)"
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", " \r\n", "  \n", "\t\n"])
@pytest.mark.parametrize("byte_order_mark", ["", "\ufeff"])
def test_line_endings_trailing_spaces_and_byte_order_marks_are_ignored(tmp_path: Path, end: str, byte_order_mark: str):
    lines = ["2 3", "</s> 1 2 3", "北 -4e-1 5 6.5"]
    for file_format, text in (("fasttext", lines), ("glove", lines[1:])):
        (tmp_path / "v.vec").write_bytes((byte_order_mark + end.join(text) + end).encode())
        vectors = read_word_vectors(tmp_path / "v.vec")
        assert (vectors.file_format, vectors.words, vectors.notes) == (file_format, ["</s>", "北"], [])
        assert vectors.matrix.tolist() == [[1, 2, 3], [np.float32(-0.4), 5, 6.5]]


def test_tabs_blank_lines_and_a_missing_final_newline_are_read(tmp_path: Path):
    (tmp_path / "v").write_bytes(b"a\t1\t2\n\nb  3 4\n \nc 5 6")
    vectors = read_word_vectors(tmp_path / "v")
    assert (vectors.words, vectors.matrix.tolist()) == (["a", "b", "c"], [[1, 2], [3, 4], [5, 6]])
    assert [note.split(":")[0] for note in vectors.notes] == [
        "2 blank lines are left out",
        "the last line does not end",
    ]


@pytest.mark.parametrize("unusual_line", [b"", b"x  5 6\n", b"x y 5 6\n", b"x\t5 6\n", b"x 5 6\t\n"])
def test_unusual_line_does_not_change_other_words(tmp_path: Path, unusual_line: bytes):
    (tmp_path / "v").write_bytes(b"o\r 1 2\n" + unusual_line + b"t\tu 3 4\n")
    vectors = read_word_vectors(tmp_path / "v")
    assert [vectors.words[0], vectors.words[-1]] == ["o\r", "t\tu"]
    assert vectors.matrix[[0, -1]].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_binary_word_vectors_with_and_without_newlines_are_read(tmp_path: Path, newline: bytes):
    rows = [b"%b %b%b" % (word.encode(), random_matrix(1, 3).tobytes(), newline) for word in WORDS]
    (tmp_path / "v").write_bytes(b"%d 3\n" % len(WORDS) + b"".join(rows))
    assert read_word_vectors(tmp_path / "v").words == WORDS


def test_duplicate_words_keep_the_first_vector(tmp_path: Path):
    words, matrix = [f"w{row % 700}" for row in range(1000)], random_matrix(1000, 3)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, matrix, strict=True)]
    (tmp_path / "v").write_text(f"1000 3\n{''.join(lines)}", encoding="utf-8")
    vectors = read_word_vectors(tmp_path / "v")
    assert vectors.words == words[:700]
    assert np.array_equal(vectors.matrix, matrix[:700])
    assert vectors.notes == [
        "300 words are there again, the first is kept ('w0', line 702, 'w1', line 703, 'w2', line 704, …)"
    ]


@pytest.mark.parametrize("file_format", VECTOR_FORMATS)
def test_limit_reads_the_first_words(tmp_path: Path, file_format: str):
    path, matrix = path_for_format(tmp_path, file_format), random_matrix(len(WORDS), 3)
    write_word_vectors(path, file_format, WORDS, matrix)
    vectors = read_word_vectors(path, limit=5)
    assert vectors.words == WORDS[:5]
    assert np.array_equal(vectors.matrix, matrix[:5])
    assert read_word_vectors(path, limit=500).words == WORDS
    with pytest.raises(InputError, match="limit"):
        read_word_vectors(path, limit=0)


@pytest.mark.parametrize("file_format", VECTOR_FORMATS)
def test_progress_of_reading_word_vectors_reaches_the_file_size(tmp_path: Path, file_format: str):
    path, progress_calls = path_for_format(tmp_path, file_format), []
    write_word_vectors(path, file_format, WORDS, random_matrix(len(WORDS), 3))
    read_word_vectors(path, progress=lambda done, size: progress_calls.append((done, size)))
    assert progress_calls[-1] == (path.stat().st_size,) * 2


# -- format detection


@pytest.mark.parametrize(
    ("content", "file_format"),
    [
        (b"2 1\na 0.5\nb 1\n", "word2vec"),  # the header's N and D are correct
        (b"5 1\na 0.5\nb 1\n", "glove"),  # the word "5" with the vector (1)
        (b"5 3\na 0.5\nb 1\n", "glove"),
        (b"5 3.0\n", "glove"),
        (b"a 1\n", "glove"),
        (b"3 2\na 1 2\nb 1 2\n", "word2vec"),  # truncated, still word2vec
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
def test_vector_format_is_detected_by_content(tmp_path: Path, content: bytes, file_format: str | None):
    (tmp_path / "v.vec.txt").write_bytes(content)
    assert detect_vector_format(tmp_path / "v.vec.txt") == file_format


def test_folders_and_model_weights_are_not_detected_as_word_vectors(tmp_path: Path):
    assert detect_vector_format(tmp_path) is None
    assert detect_vector_format(tmp_path / "absent") is None
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    assert detect_vector_format(tmp_path / "m") is None


def test_failed_write_leaves_the_existing_word_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "v"
    path.write_text("before", encoding="utf-8")

    def raise_disk_full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(word_vectors.text, "write_text_vectors", raise_disk_full)
    with pytest.raises(OSError, match="No space"):
        write_word_vectors(path, "glove", ["a"], random_matrix(1, 2))
    assert path.read_text(encoding="utf-8") == "before"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("file_format", ["word2vec", "glove", "fasttext"])
def test_binary_word_vectors_are_refused_as_text(tmp_path: Path, file_format: str):
    matrix = np.random.default_rng(0).standard_normal((200, 50)).astype(np.float32)
    write_word_vectors(tmp_path / "vectors.bin", "word2vec-binary", [f"w{number}" for number in range(200)], matrix)
    with pytest.raises(InputError, match=f"holds bytes that no text has, and is no {file_format}") as caught:
        read_word_vectors(tmp_path / "vectors.bin", form=file_format)
    assert "give word2vec-binary" in caught.value.hint
