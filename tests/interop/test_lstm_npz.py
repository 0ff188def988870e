"""An LSTM language model from a NumPy archive: scores equal its equations, and faults are named."""

from __future__ import annotations

import json
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebear.cli.main import main
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.interop import lstm_npz
from forebear.interop.convert import import_model

WORDS = ["<eos>", "<unk>", "the", "N", "years", "北京", "said"]
SENTENCES = [
    "the company said it expects to report a loss for the third quarter",
    "mr. <unk> said the market was down N N yesterday",
    "the year",
]


def random_arrays(width: int = 3, inner: int = 4) -> dict[str, np.ndarray]:
    rng, vocab_size = np.random.default_rng(0), len(WORDS)
    shapes = {"embed_W": (vocab_size, width), "lstm_Wx": (width, 4 * inner), "lstm_Wh": (inner, 4 * inner)}
    shapes |= {"lstm_b": (4 * inner,), "affine_W": (inner, vocab_size), "affine_b": (vocab_size,)}
    return {name: rng.normal(0, 1, shape).astype(np.float16) for name, shape in shapes.items()}


def write_rnnlm(folder: Path, arrays: dict[str, np.ndarray], words: list[str] | None = WORDS) -> Path:
    folder.mkdir(exist_ok=True)
    np.savez(folder / "rnnlm.npz", **arrays)  # pyright: ignore[reportArgumentType]
    if words is not None:
        (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder


def reference_log_probs(arrays: Any, ids: list[int]) -> np.ndarray:
    """log P of each token but the first, in float64, with the gates f, g, i, o of the file's author."""
    weights = {name: arrays[name].astype(np.float64) for name in arrays}
    inner = weights["lstm_Wh"].shape[0]
    h, c, log_probs = np.zeros(inner), np.zeros(inner), []
    for current, target in pairwise(ids):
        f, g, i, o = np.split(
            weights["embed_W"][current] @ weights["lstm_Wx"] + h @ weights["lstm_Wh"] + weights["lstm_b"], 4
        )
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        scores = h @ weights["affine_W"] + weights["affine_b"]
        log_probs.append(scores[target] - scores.max() - np.log(np.exp(scores - scores.max()).sum()))
    return np.array(log_probs)


def test_rnnlm_trained_on_ptb_scores_as_its_equations(data: Path, tmp_path: Path):
    folder = data / "weights" / "ptb_lstm_lm"
    run = Run.open(import_model(str(folder), str(tmp_path / "run")).path)
    fields = run.metadata["fields"]
    assert [fields[name] for name in ("width", "inner", "depth", "tied", "softmax")] == [100, 100, 1, False, "full"]
    token_ids = {
        word: number for number, word in enumerate((folder / "vocab.txt").read_text(encoding="utf-8").split("\n"))
    }
    arrays = dict(np.load(folder / "rnnlm.npz", allow_pickle=False))
    for sentence, scored in zip(SENTENCES, run.score(SENTENCES), strict=True):
        expected = reference_log_probs(arrays, [token_ids["<eos>"], *(token_ids[word] for word in sentence.split())])
        np.testing.assert_allclose([token.log_prob for token in scored.tokens], expected, atol=1e-4)
        assert 2 < np.exp(-expected.mean()) < 300
    fluent, scrambled = run.score(["he said the stock market fell", "market he fell the stock said"])
    assert fluent.log_prob > scrambled.log_prob + 10
    assert run.next("the company said it", top=1).candidates[0].text == "will"


def test_rnnlm_import_scores_as_its_equations(tmp_path: Path):
    arrays = random_arrays()
    run = Run.open(import_model(str(write_rnnlm(tmp_path / "lm", arrays)), str(tmp_path / "run")).path)
    assert run.tokenizer.vocabulary() == WORDS
    (scored,) = run.score("the 北京 said N years unheard", ends=True)
    expected = reference_log_probs(arrays, [0, 2, 5, 6, 3, 4, 1, 0])
    np.testing.assert_allclose([token.log_prob for token in scored.tokens], expected, atol=1e-5)
    assert any("float16" in note for note in run.metadata["notes"])


def test_rnnlm_archive_of_another_name_is_read_by_its_path(tmp_path: Path):
    write_rnnlm(tmp_path / "lm", random_arrays())
    (tmp_path / "lm" / "rnnlm.npz").rename(tmp_path / "lm" / "mine.npz")
    assert not lstm_npz.is_rnnlm(tmp_path / "lm")
    assert lstm_npz.is_rnnlm(tmp_path / "lm" / "mine.npz")
    assert lstm_npz.read_rnnlm(tmp_path / "lm" / "mine.npz").words == WORDS


def read_error(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        lstm_npz.read_rnnlm(path)
    assert caught.value.hint
    assert caught.value.file is not None
    return caught.value


def test_rnnlm_missing_unexpected_and_misshapen_arrays_are_all_named(tmp_path: Path):
    arrays = random_arrays() | {
        "more": np.zeros(3),
        "lstm_b": np.zeros((4, 4), np.float16),
        "affine_b": np.zeros(7, np.int64),
    }
    del arrays["lstm_Wh"], arrays["embed_W"]
    message = read_error(write_rnnlm(tmp_path, arrays)).message
    for fault in (
        "embed_W is missing",
        "lstm_Wh is missing",
        "more is not expected",
        "lstm_b is 4x4 of float16",
        "affine_b is 7 of int64",
    ):
        assert fault in message


def test_rnnlm_arrays_of_inconsistent_shapes_are_named(tmp_path: Path):
    arrays = random_arrays() | {"lstm_Wx": np.zeros((3, 12), np.float16), "affine_W": np.zeros((4, 8), np.float16)}
    message = read_error(write_rnnlm(tmp_path, arrays)).message
    assert "lstm_Wx is 3x12 instead of 3x16" in message
    assert "affine_W is 4x8 instead of 4x7" in message


@pytest.mark.parametrize(
    ("words", "line", "message"),
    [
        (None, None, "there is no vocab.txt"),
        ([*WORDS[:3], "", *WORDS[4:]], 4, "this line is blank"),
        ([*WORDS[:-1], "the"], 7, "'the' stands here again, first in line 3"),
        (["<eos>", "a", *WORDS[2:]], None, "it has no <unk>"),
        ([*WORDS, "one more"], None, "do not fit together and to the 8 words"),
    ],
)
def test_rnnlm_invalid_vocabulary_is_refused_with_its_line(
    words: list[str] | None, line: int | None, message: str, tmp_path: Path
):
    error = read_error(write_rnnlm(tmp_path, random_arrays(), words))
    assert message in error.message
    assert error.line == line


def test_rnnlm_nan_pickles_and_truncated_archives_are_refused(tmp_path: Path):
    arrays = random_arrays()
    arrays["embed_W"][0, 0] = np.nan
    assert "no numbers" in read_error(write_rnnlm(tmp_path, arrays)).message
    write_rnnlm(tmp_path, random_arrays() | {"embed_W": np.array([{}], dtype=object)})
    assert "not a whole archive of arrays" in read_error(tmp_path).message
    write_rnnlm(tmp_path, random_arrays())
    content = (tmp_path / "rnnlm.npz").read_bytes()
    for size in range(0, len(content), 97):
        (tmp_path / "rnnlm.npz").write_bytes(content[:size])
        assert "not a whole archive of arrays" in read_error(tmp_path).message
    with zipfile.ZipFile(tmp_path / "rnnlm.npz", "w") as archive:
        archive.writestr("embed_W.npy", b"\x93NUMPY\x01\x00no header")
    assert read_error(tmp_path)


def test_rnnlm_flipped_bytes_raise_only_input_errors(tmp_path: Path):
    content = bytearray((write_rnnlm(tmp_path, random_arrays()) / "rnnlm.npz").read_bytes())
    refusals = 0
    for position in range(0, len(content), 11):
        corrupt = bytearray(content)
        corrupt[position] ^= 0x55
        (tmp_path / "rnnlm.npz").write_bytes(corrupt)
        try:
            lstm_npz.read_rnnlm(tmp_path)
        except InputError:
            refusals += 1
    assert refusals > 100


def test_import_command_reads_rnnlm(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_rnnlm(tmp_path / "lm", random_arrays())
    assert main(["import", str(tmp_path / "lm"), "--to", str(tmp_path / "run"), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["milestone"], output["heads"]) == ("lstm", ["next"])
    assert main(["score", str(tmp_path / "run"), "the 北京", "--json"]) == 0
    assert main(["import", str(tmp_path / "lm"), "--task", "pairs", "--to", str(tmp_path / "other")]) == 2
    assert "--task is for" in capsys.readouterr().err
