"""An LSTM language model from a NumPy archive: it says of a text what its equations say, and what is wrong is named."""

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


def arrays(width: int = 3, inner: int = 4) -> dict[str, np.ndarray]:
    drawn, size = np.random.default_rng(0), len(WORDS)
    shapes = {"embed_W": (size, width), "lstm_Wx": (width, 4 * inner), "lstm_Wh": (inner, 4 * inner)}
    shapes |= {"lstm_b": (4 * inner,), "affine_W": (inner, size), "affine_b": (size,)}
    return {name: drawn.normal(0, 1, shape).astype(np.float16) for name, shape in shapes.items()}


def publish(folder: Path, made: dict[str, np.ndarray], words: list[str] | None = WORDS) -> Path:
    folder.mkdir(exist_ok=True)
    np.savez(folder / "rnnlm.npz", **made)  # pyright: ignore[reportArgumentType]
    if words is not None:
        (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder


def by_hand(made: Any, ids: list[int]) -> np.ndarray:
    """log P of each token but the first, in float64 and by the equations of who wrote the file: gates f, g, i, o."""
    part = {name: made[name].astype(np.float64) for name in made}
    inner = part["lstm_Wh"].shape[0]
    h, c, found = np.zeros(inner), np.zeros(inner), []
    for seen, following in pairwise(ids):
        f, g, i, o = np.split(part["embed_W"][seen] @ part["lstm_Wx"] + h @ part["lstm_Wh"] + part["lstm_b"], 4)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        scores = h @ part["affine_W"] + part["affine_b"]
        found.append(scores[following] - scores.max() - np.log(np.exp(scores - scores.max()).sum()))
    return np.array(found)


def test_the_trained_model_of_newspapers_scores_text(data: Path, tmp_path: Path):
    place = data / "weights" / "ptb_lstm_lm"
    run = Run.open(import_model(str(place), str(tmp_path / "run")).path)
    fields = run.metadata["fields"]
    assert [fields[name] for name in ("width", "inner", "depth", "tied", "softmax")] == [100, 100, 1, False, "full"]
    ids = {word: number for number, word in enumerate((place / "vocab.txt").read_text(encoding="utf-8").split("\n"))}
    made = dict(np.load(place / "rnnlm.npz", allow_pickle=False))
    for sentence, scored in zip(SENTENCES, run.score(SENTENCES), strict=True):
        told = by_hand(made, [ids["<eos>"], *(ids[word] for word in sentence.split())])
        np.testing.assert_allclose([token.log_prob for token in scored.tokens], told, atol=1e-4)
        assert 2 < np.exp(-told.mean()) < 300
    good, bad = run.score(["he said the stock market fell", "market he fell the stock said"])
    assert good.log_prob > bad.log_prob + 10
    assert run.next("the company said it", top=1).candidates[0].text == "will"


def test_gates_and_turned_weights_are_those_of_the_equations(tmp_path: Path):
    made = arrays()
    run = Run.open(import_model(str(publish(tmp_path / "lm", made)), str(tmp_path / "run")).path)
    assert run.tokenizer.vocabulary() == WORDS
    (scored,) = run.score("the 北京 said N years unheard", ends=True)
    told = by_hand(made, [0, 2, 5, 6, 3, 4, 1, 0])
    np.testing.assert_allclose([token.log_prob for token in scored.tokens], told, atol=1e-5)
    assert any("float16" in note for note in run.metadata["notes"])


def test_the_archive_alone_is_found_with_its_words(tmp_path: Path):
    publish(tmp_path / "lm", arrays())
    (tmp_path / "lm" / "rnnlm.npz").rename(tmp_path / "lm" / "mine.npz")
    assert not lstm_npz.is_rnnlm(tmp_path / "lm")
    assert lstm_npz.is_rnnlm(tmp_path / "lm" / "mine.npz")
    assert lstm_npz.read_rnnlm(tmp_path / "lm" / "mine.npz").words == WORDS


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as told:
        lstm_npz.read_rnnlm(path)
    assert told.value.hint
    assert told.value.file is not None
    return told.value


def test_missing_further_and_odd_arrays_are_all_named(tmp_path: Path):
    made = arrays() | {"more": np.zeros(3), "lstm_b": np.zeros((4, 4), np.float16), "affine_b": np.zeros(7, np.int64)}
    del made["lstm_Wh"], made["embed_W"]
    told = refused(publish(tmp_path, made)).message
    for said in (
        "embed_W is missing",
        "lstm_Wh is missing",
        "more is not expected",
        "lstm_b is 4x4 of float16",
        "affine_b is 7 of int64",
    ):
        assert said in told


def test_arrays_that_do_not_fit_together_are_named(tmp_path: Path):
    made = arrays() | {"lstm_Wx": np.zeros((3, 12), np.float16), "affine_W": np.zeros((4, 8), np.float16)}
    told = refused(publish(tmp_path, made)).message
    assert "lstm_Wx is 3x12 instead of 3x16" in told
    assert "affine_W is 4x8 instead of 4x7" in told


@pytest.mark.parametrize(
    ("words", "line", "said"),
    [
        (None, None, "there is no vocab.txt"),
        ([*WORDS[:3], "", *WORDS[4:]], 4, "this line is blank"),
        ([*WORDS[:-1], "the"], 7, "'the' stands here again, first in line 3"),
        (["<eos>", "a", *WORDS[2:]], None, "it has no <unk>"),
        ([*WORDS, "one more"], None, "do not fit together and to the 8 words"),
    ],
)
def test_a_vocabulary_that_is_not_the_models_is_refused(
    words: list[str] | None, line: int | None, said: str, tmp_path: Path
):
    told = refused(publish(tmp_path, arrays(), words))
    assert said in told.message
    assert told.line == line


def test_no_numbers_pickles_and_torn_archives_are_refused(tmp_path: Path):
    made = arrays()
    made["embed_W"][0, 0] = np.nan
    assert "no numbers" in refused(publish(tmp_path, made)).message
    publish(tmp_path, arrays() | {"embed_W": np.array([{}], dtype=object)})
    assert "not a whole archive of arrays" in refused(tmp_path).message
    publish(tmp_path, arrays())
    whole = (tmp_path / "rnnlm.npz").read_bytes()
    for size in range(0, len(whole), 97):
        (tmp_path / "rnnlm.npz").write_bytes(whole[:size])
        assert "not a whole archive of arrays" in refused(tmp_path).message
    with zipfile.ZipFile(tmp_path / "rnnlm.npz", "w") as archive:
        archive.writestr("embed_W.npy", b"\x93NUMPY\x01\x00no header")
    assert refused(tmp_path)


def test_bytes_that_were_changed_make_no_other_error(tmp_path: Path):
    whole = bytearray((publish(tmp_path, arrays()) / "rnnlm.npz").read_bytes())
    seen = 0
    for place in range(0, len(whole), 11):
        torn = bytearray(whole)
        torn[place] ^= 0x55
        (tmp_path / "rnnlm.npz").write_bytes(torn)
        try:
            lstm_npz.read_rnnlm(tmp_path)
        except InputError:
            seen += 1
    assert seen > 100


def test_the_command_line_makes_a_run_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    publish(tmp_path / "lm", arrays())
    assert main(["import", str(tmp_path / "lm"), "--to", str(tmp_path / "run"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["milestone"], told["heads"]) == ("lstm", ["next"])
    assert main(["score", str(tmp_path / "run"), "the 北京", "--json"]) == 0
    assert main(["import", str(tmp_path / "lm"), "--task", "pairs", "--to", str(tmp_path / "other")]) == 2
    assert "--task is for" in capsys.readouterr().err
