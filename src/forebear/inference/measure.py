"""Evaluation of a run: bits per byte and perplexity on text, masked-LM accuracy, metrics and errors on a task."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.sources import Paths, ProgressFn
from forebear.data.io.text_ledger import utf8_size
from forebear.data.labeled.examples import Example, TaggedExample, example_texts, is_labeled
from forebear.data.labeled.labeled_source import LabeledSource, labeled_source
from forebear.data.labeled.load import read_extra_split, training_overlap
from forebear.data.labeled.split import SplitLeakage
from forebear.data.sentences import split_sentences
from forebear.data.tokenizers.char_ids import base_tokenizer
from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError, require_choice
from forebear.inference.predictor_protocols import (
    eos_id,
    make_row,
    oov_spelling_bits,
    row_log_probs_with_lengths,
    unknown_token_bytes,
)
from forebear.numerics import finite_or_none, perplexity
from forebear.objectives.batch import BatchKey, is_supervised, token_batches
from forebear.objectives.masked_tokens import MaskedTokens, SingleTokens
from forebear.tasks import metrics
from forebear.tasks.classification import Classification
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import AnswerComparison, Logits, Task, predict_logits
from forebear.tasks.task_batches import ExampleRows

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset
    from forebear.data.io.text_formats import TextFormat
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import CausalLM
    from forebear.inference.run import Run
    from forebear.nn.masked_token_predictor import MaskedTokenPredictor

TEXT_UNITS = ("document", "sentence")


@dataclass(frozen=True)
class TextEvaluation:
    """Totals over the units of a text (documents or sentences), each scored by itself, and the derived metrics.

    `tokens` counts the predicted tokens: every token of the text and the end of each unit. `num_impossible` counts
    those with probability 0, as maximum likelihood can give; then `nats` is infinite. A masked language model assigns
    no probability to a text: its values are a pseudo-likelihood, see `evaluate_masked_lm`.
    """

    nats: float
    tokens: int
    units: int
    documents: int
    bytes: int
    unknown_tokens: int
    unknown_bytes: int
    num_impossible: int
    seconds: float
    lossy_features: tuple[str, ...] = ()  # features of text that the tokenizer does not keep
    learned_from: int | None = None  # documents that were in the training data, if known
    learned_bytes: int | None = None  # their bytes
    is_pseudo_likelihood: bool = False
    num_masked: int | None = None  # masked tokens, from which the totals are extrapolated
    accuracy: float | None = None  # on masked tokens
    majority_accuracy: float | None = None  # of always predicting the most frequent token
    pair_accuracy: float | None = None  # NSP or SOP accuracy
    known_nats: float | None = None  # without unknown tokens; None: not computed
    ngram_length: float | None = None  # mean length of the n-gram used, for n-gram models
    text_unit: str = "document"  # unit scored by itself, with its end: document, sentence or line

    @property
    def bits_per_byte(self) -> float:
        """Bits of all tokens and ends, with spelling costs of unknown tokens, per byte of the original text."""
        return (self.nats / math.log(2) + oov_spelling_bits(self.unknown_tokens, self.unknown_bytes)) / self.bytes

    @property
    def nats_per_token(self) -> float:
        """Mean loss with ends, as in the training log; unknown tokens without spelling costs."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Perplexity per token: comparable between runs of the same tokenizer only."""
        return perplexity(self.nats, self.tokens)

    @property
    def perplexity_known(self) -> float:
        """Perplexity without unknown tokens (KenLM's "excluding OOVs")."""
        if self.known_nats is None:
            return self.perplexity
        return perplexity(self.known_nats, self.tokens - self.unknown_tokens)

    @property
    def unknown_rate(self) -> float:
        """Fraction of unknown tokens, without ends."""
        if self.is_pseudo_likelihood:  # unknown tokens and ends are never masked
            return self.unknown_tokens / max(self.tokens + self.unknown_tokens, 1)
        return self.unknown_tokens / max(self.tokens - self.units, 1)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values: infinite values are null, explained by `impossible_tokens`."""
        return {
            "bits_per_byte": finite_or_none(self.bits_per_byte),
            "perplexity": finite_or_none(self.perplexity),
            "perplexity_known": finite_or_none(self.perplexity_known),
            "nats_per_token": finite_or_none(self.nats_per_token),
            "tokens": self.tokens,
            "bytes": self.bytes,
            "documents": self.documents,
            "units": self.units,
            "unit": self.text_unit,
            "unknown_tokens": self.unknown_tokens,
            "unknown_rate": self.unknown_rate,
            "impossible_tokens": self.num_impossible,
            "forgotten": list(self.lossy_features),
            "learned_from": self.learned_from,
            "learned_bytes": self.learned_bytes,
            "pseudo": self.is_pseudo_likelihood,
            "asked": self.num_masked,
            "accuracy": self.accuracy,
            "guess": self.majority_accuracy,
            "pair_accuracy": self.pair_accuracy,
            "ngram_length": self.ngram_length,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class _ScoringUnit:
    """A unit that is scored by itself: its row of ids, its bytes, and whether it starts a document."""

    row: np.ndarray
    bytes: int
    unknown_bytes: int
    starts_document: bool


def prepare_texts(
    run: Run,
    texts: Subset | Paths,
    reading: TextFormat | None = None,
    workers: int | None = None,
    progress: ProgressFn | None = None,
) -> Subset:
    """Prepare files with the run's tokenizer, and with the settings of its training text that affect tokens."""
    from forebear.data.corpus.subset import Subset
    from forebear.data.io.text_formats import TextFormat
    from forebear.data.source import TextSource, prepare_source

    if isinstance(texts, Subset):
        return texts
    metadata_source = (run.metadata.get("data") or {}).get("source")
    if metadata_source is not None:
        source = TextSource.from_dict(metadata_source)
    else:  # imported n-grams are counted by line
        is_by_line = "imported" in run.metadata and run.text_unit == "sentence"
        source = TextSource((), sentences="lines" if is_by_line else "split")
    paths = tuple(os.fspath(path) for path in ([texts] if isinstance(texts, str | os.PathLike) else texts))
    source = replace(source, paths=paths, reading=reading or TextFormat(), entities=None)
    if run.tokenizer.kind != "words":  # other kinds do not depend on word boundaries
        source = replace(source, segment=False, user_dict=None)
    return prepare_source(source, run.tokenizer, workers=workers, progress=progress).all_documents()


