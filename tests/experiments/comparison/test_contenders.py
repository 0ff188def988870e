"""Who takes part: milestones, given runs, and variants of BERT that differ in one thing."""

from dataclasses import asdict
from pathlib import Path

import pytest

from forebear.errors import InputError
from forebear.experiments.comparison.contenders import ablation_origins, comparison_rows, rows_for_task, run_origins
from forebear.experiments.plan import plan_pretraining
from forebear.registry import model_spec, text_models
from small_runs import trained

TEXT = ["book.txt"]


def who(texts=TEXT, given=(), only=None, ablate=(), sizes=None, tokenizer=None):
    return comparison_rows(texts, given, only, ablate, sizes or {}, tokenizer)


def test_all_milestones_or_some():
    assert [one.name for one in who()] == text_models()
    ngram, bert = who(only=["ngram", "bert"], sizes={"bert": "laptop"}, tokenizer="characters")
    assert (ngram.is_counting, ngram.tokenizer) == (True, None)  # it weighs the examples' own words
    assert (bert.is_counting, bert.tokenizer, bert.size) == (False, "characters", "laptop")


def test_who_tags_by_itself_does_so_and_else_only_repeats_the_ngram():
    everyone = who()
    assert [one.title for one in rows_for_task(everyone, "tagging", ()) if one.name in ("ngram", "hmm")] == [
        "N-gram, linear",
        "HMM",
    ]
    assert "hmm" not in [one.name for one in rows_for_task(everyone, "classification", ())]
    named = rows_for_task(who(only=["hmm", "ngram"]), "classification", ["hmm", "ngram"])
    assert [one.title for one in named] == ["HMM, linear", "N-gram, linear"]


def test_without_a_text_only_what_counts_and_what_is_given(tmp_path: Path):
    run = trained("bert", tmp_path, steps=2, to="ngram").path
    ngram, given = who(texts=[], given=[str(run)])
    assert (ngram.name, ngram.run_folder) == ("ngram", "")
    assert (given.name, given.title, given.milestone) == ("ngram-2", "BERT (ngram-2)", "bert")
    assert [one.name for one in run_origins([str(run), str(run)], [])] == ["ngram", "ngram-2"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"texts": [], "only": ["bert"]}, "no text to pre-train bert"),
        ({"texts": [], "ablate": ["nsp"]}, "no text to pre-train bert"),
        ({"only": ["bret"]}, "no milestone named"),
        ({"only": ["ngram"], "sizes": {"bert": "tiny"}}, "does not take part"),
        ({"ablate": ["nps"]}, "no part called 'nps'"),
        ({"ablate": ["nsp"], "only": ["gpt"]}, "nobody else"),
        ({"ablate": ["nsp"], "sizes": {"gpt": "tiny"}}, "does not take part"),
        ({"ablate": ["nsp"], "sizes": {"bert": "small?"}}, "no size"),
        ({"given": ["nowhere"]}, "there is no such run"),
    ],
)
def test_what_cannot_be_is_refused(more, words):
    with pytest.raises(InputError, match=words):
        who(**more)


def fields_of(one) -> dict:
    made = plan_pretraining(one.milestone, TEXT, size=one.size, tokenizer=one.tokenizer, settings=one.fields)
    return {"tokenizer": made.tokenizer, **asdict(made.spec)}


def test_variants_differ_from_the_whole_in_one_thing_each():
    whole, nsp, words, fresh = ablation_origins(["nsp", "whole-words", "pretraining"], None, None)
    usual = fields_of(whole)
    assert usual["tokenizer"] == "wordpiece"
    changed = [{name: value for name, value in fields_of(one).items() if value != usual[name]} for one in (nsp, words)]
    assert changed == [{"pairs": "none"}, {"whole_words": True}]
    assert (fresh.is_untrained, fields_of(fresh)) == (True, usual)
    assert all(one.differs and one.papers for one in (nsp, words, fresh))


def test_left_to_right_is_gpt_in_berts_shape():
    whole, direction = ablation_origins(["direction"], "laptop", None)
    usual, other = fields_of(whole), fields_of(direction)
    for name in ("width", "depth", "heads", "context", "inner", "dropout", "tokenizer"):
        assert other[name] == usual[name]
    assert direction.milestone == "gpt"
    assert direction.adaptation == {"language": 0.0}  # as BERT is adapted: by the task alone
    assert model_spec("gpt").sizes.get("laptop") is None
