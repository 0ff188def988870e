"""The n-gram as a milestone: from text through its tokenizer and objective to the lineage's worked example."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.errors import BadInput
from forebear.milestones.ngram import Ngram
from forebear.objectives.batch import Moment
from forebear.statistics.ngram import NgramModel
from forebear.text.portion import Portion
from forebear.text.preparing import prepare
from forebear.text.reading import Reading
from forebear.text.tokenizer import Tokenizer
from forebear.text.training import train

FOUR = ["词性是动词", "判断单词的词性", "磁性很强的磁铁", "北京的词性是名词"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Portion:
    folder = tmp_path_factory.mktemp("ngram")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        (folder / "four.txt").write_text("\n".join(FOUR), encoding="utf-8")
        reading = Reading(documents="lines")
        corpus = prepare([folder / "four.txt"], train("words", FOUR), reading=reading, to=folder / "corpus")
        return Portion(corpus, np.stack((corpus.documents[:-1], corpus.documents[1:]), axis=1))


def learned(milestone: Ngram, source: Portion, size: int = 4) -> tuple[NgramModel, Tokenizer]:
    tokenizer = source.corpus.tokenizer
    model, objective = milestone.network(tokenizer), milestone.objective(tokenizer)
    for step in range(objective.steps(source, size)):
        batch = objective.batch(source, size, Moment(0, step))
        model.count(batch.inputs["tokens"], batch.inputs["lengths"], batch.targets["next"])
    return model, tokenizer


def test_two_of_three(source: Portion):
    model, tokenizer = learned(Ngram(order=2, smoothing="none"), source)
    the, kind = tokenizer.id("的"), tokenizer.id("词性")
    assert np.exp(model.follow([np.array([the])])[0, kind]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_part_of_speech_beats_magnetism(source: Portion, unit: str):
    model, tokenizer = learned(Ngram(unit=unit), source)
    end = tokenizer.roles["end"]
    rows = [np.array([end, *tokenizer.encode(f"判断这个词的{word}").ids, end]) for word in ("词性", "磁性")]
    kind, magnet = (scores.sum() for scores in model.score(rows))
    assert kind > magnet > -np.inf


def test_special_tokens_are_never_predicted_but_for_the_end_and_the_unknown(source: Portion):
    model, tokenizer = learned(Ngram(smoothing="add"), source)
    told = np.exp(model.follow([np.array([tokenizer.roles["end"]])])[0])
    never = tokenizer.specials - {tokenizer.roles["end"], tokenizer.unknown}
    assert never
    assert sorted(np.flatnonzero(told == 0).tolist()) == sorted(never)
    assert told.sum() == pytest.approx(1)


def test_sizes_are_orders():
    assert [Ngram(**fields).order for fields in Ngram.sizes.values()] == [1, 2, 3, 5]
    assert Ngram(**Ngram.sizes[Ngram.size]) == Ngram()


@pytest.mark.parametrize(
    "fields", [{"order": 0}, {"smoothing": "some"}, {"smoothing": "add", "k": -1}, {"unit": "page"}]
)
def test_what_is_no_ngram_is_refused_before_any_text_is_read(fields: dict):
    with pytest.raises(BadInput):
        Ngram(**fields)