def evaluate_text(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    source: Subset | Iterable[str],
    *,
    unit: str = "document",
    progress: ProgressFn | None = None,
) -> TextEvaluation:
    """Score every unit of a corpus subset or of given texts by itself, as [end, tokens…, end].

    With `unit` "sentence", each sentence is scored by itself, as in training. A subset contains token ids, so it must
    be of the same tokenizer. Memory is bounded.
    """
    from forebear.data.corpus.subset import Subset

    start_time = time.monotonic()
    subset = source if isinstance(source, Subset) else None
    nats: list[float] = []
    known_nats: list[float] = []
    ngram_lengths: list[int] = []
    totals: Counter[str] = Counter()
    for batch in token_batches(_scoring_units(source, tokenizer, unit), lambda scoring_unit: len(scoring_unit.row)):
        log_probs, lengths_by_row = row_log_probs_with_lengths(predictor, [unit.row for unit in batch])
        scores = np.concatenate(log_probs)
        is_unknown = np.concatenate([unit.row[1:] for unit in batch]) == tokenizer.unk_id
        nats.append(-float(scores.sum()))
        known_nats.append(-float(scores[~is_unknown].sum()))
        ngram_lengths += [] if lengths_by_row is None else [int(np.concatenate(lengths_by_row).sum(dtype=np.int64))]
        totals.update(
            tokens=len(scores),
            units=len(batch),
            documents=sum(unit.starts_document for unit in batch),
            bytes=sum(unit.bytes for unit in batch),
            unknown_tokens=int(np.count_nonzero(is_unknown)),
            unknown_bytes=sum(unit.unknown_bytes for unit in batch),
            num_impossible=int(np.isneginf(scores).sum()),
        )
        if progress is not None:
            progress(totals["bytes"], max(0 if subset is None else subset.num_bytes, totals["bytes"]))
    if not totals["bytes"]:
        raise InputError("there is no text to measure", hint="give text that has at least one character")
    by_lines = subset is not None and subset.corpus.metadata["made_from"]["sentences"] == "lines"
    return TextEvaluation(
        nats=math.fsum(nats),
        seconds=time.monotonic() - start_time,
        lossy_features=tokenizer.lossy_features,
        known_nats=math.fsum(known_nats),
        ngram_length=sum(ngram_lengths) / totals["tokens"] if ngram_lengths else None,
        text_unit="line" if unit == "sentence" and by_lines else unit,
        **dict[str, Any](totals),
    )


