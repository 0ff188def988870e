"""What a milestone will see: the very batch of training, in tokens, with figures worked out by hand."""

import numpy as np
import pytest

from forebear.data.source import prepare_source
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.experiments.plan import plan_pretraining
from forebear.experiments.preview import _build_rows, batch_stats, preview_batch
from forebear.inference.stream_decode import readable_token
from forebear.objectives.batch import Batch, BatchKey

TEXTS = [f"line {n} says {n * 7 % 10} things" for n in range(60)]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n\n".join(TEXTS))
    return str(file)


def test_counting_sees_each_text_from_end_to_end(path):
    told = preview_batch(plan_pretraining("ngram", [path]), rows=3)
    assert len(told.rows) == 3
    for row in told.rows:
        assert row.tokens[0] == told.end
        assert row.asked["next"] == [*row.tokens[1:], told.end]
    assert told.figures["rows_begun_inside_a_document"] == 0
    assert told.figures["asked_share"] == {"next": 1.0}
    assert told.figures["documents_begun"] == told.figures["rows"]
    assert told.figures["train_bytes"] + told.figures["held_out_bytes"] == sum(map(len, TEXTS))


def test_it_is_the_batch_that_training_sees(path):
    what = plan_pretraining("gpt2", [path], settings={"context": "16", "batch": "64", "seed": "5"})
    told = preview_batch(what, rows=99, step=3)
    corpus = prepare_source(what.source, what.tokenizer, held_out=what.recipe.held_out)
    source = corpus.split(what.recipe.held_out).train
    batch = what.spec.objective(corpus.tokenizer).batch(source, 64, BatchKey(5, 3))
    assert [i for row in told.rows for i in row.ids] == batch.inputs["tokens"].tolist()
    assert told.figures["rows"] == len(told.rows) == 4
    assert told.figures["rows_as_long_as_the_context"] == 4
    assert told.figures["steps_an_epoch"] > 3


@pytest.fixture(scope="module")
def words():
    return train_tokenizer("words", ["a b c d"])


def test_figures_by_hand(words):
    end, unknown, (a, b) = words.special_roles["end"], words.unk_id, (words.token_to_id("a"), words.token_to_id("b"))
    batch = Batch(
        {"tokens": np.array([end, a, b, a, unknown]), "lengths": np.array([3, 2]), "segments": np.arange(5)},
        {"token": np.array([-1, a, -1, -1, b]), "label": np.array([1, -1])},
    )
    told = batch_stats(batch, 9, words, 3)
    assert (told["rows"], told["tokens"], told["shortest_row"], told["longest_row"]) == (2, 5, 2, 3)
    assert told["asked"] == {"token": 2, "label": 1}
    assert told["asked_share"] == {"token": 0.4, "label": 0.5}
    assert told["unknown_share"] == 0.2
    assert told["distinct_tokens"] == 4
    assert (told["documents_begun"], told["rows_begun_inside_a_document"]) == (1, 1)
    assert told["rows_as_long_as_the_context"] == 1
    first, second = _build_rows(batch, words, 5)
    assert first.asked == {"token": [None, "a", None]}
    assert (first.asked_of_row, second.asked_of_row) == ({"label": "1"}, {"label": None})
    assert second.inputs == {"segments": [3, 4]}


def test_pieces_of_bytes_are_shown_as_the_text_they_spell():
    tokenizer = train_tokenizer("bytepair", ["the cat, the cat, 北京的天气 the cat\n" * 5], size=300)
    ids = tokenizer.encode("the cat\n").ids.tolist()
    assert "".join(readable_token(tokenizer, i) for i in ids) == "the␣cat⏎"
    assert (
        readable_token(tokenizer, tokenizer.encode("é").ids.tolist()[0]) == "‹C3›"
    )  # half of a character spells nothing
    assert readable_token(tokenizer, tokenizer.special_roles["end"]) == tokenizer.id_to_token(
        tokenizer.special_roles["end"]
    )


@pytest.mark.parametrize("more", [{"rows": 0}, {"step": -1}])
def test_bad_use_is_refused(path, more):
    with pytest.raises(InputError):
        preview_batch(plan_pretraining("ngram", [path]), **more)
