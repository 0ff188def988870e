"""Budgets, the learning-rate schedule, and settings as users write them."""

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
def test_parse_duration_reads_units(text: str, seconds: float):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5x", "5m!", "-5m", "five"])
def test_parse_duration_refuses_invalid_text(text: str):
    with pytest.raises(InputError, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("4_096", 4096), ("200k", 200_000), ("1.5M", 1_500_000), ("2G", 2 * 10**9), (8, 8)],
)
def test_parse_count_reads_suffixes(text: str, count: int):
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "k", "1.5", "ten", "1e", "nan"])
def test_parse_count_refuses_invalid_text(text: str):
    with pytest.raises(InputError, match=" is "):
        parse_count(text)


def test_schedule_has_warmup_plateau_and_cooldown():
    schedule = Schedule.for_recipe(Recipe(steps=100, warmup=10, cooldown=0.5), steps_per_epoch=7, seconds_per_step=1)
    fractions = [schedule.lr_fraction(step) for step in range(100)]
    assert fractions[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert fractions[10:50] == [1.0] * 40
    assert fractions[50:] == pytest.approx([(100 - step) / 50 for step in range(50, 100)])
    assert schedule.is_over(100)
    assert not schedule.is_over(99)


@pytest.mark.parametrize(
    ("recipe", "total"),
    [(Recipe(steps=12), 12), (Recipe(tokens=1000, batch=100), 10), (Recipe(epochs=3), 21), (Recipe(epochs=0.5), 4)],
)
def test_schedule_total_follows_from_budget(recipe: Recipe, total: int):
    assert Schedule.for_recipe(recipe, steps_per_epoch=7, seconds_per_step=1).total == total


def test_time_budget_is_met_when_steps_slow_down():
    """Steps take twice as long after step 300; the remaining time determines the number of steps."""
    schedule = Schedule.for_recipe(Recipe(time=100, cooldown=0.4), steps_per_epoch=7, seconds_per_step=0.1)
    assert schedule.warmup == 100
    seconds, step = 0.0, 0
    while not schedule.is_over(step):
        step += 1
        seconds += 0.1 if step < 300 else 0.2
        schedule.fix_total_steps(step, seconds)
    assert seconds == pytest.approx(100, rel=0.1)
    exact = Schedule.for_recipe(
        Recipe(steps=schedule.total, warmup=schedule.warmup, fall=schedule.cooldown_start),
        steps_per_epoch=7,
        seconds_per_step=9,
    )
    assert [exact.lr_fraction(index) for index in range(step)] == [schedule.lr_fraction(index) for index in range(step)]


def test_warmup_steps_scale_with_short_time_budgets():
    warmup_by_time = [(30, 10), (12, 6), (300, 30), (5000, 100)]
    assert [
        Schedule.for_recipe(Recipe(time=time), steps_per_epoch=7, seconds_per_step=1).warmup
        for time, _ in warmup_by_time
    ] == [warmup for _, warmup in warmup_by_time]


def test_eval_steps_grow_geometrically_or_are_regular():
    assert [step for step in range(1, 300) if is_eval_step(step, None)] == [20, 30, 45, 67, 100, 150, 225]
    assert [step for step in range(1, 30) if is_eval_step(step, 9)] == [9, 18, 27]


def test_merge_recipe_later_settings_win_and_budget_replaces_budget():
    recipe = merge_recipe({"epochs": 1, "batch": "1M"}, {"time": "2m", "rate": None}, {"rate": "1e-4"})
    assert (recipe.time, recipe.epochs, recipe.batch, recipe.rate) == (120, None, 1_000_000, 1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
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
def test_merge_recipe_names_invalid_settings(settings: dict, message: str):
    with pytest.raises(InputError) as raised:
        merge_recipe(settings)
    assert message in str(raised.value)


def test_read_recipe_file_and_its_errors(tmp_path: Path):
    file = tmp_path / "r.toml"
    file.write_text('milestone = "gpt2"\nsize = "tiny"\n[fields]\nwidth = 8\n[recipe]\ntime = "1m"\n')
    assert read_recipe(file, ("milestone", "size")) == {
        "milestone": "gpt2",
        "size": "tiny",
        "fields": {"width": 8},
        "recipe": {"time": "1m"},
    }
    for text, message in (
        ("siz = 1", "did you mean size"),
        ("time = 1", "under [recipe]"),
        ("recipe = 1", "not what it should be"),
        ("x =", "not TOML"),
    ):
        file.write_text(text)
        with pytest.raises(InputError) as raised:
            read_recipe(file, ("milestone", "size"))
        assert message in str(raised.value)
        assert str(file) in str(raised.value)
