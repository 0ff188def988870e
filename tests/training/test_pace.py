"""Budgets, the rise and fall of the rate, and settings as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebear.errors import InputError
from forebear.settings.units import parse_count, parse_duration
from forebear.training.schedule import Schedule, is_eval_step
from forebear.training.settings import Recipe, merge_recipe, read_recipe


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("30s", 30), ("5m", 300), ("1.5h", 5400), ("1h30m", 5400), (7, 7), ("2d", 172800)]
)
def test_durations(text: str, seconds: float):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5x", "5m!", "-5m", "five"])
def test_what_is_no_duration(text: str):
    with pytest.raises(InputError, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [("4096", 4096), ("4_096", 4096), ("200k", 200_000), ("1.5M", 1_500_000), ("2G", 2 * 10**9), (8, 8)],
)
def test_amounts(text: str, number: int):
    assert parse_count(text) == number


@pytest.mark.parametrize("text", ["", "k", "1.5", "ten", "1e", "nan"])
def test_what_is_no_amount(text: str):
    with pytest.raises(InputError, match=" is "):
        parse_count(text)


def test_the_rate_rises_stays_and_falls():
    pace = Schedule.for_recipe(Recipe(steps=100, warmup=10, cooldown=0.5), steps_per_epoch=7, seconds_per_step=1)
    shares = [pace.lr_fraction(step) for step in range(100)]
    assert shares[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert shares[10:50] == [1.0] * 40
    assert shares[50:] == pytest.approx([(100 - step) / 50 for step in range(50, 100)])
    assert pace.is_over(100)
    assert not pace.is_over(99)


@pytest.mark.parametrize(
    ("recipe", "total"),
    [(Recipe(steps=12), 12), (Recipe(tokens=1000, batch=100), 10), (Recipe(epochs=3), 21), (Recipe(epochs=0.5), 4)],
)
def test_budgets(recipe: Recipe, total: int):
    assert Schedule.for_recipe(recipe, steps_per_epoch=7, seconds_per_step=1).total == total


def test_a_time_is_kept_whatever_the_speed():
    """Steps slow down half way: what is left of the time still decides how many more there are."""
    pace = Schedule.for_recipe(Recipe(time=100, cooldown=0.4), steps_per_epoch=7, seconds_per_step=0.1)
    assert pace.warmup == 100
    seconds, step = 0.0, 0
    while not pace.is_over(step):
        step += 1
        seconds += 0.1 if step < 300 else 0.2
        pace.fix_total_steps(step, seconds)
    assert seconds == pytest.approx(100, rel=0.1)
    exact = Schedule.for_recipe(
        Recipe(steps=pace.total, warmup=pace.warmup, fall=pace.fall), steps_per_epoch=7, seconds_per_step=9
    )
    assert [exact.lr_fraction(at) for at in range(step)] == [pace.lr_fraction(at) for at in range(step)]


def test_a_short_time_has_a_short_warm_up():
    given = [(30, 10), (12, 6), (300, 30), (5000, 100)]
    assert [
        Schedule.for_recipe(Recipe(time=time), steps_per_epoch=7, seconds_per_step=1).warmup for time, _ in given
    ] == [w for _, w in given]


def test_evaluations_are_ever_more_seldom_or_regular():
    assert [step for step in range(1, 300) if is_eval_step(step, None)] == [20, 30, 45, 67, 100, 150, 225]
    assert [step for step in range(1, 30) if is_eval_step(step, 9)] == [9, 18, 27]


def test_later_settings_win_and_a_budget_replaces_a_budget():
    recipe = merge_recipe({"epochs": 1, "batch": "1M"}, {"time": "2m", "rate": None}, {"rate": "1e-4"})
    assert (recipe.time, recipe.epochs, recipe.batch, recipe.rate) == (120, None, 1_000_000, 1e-4)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"time": "5m", "steps": 3}, "contradict"),
        ({"rat": 1}, "did you mean rate"),
        ({"batch": 0}, "--batch is 0"),
        ({"rate": "fast"}, "--rate is 'fast'"),
        ({"cooldown": 0}, "--cooldown"),
        ({"seed": -1}, "negative"),
        ({"evaluate_every": 0}, "--evaluate-every is 0"),
    ],
)
def test_bad_settings_are_named(settings: dict, words: str):
    with pytest.raises(InputError) as raised:
        merge_recipe(settings)
    assert words in str(raised.value)


def test_recipe_files(tmp_path: Path):
    file = tmp_path / "r.toml"
    file.write_text('milestone = "gpt2"\nsize = "tiny"\n[fields]\nwidth = 8\n[recipe]\ntime = "1m"\n')
    assert read_recipe(file, ("milestone", "size")) == {
        "milestone": "gpt2",
        "size": "tiny",
        "fields": {"width": 8},
        "recipe": {"time": "1m"},
    }
    for text, words in (
        ("siz = 1", "did you mean size"),
        ("time = 1", "under [recipe]"),
        ("recipe = 1", "not what it should be"),
        ("x =", "not TOML"),
    ):
        file.write_text(text)
        with pytest.raises(InputError) as raised:
            read_recipe(file, ("milestone", "size"))
        assert words in str(raised.value)
        assert str(file) in str(raised.value)
