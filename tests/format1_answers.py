"""Calls of runs of format 1, and their results as plain JSON values with names of their own.

The only place that knows the current API of a verb: answers.json keeps its names when the API changes.
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import tarfile
from pathlib import Path
from typing import Any

import forebear as fb
from forebear.cli.main import main
from forebear.data.corpus.corpus import Corpus
from forebear.errors import ForebearError
from forebear.experiments.comparison.results import TaskComparison, TextComparison
from forebear.training.run_folder import RunFolder

STORED = Path(__file__).parent / "stored" / "format1"
ARCHIVE, ANSWERS = STORED / "files.tar.xz", STORED / "answers.json"
PLACEHOLDER = b"@WORK@"  # replaces the folder where the stored files were written
TEXT_FILES = (".json", ".jsonl", ".md")
CORPORA, COMPARISONS = ("english", "chinese"), ("texts", "task")
SENTENCES = ["Anna lives in Paris and has a dog.", "The cat runs to the river."]
UNKNOWN = "The dogs sleep."  # has a vector only in models with character n-grams
CHINESE = ["小明住在南京。", "老王今天吃鱼。"]
TIMES = ("seconds",)


def unpack(folder: Path) -> None:
    """Unpacks the stored files, with paths as if they had been written in this folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    here = str(folder).encode()
    for file in folder.rglob("*"):
        if file.suffix in TEXT_FILES:
            content = file.read_bytes()
            if PLACEHOLDER in content:
                file.write_bytes(content.replace(PLACEHOLDER, here))


def answers(folder: str) -> dict[str, Any]:
    """The result of every verb of a run, called in the working folder that has its texts."""
    run = fb.load(folder)
    chinese = any("chinese" in word for word in str(run.metadata.get("command")).split() if word.startswith("texts/"))
    texts = CHINESE if chinese else SENTENCES
    verbs = sorted(run.capabilities)
    results: dict[str, Any] = {"verbs": verbs, "metrics": _metrics(run), "heads": list(run.heads)}
    for verb in verbs:
        if (call := _CALLS.get(verb)) is not None:
            results[verb] = call(run, texts, chinese)
    return _plain(results)


def listing(folder: str) -> dict[str, Any]:
    """The facts that `forebear runs` lists of each run below a folder."""
    return {
        run.folder: _plain(
            {
                "state": run.state,
                "model": run.milestone,
                "size": run.size,
                "step": run.step,
                "steps": run.steps,
                "bits_per_byte": run.bits_per_byte,
                "accuracy": run.found,
                "task": run.task,
                "score": run.score[1] if run.score else None,
                "parameters": run.parameters,
                "started": run.began,
            }
        )
        for run in fb.runs(folder)
    }


def resumed(folder: str) -> None:
    """Resumes an interrupted run to its end, by the command that the run itself names."""
    command = shlex.split(RunFolder.open(folder).resume_command)[1:]
    assert main([*command, "--quiet"]) == 0


def corpus_answers(folder: str) -> dict[str, Any]:
    corpus = Corpus.open(folder)
    corpus.verify()
    corpus.ledger.verify()
    flags = {"words": corpus.words, "entities": corpus.entities}
    return _plain(
        {
            "tokenizer": corpus.tokenizer.kind,
            "vocabulary": corpus.tokenizer.vocab_size,
            "tokens": len(corpus),
            "bytes": int(corpus.sizes.sum()),
            "sentences": len(corpus.sentences) - 1,
            "documents": len(corpus.documents) - 1,
            "held_out": len(corpus.split(0.15).held_out),
            "ids": corpus.document_ids(0).tolist(),
            "text": corpus.tokenizer.decode(corpus.document_ids(0).tolist()),
            **{name: None if array is None else int(array.sum()) for name, array in flags.items()},
        }
    )


def comparison_answers(folder: str) -> dict[str, Any]:
    """The table stored in the folder."""
    stored = json.loads((Path(folder) / "comparison.json").read_text(encoding="utf-8"))
    return _rows(TaskComparison.from_dict(stored) if "task" in stored else TextComparison.from_dict(stored))


def reused_comparison_answers(folder: str) -> dict[str, Any]:
    """The result of repeating the comparison: all of its rows are stored already."""
    if "task" in folder:
        task = ("classification", "texts/opinions.tsv")
        return _rows(fb.compare(task=task, runs=["finished/bert"], adapt_time="1s", threads=1, to=folder))
    texts = "texts/english.txt"
    return _rows(fb.compare(texts, only=["ngram", "word2vec"], time="1s", seeds=1, threads=1, to=folder))


def _rows(comparison: TextComparison | TaskComparison) -> dict[str, Any]:
    rows = []
    for row in comparison.rows:
        for trial in row.trials:
            record = {"row": row.name, "seed": trial.seed, "parameters": trial.parameters, "memory": trial.memory}
            if isinstance(comparison, TaskComparison):
                record |= {"score": trial.score, "between": [trial.low, trial.high], "seconds": trial.adapting}
                record |= {"figures": sorted(_numbers(trial.figures)), "steps": trial.steps}
            else:
                record |= {"bits_per_byte": trial.bits_per_byte, "seconds": trial.seconds, "sample": trial.sample}
                record |= {"perplexity": trial.perplexity, "tokens": trial.tokens}
            rows.append(record | {"finished": trial.finished, "error": trial.error})
    references = comparison.baselines if isinstance(comparison, TaskComparison) else comparison.yardsticks
    return _plain({"rows": rows, "beside": len(references), "finished": comparison.finished})


