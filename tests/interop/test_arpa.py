"""ARPA files: read as KenLM reads them, written so that it can, refused with their line where they are not sound."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import zstandard

from forebear.errors import ForebearError, InputError
from forebear.interop import arpa
from forebear.statistical.ngram.language_model import NgramModel

SMALL = """
\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-0.7\t<unk>
-99\t<s>\t-0.3
-0.4\t</s>
-0.5\ta\t-0.2
-0.6\tb

\\2-grams:
-0.1\t<s> a
-0.2\ta b
-0.3\tb </s>

\\end\\
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "model.arpa"
    path.write_text(text, encoding="utf-8")
    return path


def model_of(told: arpa.ArpaModel) -> NgramModel:
    model = NgramModel(order=len(told.ngrams), vocabulary=len(told.words), end=told.eos_id, smoothing="given")
    model.load_probabilities(told.ngrams, told.log_probs, told.backoffs)
    return model


@pytest.mark.parametrize("name", ["test", "test_nounk", "toy0", "toy1"])
def test_read_as_kenlm_reads_it(data: Path, name: str):
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")
    path = data / "weights" / "kenlm_arpa_fixtures" / f"{name}.arpa"
    if not path.is_file():
        pytest.skip(f"no such fixture: {path}")
    told = arpa.read_arpa(path)
    model, theirs = model_of(told), kenlm.Model(str(path))
    numbers, rng = {word: i for i, word in enumerate(told.words)}, np.random.default_rng(0)
    usual = "looking on a little more loin also would consider higher looking a a b b c".split()
    for _ in range(200):
        sentence = usual[rng.integers(0, 14) :][: rng.integers(0, 9)]
        sentence += [told.words[i] for i in rng.integers(2, len(told.words), rng.integers(0, 5))] + ["zzz"][: _ % 2]
        (mine,) = model.score([np.array([1, *(numbers.get(word, 0) for word in sentence), 1])])
        expected = [score for score, _, _ in theirs.full_scores(" ".join(sentence))]
        assert np.abs(mine / np.log(10) - expected).max() < 2e-5  # KenLM adds up in 32 bits, also where P is 1e-100


@pytest.mark.parametrize("quickly", [False, True])
def test_what_is_read(tmp_path: Path, quickly: bool):
    told = arpa.read_arpa(written(tmp_path, SMALL), quickly=quickly)
    assert told.words == ["<unk>", "</s>", "a", "b"]
    assert told.ngrams[0].tolist() == [[0], [1], [2], [3]]
    assert told.ngrams[1].tolist() == [[1, 2], [2, 3], [3, 1]]
    tens = [np.round(values / np.log(10), 9).tolist() for values in (*told.log_probs, *told.backoffs)]
    assert tens == [[-0.7, -0.4, -0.5, -0.6], [-0.1, -0.2, -0.3], [0, -0.3, -0.2, 0]]
    assert told.notes == ["the probabilities of single words sum to 1.1650, not to 1"]


@pytest.mark.parametrize("quickly", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\t", " "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text.lstrip(),
        lambda text: text.replace("a b", "a  b "),
        lambda text: text.replace("-0.3\tb </s>", "-0.3\tb </s>\t0"),
        lambda text: text.replace("<unk>", "<UNK>"),
    ],
)
def test_other_ways_to_write_the_same(tmp_path: Path, change, quickly: bool):
    told, plain = (arpa.read_arpa(written(tmp_path, text), quickly=quickly) for text in (change(SMALL), SMALL))
    assert told.words == plain.words
    assert all(
        map(
            np.array_equal,
            told.ngrams + told.log_probs + told.backoffs,
            plain.ngrams + plain.log_probs + plain.backoffs,
        )
    )


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("quickly", [False, True])
def test_packed_files(tmp_path: Path, quickly: bool, pack):
    path = tmp_path / "model.arpa.packed"
    path.write_bytes(pack(SMALL.encode()))
    assert arpa.read_arpa(path, quickly=quickly).words == ["<unk>", "</s>", "a", "b"]
    path.write_bytes(pack(SMALL.encode())[:-20])
    with pytest.raises(InputError, match="damaged") as refused:
        arpa.read_arpa(path, quickly=quickly)
    assert refused.value.line == 1
    assert "fetch" in refused.value.hint


@pytest.mark.parametrize("quickly", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("\\data\\", "data", 2, "no ARPA file"),
        ("ngram 2=3", "ngram 3=3", 4, "number of 2-grams"),
        ("ngram 2=3\n", "ngram 2=3\nhello\n", 5, "blank line"),
        ("ngram 2=3", "ngram 2=4", 17, "fewer 2-grams"),
        ("ngram 2=3", "ngram 2=2", 16, "more 2-grams"),
        ("ngram 1=5", "ngram 1=4", 11, "more 1-grams"),
        ("ngram 1=5", "ngram 1=6", 12, "fewer 1-grams"),
        ("-0.2\ta b", "0.2\ta b", 15, "no log10"),
        ("-0.2\ta b", "nan\ta b", 15, "no log10"),
        ("-0.2\ta b", "x\ta b", 15, "not log10 P"),
        ("-0.2\ta b", "-0.2\ta b c d", 15, "not log10 P"),
        ("-0.2\ta b", "-0.2\ta c", 15, "'c' is not among"),
        ("-0.2\ta b", "-0.2\t<s> a", 15, "twice"),
        ("-0.2\ta b", "-0.2\ta <s>", 15, "not the first"),
        ("-0.2\ta b", "-0.2\t</s> b", 15, "not the last"),
        ("-0.2\ta b", "-0.2\ta b\t-1", 15, "back-off"),
        ("-0.6\tb\n", "-0.6\ta\n", 11, "twice"),
        ("<s>\t-0.3", "c\t-0.3", 7, "no <s>"),
        ("\\2-grams:", "\\3-grams:", 13, "should stand here"),
        ("\\end\\\n", "", 17, "file ends"),
        ("\\end\\\n", "\\end\\\nmore\n", 19, "text after"),
        ("\n-0.3\tb </s>\n\n\\end\\\n", "", 15, "cut short"),
    ],
)
def test_a_file_that_is_not_sound_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, what: str, quickly: bool
):
    assert old in SMALL
    path = written(tmp_path, SMALL.replace(old, new))
    with pytest.raises(InputError) as refused:
        arpa.read_arpa(path, quickly=quickly)
    assert what in str(refused.value)
    assert refused.value.file == str(path)
    assert refused.value.line == line
    assert refused.value.hint