def scoring_rows(source: Subset | Iterable[str], tokenizer: Tokenizer, unit: str) -> Iterator[np.ndarray]:
    """The rows that `evaluate_text` scores: each unit between two end tokens."""
    return (scoring_unit.row for scoring_unit in _scoring_units(source, tokenizer, unit))


def _scoring_units(source: Subset | Iterable[str], tokenizer: Tokenizer, unit: str) -> Iterator[_ScoringUnit]:
    from forebear.data.corpus.subset import Subset

    eos = eos_id(tokenizer)
    require_choice("the unit", unit, TEXT_UNITS)
    if isinstance(source, Subset):
        require_same_tokenizer(source, tokenizer)
        units, starts_document = source, np.ones(len(source), bool)
        if unit == "sentence":
            units = source.by_sentence()
            counts = source.units[:, 1] - source.units[:, 0]
            starts_document = np.zeros(len(units), bool)
            starts_document[np.cumsum(counts) - counts] = True
        arrays = (units.spans, units.unit_bytes, units.unit_unknown_bytes, starts_document)
        for (start, end), *values in zip(*(array.tolist() for array in arrays), strict=True):
            yield _ScoringUnit(make_row(source.corpus.ids[start:end], eos, ends=True), *values)
        return
    for text in map(replace_surrogates, [source] if isinstance(source, str) else source):
        for index, unit_text in enumerate(split_sentences(text) if unit == "sentence" else [text]):
            encoding = tokenizer.encode(unit_text)
            unknown_bytes = int(unknown_token_bytes(unit_text, encoding, tokenizer.unk_id).sum())
            yield _ScoringUnit(make_row(encoding.ids, eos, ends=True), utf8_size(unit_text), unknown_bytes, index == 0)


def require_same_tokenizer(subset: Subset, tokenizer: Tokenizer) -> None:
    """Raise InputError if the corpus was prepared with another tokenizer."""
    if subset.corpus.metadata["made_from"]["tokenizer"] != tokenizer.digest:
        hint = "give the text itself, or prepare it with the run's tokenizer.json"
        message = "this corpus was made with another tokenizer than the run's"
        raise InputError(message, file=subset.corpus.folder, hint=hint)


# --- Masked language models ---

BATCH_TOKENS = 4096