def _metrics(run: fb.Run) -> dict[str, Any]:
    """The metrics of run.json as a sorted list of numbers for each split: names of metrics may change."""
    splits = run.metadata.get("metrics", {})
    return {split: sorted(_numbers(metrics)) for split, metrics in splits.items()}


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for name, item in value.items() if name not in TIMES for number in _numbers(item)]
    if isinstance(value, list | tuple):
        return [number for item in value for number in _numbers(item)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def _score(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    return [[token.log_prob for token in text_score.tokens] for text_score in run.score([*texts, "a zebra 斑马"])]


def _next(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    result = run.next(texts[0][: len(texts[0]) // 2], top=5)
    return [[candidate.text, candidate.probability] for candidate in result.candidates]


def _generate(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    start = texts[0][:4]
    search = run.generate(start, beams=2, best=2, length=6)
    greedy = run.generate(start, temperature=0, length=8, seed=0)
    return {
        "beams": [[result.text, result.log_prob] for result in search],
        "greedy": [result.text for result in greedy],
    }


def _ask(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    with contextlib.suppress(ForebearError):
        results = run.ask(texts[:1], choices=["北京", "鱼"] if chinese else [" cat", " dog"])
        return [[[option.name, option.probability] for option in prompted.answers] for prompted in results]
    return "refused"


def _fill(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    filled = run.fill("小明住在____京。" if chinese else "Anna lives in ____ and has a dog.", top=5)
    return {
        "text": filled.filled_text,
        "log_probability": filled.log_prob,
        "blanks": [[[candidate.text, candidate.probability] for candidate in blank] for blank in filled.blanks],
    }


def _classify(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    inputs: Any = texts if run.task.name != "pairs" else [("Ben has a dog", "the dog of Ben")]
    return [[result.label, sorted(result.probabilities.items())] for result in run.classify(inputs)]


def _tag(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    return [
        {
            "words": list(result.words),
            "tags": list(result.tags),
            "labels": list(result.labels),
            "probabilities": result.probabilities.tolist(),
        }
        for result in run.tag(texts)
    ]


def _answer(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    answer = run.answer("Where is Anna?", texts[0])[0]
    return {
        "text": answer.text,
        "no_answer": answer.no_answer_score,
        "candidates": [[candidate.text, candidate.start, candidate.probability] for candidate in answer.candidates],
    }


def _choose(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    chosen = run.choose("Emma", ["has a fox", "a has fox"])
    return [chosen.choice, list(chosen.probabilities)]


def _translate(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    translations = run.translate(["the cat sees the dog", "Anna is in Rome"], beams=2, best=2)
    return [[[hypothesis.text, hypothesis.score] for hypothesis in text.hypotheses] for text in translations]


def _embed(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    vectors = [[float(number) for number in embedding.vector[:8]] for embedding in run.embed(texts)]
    with contextlib.suppress(ForebearError):
        return [*vectors, [float(number) for number in run.embed(UNKNOWN)[0].vector[:8]]]
    return [*vectors, "refused"]


def _neighbours(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    by_text = [[neighbor.text, neighbor.cosine] for neighbor in run.neighbours(texts[0], among=texts, top=2)[0].nearest]
    if "analogy" not in run.capabilities:
        return {"texts": by_text}
    word = "南" if chinese else "dog"
    return {
        "texts": by_text,
        "words": [[neighbor.word, neighbor.cosine] for neighbor in run.neighbours(word, top=5)[0].nearest],
    }


def _similarity(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    return run.similarity(*texts).cosine


def _odd(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    result = run.odd_one_out([*texts, texts[0]])
    return list(result.cosines)


def _analogy(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    words = ("小", "老", "南") if chinese else ("cat", "dog", "river")
    return [[candidate.word, candidate.cosine] for candidate in run.analogy(*words, top=3).nearest]


def _measure(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    if run.task is not None:
        files = {"classification": "opinions-chinese.tsv" if chinese else "opinions.tsv", "pairs": "sentence-pairs.tsv"}
        files |= {"tagging": "tags.conll", "answering": "questions.json", "choice": "choices.tsv"}
        evaluation = run.evaluate(f"texts/{files[run.task.name]}")
        return {"figures": sorted(_numbers(evaluation.metrics)), "mistakes": len(evaluation.mispredictions)}
    if "translate" in run.capabilities:
        return None  # evaluated on pairs by the command line: among the metrics of the run
    evaluation = run.measure("texts/held-out-chinese.txt" if chinese else "texts/held-out.txt")
    facts = {
        name: value for name, value in evaluation.to_dict().items() if not name.startswith("learned")
    }  # of the cache
    return {"tokens": evaluation.tokens, "bytes": evaluation.bytes, "numbers": sorted(_numbers(facts))}


_CALLS = {
    "score": _score,
    "next": _next,
    "generate": _generate,
    "ask": _ask,
    "fill": _fill,
    "classify": _classify,
    "tag": _tag,
    "answer": _answer,
    "choose": _choose,
    "translate": _translate,
    "embed": _embed,
    "neighbours": _neighbours,
    "similarity": _similarity,
    "odd-one-out": _odd,
    "analogy": _analogy,
    "measure": _measure,
}


def _plain(value: Any) -> Any:
    """JSON values: numbers with seven digits, infinite ones as words."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, int | str):
        return value
    value = float(value)
    return float(f"{value:.7g}") if math.isfinite(value) else str(value)
