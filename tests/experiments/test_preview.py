"""Batch previews: the batch of training in tokens, with statistics from a worked example."""

import numpy as np
import pytest

from forebear.data.source import prepare_source
from forebear.data.tokenizers.bpe import readable_token
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.experiments.plan import plan_pretraining
from forebear.experiments.preview import _build_rows, batch_stats, preview_batch
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.next_token import NextToken

TEXTS = [f"line {n} says {n * 7 % 10} things" for n in range(60)]


@pytest.fixture
def text_path(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n\n".join(TEXTS))
    return str(file)


def test_ngram_preview_shows_whole_documents_with_next_token_targets(text_path):
    preview = preview_batch(plan_pretraining("ngram", [text_path]), rows=3)
    assert len(preview.rows) == 3
    for row in preview.rows:
        assert row.tokens[0] == preview.end
        assert row.asked["next"] == [*row.tokens[1:], preview.end]
    assert preview.figures["rows_begun_inside_a_document"] == 0
    assert preview.figures["asked_share"] == {"next": 1.0}
    assert preview.figures["documents_begun"] == preview.figures["rows"]
    assert preview.figures["train_bytes"] + preview.figures["held_out_bytes"] == sum(map(len, TEXTS))


def test_preview_shows_the_training_batch_of_the_given_step(text_path):
    plan = plan_pretraining("gpt2", [text_path], settings={"context": "16", "batch": "64", "seed": "5"})
    preview = preview_batch(plan, rows=99, step=3)
    corpus = prepare_source(plan.source, plan.tokenizer, held_out=plan.recipe.held_out)
    source = corpus.split(plan.recipe.held_out).train
    batch = plan.spec.objective(corpus.tokenizer).batch(source, 64, BatchKey(5, 3))
    assert [token_id for row in preview.rows for token_id in row.ids] == batch.inputs["tokens"].tolist()
    assert preview.figures["rows"] == len(preview.rows) == 4
    assert preview.figures["rows_as_long_as_the_context"] == 4
    assert preview.figures["steps_an_epoch"] > 3


@pytest.fixture(scope="module")
def word_tokenizer():
    return train_tokenizer("words", ["a b c d"])


def test_batch_stats_match_worked_example(word_tokenizer):
    end, unknown = word_tokenizer.special_roles["end"], word_tokenizer.unk_id
    a, b = word_tokenizer.token_to_id("a"), word_tokenizer.token_to_id("b")
    batch = Batch(
        {"tokens": np.array([end, a, b, a, unknown]), "lengths": np.array([3, 2]), "segments": np.arange(5)},
        {"token": np.array([-1, a, -1, -1, b]), "label": np.array([1, -1])},
    )
    stats = batch_stats(batch, 9, word_tokenizer, 3)
    assert (stats["rows"], stats["tokens"], stats["shortest_row"], stats["longest_row"]) == (2, 5, 2, 3)
    assert stats["asked"] == {"token": 2, "label": 1}
    assert stats["asked_share"] == {"token": 0.4, "label": 0.5}
    assert stats["unknown_share"] == 0.2
    assert stats["distinct_tokens"] == 4
    assert (stats["documents_begun"], stats["rows_begun_inside_a_document"]) == (1, 1)
    assert stats["rows_as_long_as_the_context"] == 1
    first_row, second_row = _build_rows(batch, word_tokenizer, 5, NextToken(3, end))
    assert first_row.asked == {"token": [None, "a", None]}
    assert (first_row.asked_of_row, second_row.asked_of_row) == ({"label": "1"}, {"label": None})
    assert second_row.inputs == {"segments": [3, 4]}


def test_byte_level_tokens_are_shown_as_readable_text():
    tokenizer = train_tokenizer("bytepair", ["the cat, the cat, 北京的天气 the cat\n" * 5], size=300)
    ids = tokenizer.encode("the cat\n").ids.tolist()
    assert "".join(readable_token(tokenizer, token_id) for token_id in ids) == "the␣cat⏎"
    # An incomplete character is shown by its bytes
    assert readable_token(tokenizer, tokenizer.encode("é").ids.tolist()[0]) == "‹C3›"
    assert readable_token(tokenizer, tokenizer.special_roles["end"]) == tokenizer.id_to_token(
        tokenizer.special_roles["end"]
    )


@pytest.mark.parametrize("options", [{"rows": 0}, {"step": -1}])
def test_preview_refuses_zero_rows_and_negative_step(text_path, options):
    with pytest.raises(InputError):
        preview_batch(plan_pretraining("ngram", [text_path]), **options)
