"""The n-gram from text to probabilities, through its tokenizer and objective, against the worked example."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset
from forebear.data.io.text_formats import TextFormat
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
            [folder / "four.txt"], train_tokenizer("words", FOUR), text_format=reading, to=folder / "corpus"
        )
        return Subset(corpus, np.stack((corpus.documents[:-1], corpus.documents[1:]), axis=1))


def train(spec: NgramSpec, source: Subset, size: int = 4) -> tuple[NgramModel, Tokenizer]:
    tokenizer = source.corpus.tokenizer
    model, objective = spec.build(tokenizer), spec.objective(tokenizer)
    for step in range(objective.steps(source, size)):
        batch = objective.batch(source, size, BatchKey(0, step))
        model.add_batch(batch.inputs["tokens"], batch.inputs["lengths"], batch.targets["next"])
    return model, tokenizer


def test_bigram_probability_matches_worked_example(source: Subset):
    model, tokenizer = train(NgramSpec(order=2, smoothing="none"), source)
    context_id, word_id = tokenizer.token_to_id("的"), tokenizer.token_to_id("词性")
    assert np.exp(model.next_log_probs([np.array([context_id])])[0, word_id]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_ngram_ranks_homophone_by_context(source: Subset, unit: str):
    model, tokenizer = train(NgramSpec(unit=unit), source)
    end = tokenizer.special_roles["end"]
    rows = [np.array([end, *tokenizer.encode(f"判断这个词的{word}").ids, end]) for word in ("词性", "磁性")]
    expected_score, other_score = (scores.sum() for scores in model.score(rows))
    assert expected_score > other_score > -np.inf


def test_ngram_predicts_no_special_tokens_but_end_and_unknown(source: Subset):
    model, tokenizer = train(NgramSpec(smoothing="add"), source)
    probabilities = np.exp(model.next_log_probs([np.array([tokenizer.special_roles["end"]])])[0])
    unpredicted = tokenizer.special_ids - {tokenizer.special_roles["end"], tokenizer.unk_id}
    assert unpredicted
    assert sorted(np.flatnonzero(probabilities == 0).tolist()) == sorted(unpredicted)
    assert probabilities.sum() == pytest.approx(1)


def test_ngram_sizes_are_orders():
    assert [NgramSpec(**fields).order for fields in NgramSpec.sizes.values()] == [1, 2, 3, 5]
    assert NgramSpec(**NgramSpec.sizes[NgramSpec.size]) == NgramSpec()


@pytest.mark.parametrize(
    "fields", [{"order": 0}, {"smoothing": "some"}, {"smoothing": "add", "k": -1}, {"unit": "page"}]
)
def test_ngram_spec_refuses_invalid_values(fields: dict):
    with pytest.raises(InputError):
        NgramSpec(**fields)
