"""ARPA files: read as KenLM reads them, written for KenLM to read, and refused with their line if invalid."""

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


def write_arpa_text(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "model.arpa"
    path.write_text(text, encoding="utf-8")
    return path


def ngram_model(arpa_model: arpa.ArpaModel) -> NgramModel:
    model = NgramModel(
        order=len(arpa_model.ngrams), vocab_size=len(arpa_model.words), eos_id=arpa_model.eos_id, smoothing="given"
    )
    model.load_probabilities(arpa_model.ngrams, arpa_model.log_probs, arpa_model.backoffs)
    return model


@pytest.mark.parametrize("name", ["test", "test_nounk", "toy0", "toy1"])
def test_published_arpa_files_score_as_in_kenlm(data: Path, name: str):
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")
    path = data / "weights" / "kenlm_arpa_fixtures" / f"{name}.arpa"
    if not path.is_file():
        pytest.skip(f"no such fixture: {path}")
    arpa_model = arpa.read_arpa(path)
    words, model, kenlm_model = arpa_model.words, ngram_model(arpa_model), kenlm.Model(str(path))
    word_ids, rng = {word: i for i, word in enumerate(words)}, np.random.default_rng(0)
    frequent_words = "looking on a little more loin also would consider higher looking a a b b c".split()
    for _ in range(200):
        sentence = frequent_words[rng.integers(0, 14) :][: rng.integers(0, 9)]
        sentence += [words[i] for i in rng.integers(2, len(words), rng.integers(0, 5))] + ["zzz"][: _ % 2]
        (log_probs,) = model.score([np.array([1, *(word_ids.get(word, 0) for word in sentence), 1])])
        expected = [score for score, _, _ in kenlm_model.full_scores(" ".join(sentence))]
        # KenLM adds up in 32 bits, also where P is 1e-100.
        assert np.abs(log_probs / np.log(10) - expected).max() < 2e-5


@pytest.mark.parametrize("use_compiled", [False, True])
def test_arpa_words_ngrams_log_probs_and_backoffs_are_read(tmp_path: Path, use_compiled: bool):
    arpa_model = arpa.read_arpa(write_arpa_text(tmp_path, SMALL), use_compiled=use_compiled)
    assert arpa_model.words == ["<unk>", "</s>", "a", "b"]
    assert arpa_model.ngrams[0].tolist() == [[0], [1], [2], [3]]
    assert arpa_model.ngrams[1].tolist() == [[1, 2], [2, 3], [3, 1]]
    log10_values = [
        np.round(values / np.log(10), 9).tolist() for values in (*arpa_model.log_probs, *arpa_model.backoffs)
    ]
    assert log10_values == [[-0.7, -0.4, -0.5, -0.6], [-0.1, -0.2, -0.3], [0, -0.3, -0.2, 0]]
    assert arpa_model.notes == ["the probabilities of single words sum to 1.1650, not to 1"]


@pytest.mark.parametrize("use_compiled", [False, True])
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
def test_arpa_formatting_variants_are_read_alike(tmp_path: Path, change, use_compiled: bool):
    variant, plain = (
        arpa.read_arpa(write_arpa_text(tmp_path, text), use_compiled=use_compiled) for text in (change(SMALL), SMALL)
    )
    assert variant.words == plain.words
    assert all(
        map(
            np.array_equal,
            variant.ngrams + variant.log_probs + variant.backoffs,
            plain.ngrams + plain.log_probs + plain.backoffs,
        )
    )


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("use_compiled", [False, True])
def test_arpa_compressed_file_is_read_and_truncated_one_refused(tmp_path: Path, use_compiled: bool, compress):
    path = tmp_path / "model.arpa.packed"
    path.write_bytes(compress(SMALL.encode()))
    assert arpa.read_arpa(path, use_compiled=use_compiled).words == ["<unk>", "</s>", "a", "b"]
    path.write_bytes(compress(SMALL.encode())[:-20])
    with pytest.raises(InputError, match="damaged") as caught:
        arpa.read_arpa(path, use_compiled=use_compiled)
    assert caught.value.line == 1
    assert "fetch" in caught.value.hint


@pytest.mark.parametrize("use_compiled", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
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
def test_arpa_invalid_file_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str, use_compiled: bool
):
    assert old in SMALL
    path = write_arpa_text(tmp_path, SMALL.replace(old, new))
    with pytest.raises(InputError) as caught:
        arpa.read_arpa(path, use_compiled=use_compiled)
    assert message in str(caught.value)
    assert caught.value.file == str(path)
    assert caught.value.line == line
    assert caught.value.hint


@pytest.mark.parametrize("use_compiled", [False, True])
def test_arpa_ngram_without_its_prefix_is_refused(tmp_path: Path, use_compiled: bool):
    longer = SMALL.replace("ngram 2=3\n", "ngram 2=3\nngram 3=2\n").replace(
        "\\end\\", "\\3-grams:\n-0.1\t<s> a b\n-0.1\tb a b\n\n\\end\\"
    )
    with pytest.raises(InputError, match="first 2 words") as caught:
        arpa.read_arpa(write_arpa_text(tmp_path, longer), use_compiled=use_compiled)
    assert caught.value.line == 21


def test_arpa_missing_file_and_invalid_utf8_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read"):
        arpa.read_arpa(tmp_path / "none.arpa")
    (tmp_path / "bad.arpa").write_bytes(SMALL.encode() + b"\xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        arpa.read_arpa(tmp_path / "bad.arpa")


# -- writing

WORDS = ["</s>", "a b", "<s>", "\\", "\n", "<unk>", "x", "何　", "\u2028", "<UNK>", "\\u0020"]


def test_arpa_escapes_words_with_spaces_and_markers():
    escaped = [arpa.escape_word(word) for word in WORDS]
    assert escaped[:4] == ["\\u003c/s>", "a\\u0020b", "\\u003cs>", "\\u005c"]
    assert escaped[6] == "x"
    assert len(set(escaped)) == len(WORDS)
    assert all(len(word.split()) == 1 and word not in arpa.ARPA_MARKERS for word in escaped)
    plain = [word for word in WORDS if word not in arpa.ARPA_MARKERS]
    assert [arpa.unescape_word(arpa.escape_word(word)) for word in plain] == plain
    assert arpa.unescape_word("\\u0041\\x") == "\\u0041\\x"  # not an escape that forebear writes


@pytest.mark.parametrize("unk_id", [5, None])
def test_arpa_write_and_read_round_trip_keeps_scores(tmp_path: Path, unk_id: int | None):
    rng = np.random.default_rng(0)
    model = NgramModel(order=3, vocab_size=len(WORDS), eos_id=0)
    rows = [[0, *rng.integers(1, len(WORDS) - 2, rng.integers(0, 6)), 0] for _ in range(30)]
    for row in rows:
        model.add_batch(np.array(row[:-1]), np.array([len(row) - 1]), np.array(row[1:]))
    path = tmp_path / "model.arpa"
    arpa.write_arpa(path, WORDS, *model.to_arpa(), eos_id=0, unk_id=unk_id)
    arpa_model = arpa.read_arpa(path)
    assert arpa_model.notes == []
    assert "\t</s>\t0\n" in path.read_text(encoding="utf-8")  # no back-off weight after the end
    read_model = ngram_model(arpa_model)
    word_ids = {word: i for i, word in enumerate(arpa_model.words)}
    ids = [word_ids.get(arpa.unescape_word(arpa.escape_word(word)), 0) for word in WORDS]
    ids[0] = 1
    assert len(set(ids)) == len(WORDS)
    log_probs, expected = (scorer.score(id_rows) for scorer, id_rows in (
        (read_model, [np.array(ids)[row] for row in rows]), (model, [np.array(row) for row in rows])
    ))  # fmt: skip
    assert np.abs(np.concatenate(log_probs) - np.concatenate(expected)).max() < 1e-6
    assert [path.name for path in tmp_path.iterdir()] == ["model.arpa"]


def test_arpa_failed_write_leaves_the_existing_file(tmp_path: Path):
    path = write_arpa_text(tmp_path, "before")
    with pytest.raises(ForebearError, match="outside 0 to 1"):
        arpa.write_arpa(path, ["</s>", "a"], [np.array([[0], [7]])], [np.zeros(2)], [], eos_id=0, unk_id=None)
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_arpa_probability_zero_is_written_as_minus_99(tmp_path: Path):
    path = tmp_path / "model.arpa"
    arpa.write_arpa(path, ["</s>", "a"], [np.array([[0], [1]])], [np.array([0, -np.inf])], [], eos_id=0, unk_id=None)
    assert "-99\ta\n" in path.read_text()
    arpa_model = arpa.read_arpa(path)
    assert arpa_model.log_probs[0][arpa_model.words.index("a")] == -np.inf
    assert "1 number of the file is -99, which stands for a probability or weight of 0" in arpa_model.notes


def test_arpa_log_prob_rounded_above_zero_is_written_as_zero(tmp_path: Path):
    path = tmp_path / "model.arpa"
    arpa.write_arpa(path, ["</s>"], [np.array([[0]])], [np.array([2e-16])], [], eos_id=0, unk_id=None)
    assert arpa.read_arpa(path).log_probs[0][0] == 0
