"""Rows of a comparison: models of the lineage, given runs, and ablations of BERT."""

from dataclasses import asdict
from pathlib import Path

import pytest

from forebear.errors import InputError
from forebear.experiments.comparison.participants import (
    ablation_participants,
    participants_for_task,
    run_participants,
    select_participants,
)
from forebear.experiments.plan import plan_pretraining
from forebear.registry import model_spec, text_models
from small_runs import train_small_run

TEXT = ["book.txt"]


def comparison_origins(texts=TEXT, given=(), only=None, ablate=(), sizes=None, tokenizer=None):
    return select_participants(texts, given, only, ablate, sizes or {}, tokenizer)


def test_comparison_takes_all_models_or_those_named():
    assert [origin.name for origin in comparison_origins()] == text_models()
    ngram, bert = comparison_origins(only=["ngram", "bert"], sizes={"bert": "laptop"}, tokenizer="characters")
    assert (ngram.is_counting, ngram.tokenizer) == (True, None)  # a linear model of the examples' own words
    assert (bert.is_counting, bert.tokenizer, bert.size) == (False, "characters", "laptop")


def test_hmm_takes_part_in_tagging_and_elsewhere_only_by_name():
    all_origins = comparison_origins()
    assert [
        origin.title for origin in participants_for_task(all_origins, "tagging", ()) if origin.name in ("ngram", "hmm")
    ] == [
        "N-gram, linear",
        "HMM",
    ]
    assert "hmm" not in [origin.name for origin in participants_for_task(all_origins, "classification", ())]
    named = participants_for_task(comparison_origins(only=["hmm", "ngram"]), "classification", ["hmm", "ngram"])
    assert [origin.title for origin in named] == ["HMM, linear", "N-gram, linear"]


def test_comparison_without_text_takes_the_ngram_and_given_runs(tmp_path: Path):
    run = train_small_run("bert", tmp_path, steps=2, to="ngram").path
    ngram, given_run = comparison_origins(texts=[], given=[str(run)])
    assert (ngram.name, ngram.run_folder) == ("ngram", "")
    assert (given_run.name, given_run.title, given_run.milestone) == ("ngram-2", "BERT (ngram-2)", "bert")
    assert [origin.name for origin in run_participants([str(run), str(run)], [])] == ["ngram", "ngram-2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_invalid_select_participants_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        comparison_origins(**arguments)


def fields_of(origin) -> dict:
    plan = plan_pretraining(
        origin.milestone, TEXT, size=origin.size, tokenizer=origin.tokenizer, settings=origin.fields
    )
    return {"tokenizer": plan.tokenizer, **asdict(plan.spec)}


def test_each_ablation_changes_one_field_of_the_full_model():
    full, nsp, whole_words, from_scratch = ablation_participants(["nsp", "whole-words", "pretraining"], None, None)
    full_fields = fields_of(full)
    assert full_fields["tokenizer"] == "wordpiece"
    changed = [
        {name: value for name, value in fields_of(origin).items() if value != full_fields[name]}
        for origin in (nsp, whole_words)
    ]
    assert changed == [{"pairs": "none"}, {"whole_words": True}]
    assert (from_scratch.is_untrained, fields_of(from_scratch)) == (True, full_fields)
    assert all(origin.differs and origin.papers for origin in (nsp, whole_words, from_scratch))


def test_left_to_right_ablation_is_gpt_with_the_shape_of_bert():
    full, direction = ablation_participants(["direction"], "laptop", None)
    full_fields, other_fields = fields_of(full), fields_of(direction)
    for name in ("width", "depth", "heads", "context", "inner", "dropout", "tokenizer"):
        assert other_fields[name] == full_fields[name]
    assert direction.milestone == "gpt"
    assert direction.adaptation == {"language": 0.0}  # adapted like BERT, without the auxiliary language model
    assert model_spec("gpt").sizes.get("laptop") is None