def evaluate_masked_lm(
    masked_lm: MaskedTokenPredictor,
    tokenizer: Tokenizer,
    objective: MaskedTokens,
    subset: Subset,
    *,
    progress: ProgressFn | None = None,
) -> TextEvaluation:
    """Mask single tokens at the run's mask rate and predict them.

    Every sequence of the text is read once; the mean loss of masked tokens is extrapolated to all tokens. This is not a
    probability of the text, because each token is predicted from both sides: the result is marked as a
    pseudo-likelihood. Masking single tokens only makes runs with different masking units comparable.
    """
    require_same_tokenizer(subset, tokenizer)
    start_time = time.monotonic()
    masking = replace(objective, units=SingleTokens(), mask_fraction=1.0, random_fraction=0.0)
    num_steps = masking.steps(subset, BATCH_TOKENS)
    nats, num_correct, pair_correctness, target_counts = 0.0, 0, [], np.zeros(tokenizer.vocab_size, np.int64)
    for step in range(num_steps):
        batch = masking.batch(subset, BATCH_TOKENS, BatchKey(0, step))
        outputs = masked_lm.evaluate_batch(batch.inputs, batch.targets)
        nats -= float(outputs["token"].astype(np.float64).sum())
        num_correct += int(outputs["right"].sum())
        targets = batch.targets["token"]
        target_counts += np.bincount(targets[targets >= 0], minlength=tokenizer.vocab_size)
        pair_correctness.append(outputs.get("pair", np.empty(0, bool)))
        if progress is not None:
            progress(subset.num_bytes * (step + 1) // num_steps, subset.num_bytes)
    num_masked = int(target_counts.sum())
    if not num_masked:
        raise InputError("there is too little text to hide anything in", hint="give more text")
    pair_results = np.concatenate(pair_correctness)
    documents = (subset.corpus.ids[start:end] for start, end in subset.spans.tolist())
    num_unknown = sum(int(np.count_nonzero(ids == tokenizer.unk_id)) for ids in documents)
    num_tokens = subset.num_tokens - num_unknown
    return TextEvaluation(
        nats=nats / num_masked * num_tokens,
        tokens=num_tokens,
        units=len(subset),
        documents=len(subset),
        bytes=subset.num_bytes,
        unknown_tokens=num_unknown,
        unknown_bytes=subset.unknown_bytes,
        num_impossible=0,
        seconds=time.monotonic() - start_time,
        lossy_features=tokenizer.lossy_features,
        is_pseudo_likelihood=True,
        num_masked=num_masked,
        accuracy=num_correct / num_masked,
        majority_accuracy=float(target_counts.max()) / num_masked,
        pair_accuracy=float(pair_results.mean()) if len(pair_results) else None,
    )


# --- Evaluation on a task ---

LISTED_MISPREDICTIONS = 5


@dataclass(frozen=True)
class Misprediction:
    """An example with a wrong prediction."""

    example: Example
    judgment: AnswerComparison

    def to_dict(self) -> dict[str, Any]:
        location = self.example.location
        return {
            "file": location.file,
            "line": location.line,
            "name": location.name,
            "texts": list(example_texts(self.example)),
            "wanted": self.judgment.expected,
            "said": self.judgment.predicted,
            "probability": self.judgment.probability,
        }


@dataclass(frozen=True)
class TaskEvaluation:
    """Metrics of a task on labeled examples, and its mispredictions, most confident first."""

    task: str
    score: str
    metrics: dict[str, Any]
    calibration: dict[str, Any] | None
    mispredictions: tuple[Misprediction, ...]
    num_unlabeled: int
    notes: tuple[str, ...]
    seconds: float
    leakage: SplitLeakage | None = None  # examples that were in the training data, if known

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "score": self.score,
            **self.metrics,
            "calibration": self.calibration,
            "mistakes": len(self.mispredictions),
            "first_mistakes": [mistake.to_dict() for mistake in self.mispredictions[:LISTED_MISPREDICTIONS]],
            "unlabelled": self.num_unlabeled,
            "learned_from": None if self.leakage is None else self.leakage.num_exact,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def evaluate_task(
    run: Run,
    file: str | os.PathLike[str],
    *,
    on_bad_rows: str = "fail",
    on_bad_tags: str = "fail",
    progress: ProgressFn | None = None,
) -> TaskEvaluation:
    """Evaluate a run on a file of labeled examples in the format of its training data."""
    start_time = time.monotonic()
    task = run.task
    assert task is not None
    source_options: dict[str, Any] = {"on_bad_rows": on_bad_rows, "on_bad_tags": on_bad_tags}
    notes: list[str] = []
    if "labelled" in run.metadata:
        source = LabeledSource.from_dict({**run.metadata["labelled"]["source"], **source_options})
    else:  # imported: the training data is unknown, so the format is detected from the file
        source, notes = labeled_source(os.fspath(file), task=task.name, **source_options)
    all_examples = read_extra_split(os.fspath(file), source, task.scheme, notes)
    examples = [example for example in all_examples if is_labeled(example)]
    if not examples:
        hint = f"give labelled examples; without labels, ask: forebear {task.verb} RUN --in FILE"
        raise InputError("no example has a label: there is nothing to measure", file=file, hint=hint)
    notes += _unknown_tag_notes(task, examples, file)
    rows = task.encode(examples, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    logits = predict_logits(run.network, rows, progress)
    predictions = task.predictions(examples, rows, logits)
    pairs = zip(examples, predictions, strict=True)
    judgments = ((example, task.compare_to_gold(example, prediction)) for example, prediction in pairs)
    mispredictions = [Misprediction(example, judgment) for example, judgment in judgments if not judgment.is_right]
    mispredictions.sort(key=lambda misprediction: -(misprediction.judgment.probability or 0.0))
    return TaskEvaluation(
        task.name,
        task.metric,
        _task_metrics(run, task, examples, predictions),
        task_calibration(task, rows, logits),
        tuple(mispredictions),
        len(all_examples) - len(examples),
        tuple(notes),
        time.monotonic() - start_time,
        training_overlap(run.metadata["labelled"], examples) if "labelled" in run.metadata else None,
    )


def _unknown_tag_notes(task: Task, examples: Sequence[Example], file: str | os.PathLike[str]) -> list[str]:
    """A note on plain tags that are not in the training data; InputError if all are."""
    if not isinstance(task, SequenceTagging) or not task.is_plain:
        return []
    tagged = [example for example in examples if isinstance(example, TaggedExample)]
    tag_counts = Counter(tag for example in tagged for tag in example.tags or ())
    unknown_tags = {tag: count for tag, count in tag_counts.items() if tag not in task.tags}
    if not unknown_tags:
        return []
    tag_names = ", ".join(sorted(unknown_tags, key=lambda tag: -unknown_tags[tag])[:LISTED_MISPREDICTIONS])
    if len(unknown_tags) == len(tag_counts):
        known_tags = ", ".join(task.tags[:LISTED_MISPREDICTIONS])
        message = f"none of its tags ({tag_names}) is one of those that were learned ({known_tags}, …)"
        raise InputError(message, file=file, hint="give a file of the same tags, or ask a run that learned these")
    count = sum(unknown_tags.values())
    return [f"words whose tag was never learned, and which count as mistakes: {count:,} ({tag_names})"]


def _task_metrics(run: Run, task: Task, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, Any]:
    """Metrics of the task, and accuracy on out-of-vocabulary words if the vocabulary has all training words."""
    task_metrics = task.evaluate(examples, predictions)
    if not isinstance(task, SequenceTagging) or not task.is_plain or not run.folder.spec.learns_tags:
        return task_metrics
    words = sorted({word for example in examples if isinstance(example, TaggedExample) for word in example.words})
    tokenizer = base_tokenizer(run.tokenizer)
    ids, counts = tokenizer.encode_many(words)
    is_oov = np.split(ids == tokenizer.unk_id, np.cumsum(counts)[:-1])
    known_words = {word for word, mask in zip(words, is_oov, strict=True) if not mask.any()}
    return task_metrics | metrics.oov_tagging_accuracy(examples, predictions, known_words)


def task_calibration(task: Task, rows: ExampleRows, logits: Logits) -> dict[str, Any] | None:
    """Calibration of class probabilities; None for other tasks."""
    if not isinstance(task, Classification) or task.kind == "number":
        return None
    supervised = is_supervised(rows.targets["label"])
    if not supervised.any():
        return None
    label_logits, targets = np.stack(logits["label"])[supervised], rows.targets["label"][supervised]
    return metrics.calibration(label_logits, targets, task.temperature)


def write_mispredictions(evaluation: TaskEvaluation, file: Path) -> None:
    """Write mispredictions as TSV: location, gold label, prediction, probability, text."""
    from forebear.data.io.atomic import atomic_write, explain_disk_errors

    with explain_disk_errors(file), atomic_write(file) as output:
        output.write(b"file\tline\twanted\tsaid\tprobability\ttext\n")
        for misprediction in evaluation.mispredictions:
            location, judgment = misprediction.example.location, misprediction.judgment
            probability = "" if judgment.probability is None else f"{judgment.probability:.4f}"
            cells = [location.file or "", location.line or location.name or ""]
            cells += [judgment.expected, judgment.predicted]
            cells += [probability, *example_texts(misprediction.example)]
            output.write(("\t".join(" ".join(str(cell).split()) for cell in cells) + "\n").encode("utf-8", "replace"))