@pytest.mark.parametrize("quickly", [False, True])
def test_an_ngram_without_its_beginning_is_refused(tmp_path: Path, quickly: bool):
    longer = SMALL.replace("ngram 2=3\n", "ngram 2=3\nngram 3=2\n").replace(
        "\\end\\", "\\3-grams:\n-0.1\t<s> a b\n-0.1\tb a b\n\n\\end\\"
    )
    with pytest.raises(InputError, match="first 2 words") as refused:
        arpa.read_arpa(written(tmp_path, longer), quickly=quickly)
    assert refused.value.line == 21


def test_what_cannot_be_read_is_said(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read"):
        arpa.read_arpa(tmp_path / "none.arpa")
    (tmp_path / "bad.arpa").write_bytes(SMALL.encode() + b"\xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        arpa.read_arpa(tmp_path / "bad.arpa")


# -- writing

WORDS = ["</s>", "a b", "<s>", "\\", "\n", "<unk>", "x", "何　", "\u2028", "<UNK>", "\\u0020"]


def test_words_that_such_files_cannot_hold_are_escaped():
    shown = [arpa.escape_word(word) for word in WORDS]
    assert shown[:4] == ["\\u003c/s>", "a\\u0020b", "\\u003cs>", "\\u005c"]
    assert shown[6] == "x"
    assert len(set(shown)) == len(WORDS)
    assert all(len(word.split()) == 1 and word not in arpa.ARPA_MARKERS for word in shown)
    plain = [word for word in WORDS if word not in arpa.ARPA_MARKERS]
    assert [arpa.unescape_word(arpa.escape_word(word)) for word in plain] == plain
    assert arpa.unescape_word("\\u0041\\x") == "\\u0041\\x"  # not one of ours


@pytest.mark.parametrize("unknown", [5, None])
def test_written_and_read_again(tmp_path: Path, unknown: int | None):
    rng = np.random.default_rng(0)
    model = NgramModel(order=3, vocabulary=len(WORDS), end=0)
    rows = [[0, *rng.integers(1, len(WORDS) - 2, rng.integers(0, 6)), 0] for _ in range(30)]
    for row in rows:
        model.add_batch(np.array(row[:-1]), np.array([len(row) - 1]), np.array(row[1:]))
    path = tmp_path / "model.arpa"
    arpa.write_arpa(path, WORDS, *model.to_arpa(), eos_id=0, unk_id=unknown)
    told = arpa.read_arpa(path)
    assert told.notes == []
    assert "\t</s>\t0\n" in path.read_text(encoding="utf-8")  # nothing comes after the end
    again = model_of(told)
    numbers = {word: i for i, word in enumerate(told.words)}
    at = [numbers.get(arpa.unescape_word(arpa.escape_word(word)), 0) for word in WORDS]
    at[0] = 1
    assert len(set(at)) == len(WORDS)
    score, expected = (mine.score(these) for mine, these in (
        (again, [np.array(at)[row] for row in rows]), (model, [np.array(row) for row in rows])
    ))  # fmt: skip
    assert np.abs(np.concatenate(score) - np.concatenate(expected)).max() < 1e-6
    assert [path.name for path in tmp_path.iterdir()] == ["model.arpa"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path):
    path = written(tmp_path, "before")
    with pytest.raises(ForebearError, match="outside 0 to 1"):
        arpa.write_arpa(path, ["</s>", "a"], [np.array([[0], [7]])], [np.zeros(2)], [], eos_id=0, unk_id=None)
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_probability_zero_is_written_as_minus_99(tmp_path: Path):
    path = tmp_path / "model.arpa"
    arpa.write_arpa(path, ["</s>", "a"], [np.array([[0], [1]])], [np.array([0, -np.inf])], [], eos_id=0, unk_id=None)
    assert "-99\ta\n" in path.read_text()
    read = arpa.read_arpa(path)
    assert read.log_probs[0][read.words.index("a")] == -np.inf
    assert "1 number of the file is -99, which stands for a probability or weight of 0" in read.notes


def test_a_sure_thing_that_rounding_made_surer(tmp_path: Path):
    path = tmp_path / "model.arpa"
    arpa.write_arpa(path, ["</s>"], [np.array([[0]])], [np.array([2e-16])], [], eos_id=0, unk_id=None)
    assert arpa.read_arpa(path).log_probs[0][0] == 0
