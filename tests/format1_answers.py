"""What a run of format 1 is asked, and its answers as plain JSON values with names of their own.

The only place that knows how today's API spells a verb: answers.json keeps its names when the API changes.
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
PLACEHOLDER = b"@WORK@"  # stands in the stored files for the folder where they were made
TEXT_FILES = (".json", ".jsonl", ".md")
CORPORA, COMPARISONS = ("english", "chinese"), ("texts", "task")
SENTENCES = ["Anna lives in Paris and has a dog.", "The cat runs to the river."]
UNKNOWN = "The dogs sleep."  # to what has a vector for letter groups, or none at all for words it does not know
CHINESE = ["小明住在南京。", "老王今天吃鱼。"]
TIMES = ("seconds",)


def unpack(folder: Path) -> None:
    """The stored files as they were, as if they had been made in this folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    here = str(folder).encode()
    for file in folder.rglob("*"):
        if file.suffix in TEXT_FILES:
            content = file.read_bytes()
            if PLACEHOLDER in content:
                file.write_bytes(content.replace(PLACEHOLDER, here))


def answers(folder: str) -> dict[str, Any]:
    """The answer to every verb of a run, asked in the working folder that has its texts."""
    run = fb.load(folder)
    chinese = any("chinese" in word for word in str(run.metadata.get("command")).split() if word.startswith("texts/"))
    texts = CHINESE if chinese else SENTENCES
    verbs = sorted(run.capabilities)
    found: dict[str, Any] = {"verbs": verbs, "metrics": _metrics(run), "heads": list(run.heads)}
    for verb in verbs:
        if (asked := _ASKED.get(verb)) is not None:
            found[verb] = asked(run, texts, chinese)
    return _plain(found)


def listing(folder: str) -> dict[str, Any]:
    """What `forebear runs` says of each run below a folder."""
    return {
        one.folder: _plain(
            {
                "state": one.state,
                "model": one.milestone,
                "size": one.size,
                "step": one.step,
                "steps": one.steps,
                "bits_per_byte": one.bits_per_byte,
                "accuracy": one.found,
                "task": one.task,
                "score": one.score[1] if one.score else None,
                "parameters": one.parameters,
                "started": one.began,
            }
        )
        for one in fb.runs(folder)
    }


def resumed(folder: str) -> None:
    """Goes on with an interrupted run to its end, by the command that the run itself names."""
    command = shlex.split(RunFolder.open(folder).resume_command)[1:]
    assert main([*command, "--quiet"]) == 0


def corpus_answers(folder: str) -> dict[str, Any]:
    corpus = Corpus.open(folder)
    corpus.verify()
    corpus.ledger.verify()
    starts = {"words": corpus.words, "entities": corpus.entities}
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
            **{name: None if found is None else int(found.sum()) for name, found in starts.items()},
        }
    )


def comparison_answers(folder: str) -> dict[str, Any]:
    """The table that stands in the folder."""
    told = json.loads((Path(folder) / "comparison.json").read_text(encoding="utf-8"))
    return _rows(TaskComparison.from_dict(told) if "task" in told else TextComparison.from_dict(told))


def shown_again(folder: str) -> dict[str, Any]:
    """What comes of the command that made the comparison when it is given again: all of it stands there already."""
    if "task" in folder:
        task = ("classification", "texts/opinions.tsv")
        return _rows(fb.compare(task=task, runs=["finished/bert"], adapt_time="1s", threads=1, to=folder))
    texts = "texts/english.txt"
    return _rows(fb.compare(texts, only=["ngram", "word2vec"], time="1s", seeds=1, threads=1, to=folder))


def _rows(made: TextComparison | TaskComparison) -> dict[str, Any]:
    rows = []
    for row in made.rows:
        for one in row.trials:
            found = {"row": row.name, "seed": one.seed, "parameters": one.parameters, "memory": one.memory}
            if isinstance(made, TaskComparison):
                found |= {"score": one.score, "between": [one.low, one.high], "seconds": one.adapting}
                found |= {"figures": sorted(_numbers(one.figures)), "steps": one.steps}
            else:
                found |= {"bits_per_byte": one.bits_per_byte, "seconds": one.seconds, "sample": one.sample}
                found |= {"perplexity": one.perplexity, "tokens": one.tokens}
            rows.append(found | {"finished": one.finished, "error": one.error})
    beside = made.baselines if isinstance(made, TaskComparison) else made.yardsticks
    return _plain({"rows": rows, "beside": len(beside), "finished": made.finished})


