"""What comes out on real data within a laptop's budget, beside baselines and published figures; writes docs/results.md.

    ./dev bench results                        lists the experiments
    ./dev bench results sst2 mrpc --write      runs these, and writes their figures into docs/results.md
    ./dev bench results --write                writes the page anew from the figures of docs/results.json
    ./dev bench results all --write --to DIR   all of them; runs are kept in DIR, and what is finished is not run again

Data is that of ../shared/data (or $FOREBEAR_DATA). MiniLM is installed by the extra dev. Each experiment says its
budget; seconds are those of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import results_recurrent
import results_translation
import results_words
from real_runs import Bench, Row, Telling, as_transformers_answers, blind, row
from side_by_side import DATA, ROOT, machine
from their_loop import fine_tuned

import forebear as fb
from forebear.data.labeled.load import detect_format, read_examples
from forebear.inference.measure import evaluate_task

RESULTS, PAGE = ROOT / "docs" / "results.json", ROOT / "docs" / "results.md"
TASKS = DATA / "tasks"
SEEDS = (0, 1, 2)
SEEN = "one seed; the recipe was picked from eight tried, whose test scores, 0.876 to 0.895, were seen"


# --- the experiments: a title, the figures that are shown, and the rows ---


def sst2(bench: Bench) -> tuple[str, list[str], list[Row]]:
    files = {side: TASKS / "sst2" / f"{side}.tsv" for side in ("train", "dev", "test")}
    how = {"task": "classification", "dev": files["dev"], "test": files["test"]}
    linear = bench.adapt("sst2-linear", "ngram", files["train"], **how)
    recipe = {"read": "mean", "epochs": 4, "rate": 5e-5, "batch": 368, "evaluate_every": 144}
    tuned = bench.adapt("sst2-minilm", bench.minilm(), files["train"], **recipe, **how)
    keep = bench.folder / "sst2-transformers.json"
    theirs = fine_tuned(bench.minilm_files(), files["train"], files["test"], keep, epochs=3, rate=5e-5)
    return (
        "SST-2, 6,920 sentences to learn from, 1,821 in the test: accuracy",
        ["accuracy", "macro_f1", "mcc"],
        [
            blind(linear),
            row("n-grams and a linear model", linear),
            row("MiniLM fine-tuned", tuned, SEEN),
            row("the same weights by transformers' own classes and a plain loop", theirs, "one seed, the first tried"),
            row("BERT-base, published (GLUE's 67,349 phrases)", note="Devlin et al. 2018", accuracy=0.935),
        ],
    )


def mrpc(bench: Bench) -> tuple[str, list[str], list[Row]]:
    train, test = (TASKS / "mrpc" / f"msr_paraphrase_{side}.txt" for side in ("train", "test"))
    how = {"task": "pairs", "test": test}
    linear = bench.adapt("mrpc-linear", "ngram", train, **how)
    tuned = bench.adapt("mrpc-minilm", bench.minilm(), train, read="mean", rate=2e-5 * 2 ** (5 / 3), **how)
    return (
        "MRPC, 4,076 pairs to learn from, 1,725 in the test: paraphrase or not",
        ["accuracy", "macro_f1", "mcc"],
        [
            blind(linear),
            row("n-grams and a linear model", linear),
            row("MiniLM fine-tuned", tuned, "at a rate of 6.3e-5"),
            row("BERT-base, published (another test set)", note="Devlin et al. 2018: F1 0.889"),
        ],
    )


def afqmc(bench: Bench) -> tuple[str, list[str], list[Row]]:
    train, dev = (TASKS / "afqmc" / f"{side}.txt" for side in ("train", "dev"))
    how = {"task": "pairs", "test": dev, "on_bad_rows": "skip"}
    linear = bench.adapt("afqmc-linear", "ngram", train, **how)
    tuned = bench.adapt("afqmc-bert", bench.chinese(), train, time="8m", rate=1.5e-4, **how)
    return (
        "AFQMC, 34,334 pairs to learn from, measured on the 4,316 of its dev file",
        ["accuracy", "macro_f1", "mcc"],
        [
            blind(linear),
            row("n-grams and a linear model", linear),
            row("own BERT (4 layers of 128), fine-tuned", tuned, "8 minutes at a rate of 1.5e-4"),
            row("BERT-base, published", note="CLUE", accuracy=0.737),
        ],
    )


def wnut17(bench: Bench) -> tuple[str, list[str], list[Row]]:
    folder = TASKS / "wnut17"
    files = {"dev": folder / "emerging.dev.conll", "test": folder / "emerging.test.annotated"}
    how = {"task": "tagging", **files, "on_bad_tags": "repair"}
    linear = bench.adapt("wnut-linear", "ngram", folder / "wnut17train.conll", **how)
    tuned = bench.adapt("wnut-minilm", bench.minilm(), folder / "wnut17train.conll", crf=True, **how)
    return (
        "WNUT-17, 3,394 sentences with new and rare names, 1,287 in the test: entity F1",
        ["f1", "precision", "recall"],
        [
            row("a linear model of words around each word", linear),
            row("MiniLM with a CRF, fine-tuned", tuned),
            row("best of the shared task", note="Derczynski et al. 2017", f1=0.4186),
        ],
    )


def msra(bench: Bench) -> tuple[str, list[str], list[Row]]:
    train, test = (TASKS / "msra_ner" / f"{side}.txt" for side in ("train", "test"))
    how = {"task": "tagging", "test": test, "on_bad_tags": "repair", "dev_share": 0.03}
    begin = bench.chinese()
    with_it = bench.adapt("msra-bert", begin, train, time="7m", **how)
    without = bench.adapt("msra-nothing", bench.chinese(taught=False), train, time="7m", **how)
    return (
        "MSRA, 50,658 sentences, 3,442 in the test: entity F1 after 7 minutes of adapting each",
        ["f1", "precision", "recall"],
        [
            row("own BERT (4 layers of 128), pre-trained 25 minutes", with_it),
            row("the same without pre-training", without),
            row("BERT-base, published", note="ERNIE paper, Sun et al. 2019", f1=0.926),
        ],
    )


def cmrc(bench: Bench) -> tuple[str, list[str], list[Row]]:
    train, dev = (TASKS / "cmrc2018" / f"{side}.json" for side in ("train", "dev"))
    how = {"task": "answering", "test": dev, "on_bad_rows": "skip", "dev_share": 0.03}
    tuned = bench.adapt("cmrc-bert", bench.chinese(), train, time="6m", **how)
    linear = bench.adapt("cmrc-linear", "ngram", train, **how)
    return (
        "CMRC 2018, 10,142 questions, measured on the 3,219 of its dev file: exact match and F1",
        ["exact_match", "f1"],
        [
            blind(linear),
            row("a linear model of words, clauses and what is asked", linear),
            row("own BERT (4 layers of 128), 6 minutes", tuned),
            row("BERT-base, published", note="CMRC 2018", exact_match=0.636, f1=0.839),
        ],
    )


def squad(bench: Bench) -> tuple[str, list[str], list[Row]]:
    train, test = (bench.folder / f"squad.{side}.json" for side in ("train", "test"))
    if not test.exists():
        data = json.loads((TASKS / "squad" / "dev-v1.1.json").read_text(encoding="utf-8"))["data"]
        random.Random(0).shuffle(data)
        cut = len(data) * 4 // 5
        for file, part in ((train, data[:cut]), (test, data[cut:])):
            file.write_text(json.dumps({"version": "1.1", "data": part}), encoding="utf-8")
    how = {"task": "answering", "test": test, "dev_share": 0.03}
    linear = bench.adapt("squad-linear", "ngram", train, **how)
    tuned = bench.adapt("squad-minilm", bench.minilm(), train, time="15m", **how)
    task, form, _ = detect_format(str(test), "answering")
    some: list[Any] = [
        one for one in islice(read_examples(str(test), task, form), 0, None, 60) if len(one.passage) < 1000
    ]
    alike = as_transformers_answers(fb.load(tuned["run"]), some, bench.folder / "squad-in-transformers")
    return (
        "SQuAD 1.1's dev file, four fifths of its articles to learn from, the others in the test: 15 minutes",
        ["exact_match", "f1"],
        [
            blind(linear),
            row("a linear model of words, clauses and what is asked", linear),
            row("MiniLM fine-tuned", tuned, alike),
            row("logistic regression, published (87,599 questions)", note="Rajpurkar et al. 2016", f1=0.510),
        ],
    )


def chnsenticorp(bench: Bench) -> tuple[str, list[str], list[Row]]:
    files = {side: TASKS / "chnsenticorp" / f"{side}.tsv" for side in ("train", "dev", "test")}
    how = {"task": "classification", "dev": files["dev"], "test": files["test"]}
    linear = bench.adapt("reviews-linear", "ngram", files["train"], **how)
    teacher = bench.adapt("reviews-bert", bench.chinese(), files["train"], time="4m", **how)
    rows = [
        blind(linear),
        row("n-grams and a linear model", linear),
        row("own BERT (4 layers of 128), fine-tuned 4 minutes: the teacher", teacher),
    ]
    few, texts = bench.few_reviews(files["train"])
    rows += _students(bench, "reviews-student", teacher, "all labels", files["test"], SEEDS)
    lesson = {"data": few, "texts": texts, "share": 0.9}
    rows += _students(bench, "few-student", teacher, "480 labels", files["test"], SEEDS[:2], **lesson)
    return "ChnSentiCorp, 9,600 reviews, 1,200 in the test; and distillation", ["accuracy"], rows


def _students(
    bench: Bench, name: str, teacher: Row, what: str, test: Path, seeds: Sequence[int], **lesson: Any
) -> list[Row]:
    """Smaller ones from first values with a teacher and without, 90 seconds each: the mean over seeds."""
    told: dict[str, list[Row]] = {}
    for seed in seeds:
        print(f"  {name}, seed {seed}", flush=True)
        how = {"width": 64, "depth": 2, "heads": 2, "inner": 256, "compare": True, "time": "90s", "seed": seed}
        made = fb.distill(teacher["run"], to=bench.folder / f"{name}-{seed}", callback=Telling(), **how, **lesson)
        for one in made.metadata["price"]:
            score = evaluate_task(fb.load(one["run"]), str(test)).metrics["accuracy"]
            told.setdefault(one["who"], []).append(one | {"test": score})
    rows = []
    more = " and the other reviews without labels" if "texts" in lesson else ""
    for who, of in (("student", f"{what}{more}, taught by it"), ("student alone", f"{what}, without a teacher")):
        scores = [one["test"] for one in told[who]]
        note = f"mean of {len(scores)} seeds: {', '.join(f'{one:.4f}' for one in scores)}"
        made = row(f"2 layers of 64, from first values, 90 seconds, {of}", None, note, accuracy=mean(scores))
        rows.append(made | {"parameters": told[who][0]["parameters"], "seconds": 90.0})
    return rows


def _ablated(bench: Bench, name: str, text: Path, task: tuple[str, Path], **how: Any) -> list[Row]:
    """BERT as it is, and without one of its parts at a time."""
    parts = ["nsp", "direction", "whole-words", "pretraining"]
    found: Any = fb.compare(text, task=task, ablate=parts, to=bench.folder / name, **how)
    rows = []
    for one in found.rows:
        trial = one.trials[0]
        print(f"    {one.title}: {trial.score}", flush=True)
        figures = {"score": trial.score} | ({} if one.versus is None else {"difference": one.versus[0]})
        rows.append(row(one.title, **figures) | {"parameters": trial.parameters, "seconds": trial.adapting})
    return rows


def parts_of_bert(bench: Bench) -> tuple[str, list[str], list[Row]]:
    text, tasks = bench.world()
    train, test = tasks["answers"]
    rows = _ablated(bench, "world-parts", text, ("answering", train), test=test, time="2m", adapt_time="45s")
    published = {"BERT-base": 0.885, "without next sentence": 0.879, "left to right, without next sentence": 0.778}
    for system, score in published.items():
        difference = {} if system == "BERT-base" else {"difference": score - published["BERT-base"]}
        rows.append(row(f"{system}, published, on SQuAD", note="Devlin et al. 2018", score=score, **difference))
    title = "The parts of BERT, on answers in the demo's world: 2 minutes of text, 45 seconds of 2,000 questions, F1"
    return title, ["score", "difference"], rows


def parts_on_names(bench: Bench) -> tuple[str, list[str], list[Row]]:
    train, test = (TASKS / "msra_ner" / f"{side}.txt" for side in ("train", "test"))
    how = {"test": test, "labelled": {"on_bad_tags": "repair"}, "time": "2m", "adapt_time": "75s", "vocabulary": 8000}
    rows = _ablated(bench, "msra-parts", bench.chinese_text(), ("tagging", train), **how)
    title = "The parts of BERT, on MSRA's names: 2 minutes of zhwiki and the People's Daily, 75 seconds of examples, F1"
    return title, ["score", "difference"], rows


EXPERIMENTS: dict[str, Callable[[Bench], tuple[str, list[str], list[Row]]]] = {
    "sst2": sst2,
    "mrpc": mrpc,
    "afqmc": afqmc,
    "wnut17": wnut17,
    "msra": msra,
    "cmrc": cmrc,
    "squad": squad,
    "chnsenticorp": chnsenticorp,
    "parts-of-bert": parts_of_bert,
    "parts-on-names": parts_on_names,
    **results_words.EXPERIMENTS,
    **results_recurrent.EXPERIMENTS,
}
NAMES = [*EXPERIMENTS, *results_translation.EXPERIMENTS]


# --- what is written ---


def told(title: str, shown: list[str], rows: list[Row]) -> list[str]:
    """One experiment as a table."""
    head = ["system", *(name.replace("_", " ") for name in shown), "parameters", "seconds of learning"]
    lines = [f"## {title}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for one in rows:
        name = one["system"] + (f" ({one['note']})" if one["note"] else "")
        figures = [f"{one['figures'][key]:.4f}" if key in one["figures"] else "" for key in shown]
        cost = [f"{one[key]:,.0f}" if key in one else "" for key in ("parameters", "seconds")]
        lines.append(f"| {' | '.join([name, *figures, *cost])} |")
    return lines


def section(name: str, one: Row) -> list[str]:
    if name in results_translation.EXPERIMENTS:
        return results_translation.told(name, one)
    return told(one["title"], one["shown"], one["rows"])


def write(results: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    lines = ["# Results", "", "<!-- written by `./dev bench results --write`: do not edit by hand -->", ""]
    lines += [
        "What a laptop reaches on real data, beside a baseline and published figures, which are marked by their source."
    ]
    for name in NAMES:
        if name in results:
            one = results[name]
            lines += ["", *section(name, one), "", f"{one['when']}, {one['machine']}."]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(name: str, bench: Bench) -> Row:
    if name in results_translation.EXPERIMENTS:
        return results_translation.EXPERIMENTS[name](bench)
    title, shown, rows = EXPERIMENTS[name](bench)
    return {"title": title, "shown": shown, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"all, or some of {', '.join(NAMES)}")
    parser.add_argument("--to", type=Path, default=ROOT / ".results", help="where runs are kept")
    parser.add_argument("--write", action="store_true", help="write docs/results.md")
    options = parser.parse_args()
    names = NAMES if options.names == ["all"] else options.names
    if options.write and not names:
        write(json.loads(RESULTS.read_text(encoding="utf-8")))
        return
    if not names or (unknown := [name for name in names if name not in NAMES]):
        sys.exit(f"give some of: {', '.join(NAMES)}" + (f"; not {unknown[0]}" if names else ""))
    options.to.mkdir(parents=True, exist_ok=True)
    for name in names:
        print(name, flush=True)
        found = run(name, Bench(options.to))
        print("\n".join(section(name, found)), flush=True)
        when, where = datetime.now(UTC).strftime("%Y-%m-%d"), machine(len(os.sched_getaffinity(0)))
        if options.write:
            known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
            write(known | {name: {**found, "when": when, "machine": where}})


if __name__ == "__main__":
    main()
