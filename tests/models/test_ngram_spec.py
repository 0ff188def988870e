"""The n-gram as a milestone: from text through its tokenizer and objective to the lineage's worked example."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset
from forebear.data.io.reader import TextFormat
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.models.ngram import NgramSpec
from forebear.objectives.batch import BatchKey
from forebear.statistical.ngram.language_model import NgramModel

FOUR = ["词性是动词", "判断单词的词性", "磁性很强的磁铁", "北京的词性是名词"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Subset:
    folder = tmp_path_factory.mktemp("ngram")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        (folder / "four.txt").write_text("\n".join(FOUR), encoding="utf-8")
        reading = TextFormat(documents="lines")
        corpus = prepare_corpus(
            [folder / "four.txt"], train_tokenizer("words", FOUR), reading=reading, to=folder / "corpus"
        )
        return Subset(corpus, np.stack((corpus.documents[:-1], corpus.documents[1:]), axis=1))


def learned(milestone: NgramSpec, source: Subset, size: int = 4) -> tuple[NgramModel, Tokenizer]:
    tokenizer = source.corpus.tokenizer
    model, objective = milestone.build(tokenizer), milestone.objective(tokenizer)
    for step in range(objective.steps(source, size)):
        batch = objective.batch(source, size, BatchKey(0, step))
        model.add_batch(batch.inputs["tokens"], batch.inputs["lengths"], batch.targets["next"])
    return model, tokenizer


def test_two_of_three(source: Subset):
    model, tokenizer = learned(NgramSpec(order=2, smoothing="none"), source)
    the, kind = tokenizer.token_to_id("的"), tokenizer.token_to_id("词性")
    assert np.exp(model.next_log_probs([np.array([the])])[0, kind]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_part_of_speech_beats_magnetism(source: Subset, unit: str):
    model, tokenizer = learned(NgramSpec(unit=unit), source)
    end = tokenizer.special_roles["end"]
    rows = [np.array([end, *tokenizer.encode(f"判断这个词的{word}").ids, end]) for word in ("词性", "磁性")]
    kind, magnet = (scores.sum() for scores in model.score(rows))
    assert kind > magnet > -np.inf


def test_special_tokens_are_never_predicted_but_for_the_end_and_the_unknown(source: Subset):
    model, tokenizer = learned(NgramSpec(smoothing="add"), source)
    told = np.exp(model.next_log_probs([np.array([tokenizer.special_roles["end"]])])[0])
    never = tokenizer.special_ids - {tokenizer.special_roles["end"], tokenizer.unk_id}
    assert never
    assert sorted(np.flatnonzero(told == 0).tolist()) == sorted(never)
    assert told.sum() == pytest.approx(1)


def test_sizes_are_orders():
    assert [NgramSpec(**fields).order for fields in NgramSpec.sizes.values()] == [1, 2, 3, 5]
    assert NgramSpec(**NgramSpec.sizes[NgramSpec.size]) == NgramSpec()


@pytest.mark.parametrize(
    "fields", [{"order": 0}, {"smoothing": "some"}, {"smoothing": "add", "k": -1}, {"unit": "page"}]
)
def test_what_is_no_ngram_is_refused_before_any_text_is_read(fields: dict):
    with pytest.raises(InputError):
        NgramSpec(**fields)