def _metrics(run: fb.Run) -> dict[str, Any]:
    """The figures of run.json as a sorted list of numbers for each portion: names of figures may change."""
    sides = run.metadata.get("metrics", {})
    return {side: sorted(_numbers(figures)) for side, figures in sides.items()}


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for name, one in value.items() if name not in TIMES for number in _numbers(one)]
    if isinstance(value, list | tuple):
        return [number for one in value for number in _numbers(one)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def _score(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    return [[token.log_prob for token in one.tokens] for one in run.score([*texts, "a zebra 斑马"])]


def _next(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    found = run.next(texts[0][: len(texts[0]) // 2], top=5)
    return [[one.text, one.probability] for one in found.candidates]


def _generate(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    start = texts[0][:4]
    search = run.generate(start, beams=2, best=2, length=6)
    greedy = run.generate(start, temperature=0, length=8, seed=0)
    return {"beams": [[one.text, one.log_prob] for one in search], "greedy": [one.text for one in greedy]}


def _ask(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    with contextlib.suppress(ForebearError):
        found = run.ask(texts[:1], choices=["北京", "鱼"] if chinese else [" cat", " dog"])
        return [[[one.name, one.probability] for one in prompted.answers] for prompted in found]
    return "refused"


def _fill(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    found = run.fill("小明住在____京。" if chinese else "Anna lives in ____ and has a dog.", top=5)
    return {
        "text": found.filled_text,
        "log_probability": found.log_prob,
        "blanks": [[[one.text, one.probability] for one in blank] for blank in found.blanks],
    }


def _classify(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    asked: Any = texts if run.task.name != "pairs" else [("Ben has a dog", "the dog of Ben")]
    return [[one.label, sorted(one.probabilities.items())] for one in run.classify(asked)]


def _tag(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    return [
        {
            "words": list(one.words),
            "tags": list(one.tags),
            "labels": list(one.labels),
            "probabilities": one.probabilities.tolist(),
        }
        for one in run.tag(texts)
    ]


def _answer(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    found = run.answer("Where is Anna?", texts[0])[0]
    return {
        "text": found.text,
        "no_answer": found.no_answer_score,
        "candidates": [[one.text, one.start, one.probability] for one in found.candidates],
    }


def _choose(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    found = run.choose("Emma", ["has a fox", "a has fox"])
    return [found.choice, list(found.probabilities)]


def _translate(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    found = run.translate(["the cat sees the dog", "Anna is in Rome"], beams=2, best=2)
    return [[[one.text, one.score] for one in text.hypotheses] for text in found]


def _embed(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    found = [[float(number) for number in one.vector[:8]] for one in run.embed(texts)]
    with contextlib.suppress(ForebearError):
        return [*found, [float(number) for number in run.embed(UNKNOWN)[0].vector[:8]]]
    return [*found, "refused"]


def _neighbours(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    own = [[one.text, one.cosine] for one in run.neighbours(texts[0], among=texts, top=2)[0].nearest]
    if "analogy" not in run.capabilities:
        return {"texts": own}
    word = "南" if chinese else "dog"
    return {"texts": own, "words": [[one.word, one.cosine] for one in run.neighbours(word, top=5)[0].nearest]}


def _similarity(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    return run.similarity(*texts).cosine


def _odd(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    found = run.odd_one_out([*texts, texts[0]])
    return list(found.cosines)


def _analogy(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    words = ("小", "老", "南") if chinese else ("cat", "dog", "river")
    return [[one.word, one.cosine] for one in run.analogy(*words, top=3).nearest]


def _measure(run: fb.Run, texts: list[str], chinese: bool) -> Any:
    if run.task is not None:
        files = {"classification": "opinions-chinese.tsv" if chinese else "opinions.tsv", "pairs": "sentence-pairs.tsv"}
        files |= {"tagging": "tags.conll", "answering": "questions.json", "choice": "choices.tsv"}
        found = run.evaluate(f"texts/{files[run.task.name]}")
        return {"figures": sorted(_numbers(found.metrics)), "mistakes": len(found.mispredictions)}
    if "translate" in run.capabilities:
        return None  # measured on pairs by the command line: the figures are among the metrics of the run
    found = run.measure("texts/held-out-chinese.txt" if chinese else "texts/held-out.txt")
    facts = {name: value for name, value in found.to_dict().items() if not name.startswith("learned")}  # of the cache
    return {"tokens": found.tokens, "bytes": found.bytes, "numbers": sorted(_numbers(facts))}


_ASKED = {
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
    """JSON values: numbers with seven digits, what is infinite as a word."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool) or value is None or isinstance(value, int | str):
        return value
    value = float(value)
    return float(f"{value:.7g}") if math.isfinite(value) else str(value)
