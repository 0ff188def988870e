"""Sequence tagging (entities, parts of speech) with windows for long texts, and CRF decoding in NumPy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forebear.data.labeled import tag_schemes as iobes
from forebear.data.labeled.examples import TaggedExample
from forebear.data.segmentation import Segmenter, has_han
from forebear.errors import InputError
from forebear.numerics import softmax
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks import metrics
from forebear.tasks.task import AnswerComparison, HeadSpec, Logits, Task
from forebear.tasks.task_batches import ExampleRow, ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import Tokenizer

Examples = Sequence[TaggedExample]

# --- Linear-chain CRF decoding: Viterbi and marginals, the NumPy counterpart of nn/crf ---
#
# All sequences are decoded in parallel, word by word, the longest first: the unfinished ones are always a prefix.
# K labels · N words of all sequences, concatenated · scores add up: start, emissions, transitions (from, to), end

FORBIDDEN_VITERBI_SCORE, MIN_EMISSION = -1e12, -1e6  # score of forbidden transitions; minimum emission score
MIN_COMPILED_SIZE = 1 << 24  # transitions of all words; below, loading the compiled kernel takes longer
MIN_WEIGHT = 1e-300  # avoids log(0)


def chain_viterbi(
    scores: np.ndarray, lengths: Sequence[int], transitions: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N,) the labels with the highest total score (Viterbi)."""
    if scores.size * len(start) > MIN_COMPILED_SIZE:
        from forebear.kernels import crf

        return crf.viterbi(scores, np.asarray(lengths, np.int64), transitions, start, end)
    time_steps = _time_steps(lengths)
    backpointers = np.zeros(scores.shape, np.int64)
    best_labels = np.zeros(len(scores), np.int64)
    if not time_steps:
        return best_labels
    path_totals = scores[time_steps[0]] + start
    for words in time_steps[1:]:
        path_scores = path_totals[: len(words), :, None] + transitions
        backpointers[words] = path_scores.argmax(1)
        path_totals[: len(words)] = path_scores.max(1) + scores[words]
    label = (path_totals + end).argmax(1)
    for words in reversed(time_steps):
        best_labels[words] = label[: len(words)]
        label[: len(words)] = backpointers[words, label[: len(words)]]
    return best_labels


def constrained_viterbi(scores: np.ndarray, lengths: Sequence[int], *allowed: np.ndarray) -> np.ndarray:
    """Viterbi with forbidden transitions, starts and ends; if no path is allowed, one with the fewest violations."""
    costs = (np.where(mask, 0.0, FORBIDDEN_VITERBI_SCORE) for mask in allowed)
    return chain_viterbi(np.maximum(scores, MIN_EMISSION), lengths, *costs)


def chain_marginals(
    scores: np.ndarray, lengths: Sequence[int], transitions: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N, K) marginal probability of each label at each word (forward–backward)."""
    time_steps, transition_weights = _time_steps(lengths), np.exp(transitions.astype(np.float64))
    scores, log_marginals = scores.astype(np.float64), np.zeros(scores.shape)
    if not time_steps:
        return log_marginals
    forward = _subtract_max(scores[time_steps[0]] + start)
    log_marginals[time_steps[0]] = forward
    for words in time_steps[1:]:
        forward = _subtract_max(_transition_logsumexp(forward[: len(words)], transition_weights) + scores[words])
        log_marginals[words] = forward
    backward = np.tile(end.astype(np.float64), (len(time_steps[0]), 1))
    for words in reversed(time_steps):
        log_marginals[words] += backward[: len(words)]
        backward[: len(words)] = _transition_logsumexp(
            _subtract_max(backward[: len(words)] + scores[words]), transition_weights.T
        )
    probabilities = np.exp(_subtract_max(log_marginals))
    return probabilities / probabilities.sum(1, keepdims=True)


def _time_steps(lengths: Sequence[int]) -> list[np.ndarray]:
    """For each time step the word indices, that of the longest sequence first."""
    sequence_lengths = np.asarray(lengths, np.int64)
    starts, order = np.cumsum(sequence_lengths) - sequence_lengths, np.argsort(-sequence_lengths, kind="stable")
    num_active = len(sequence_lengths) - np.searchsorted(
        np.sort(sequence_lengths), np.arange(sequence_lengths.max(initial=0)), side="right"
    )
    return [starts[order[:count]] + step for step, count in enumerate(num_active.tolist())]


def _subtract_max(scores: np.ndarray) -> np.ndarray:
    """Shift each row so that its maximum is 0."""
    return scores - scores.max(1, keepdims=True)


def _transition_logsumexp(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B, K) ln Σ_j e^score_j weight_jk."""
    return np.log(np.maximum(np.exp(scores) @ weights, MIN_WEIGHT))


FORBIDDEN_SCORE = -1e4  # score of transitions that IOBES does not allow
BATCH_SENTENCES = 1024  # sentences that are decoded together
MARGIN_DIVISOR = 8  # in long texts, words are predicted with at least an eighth of a window as context
MIN_LONG_WORD_FRACTION = (
    0.1  # fraction of Chinese words with several characters above which words, not characters, are tagged
)
MAX_MEAN_WORD_LENGTH = 4  # average characters between spaces up to which Chinese text is taken as segmented
_WORD_PATTERN = re.compile(r"\d++(?:[.,]\d++)+|[^\W_]++(?:['’][^\W_]++)*+|\S")


@dataclass(frozen=True)
class EntityPrediction:
    """An entity: words start to end (exclusive), its type, and its probability."""

    text: str
    label: str
    start: int
    end: int
    probability: float

    def to_dict(self) -> dict[str, Any]:
        positions = {"first": self.start, "last": self.end}
        return {"text": self.text, "kind": self.label, **positions, "probability": round(self.probability, 6)}


@dataclass(frozen=True)
class TagPrediction:
    """The words of a text with tags, entities, and the probability of each tag for each word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[EntityPrediction, ...]
    labels: tuple[str, ...]
    probabilities: np.ndarray  # (words, labels)
    is_plain: bool = False  # tags mark no entities
    scheme: str | None = "IOBES"  # tag scheme of the output; None: labels of an imported model

    def to_dict(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "scheme": self.scheme,
            "tags": list(self.tags),
            "entities": [entity.to_dict() for entity in self.entities],
            "table": [
                {label: round(p, 6) for label, p in zip(self.labels, row, strict=True)}
                for row in self.probabilities.tolist()
            ],
        }


@dataclass(frozen=True)
class SequenceTagging(Task):
    """Sequence tagging."""

    verb: ClassVar[str] = "tag"
    linear_kind: ClassVar[tuple[str, bool]] = ("tag", False)

    tags: tuple[str, ...] = ("O",)  # O, and B, I, E, S for each entity type; plain tags as they are
    characters: bool = False  # whether words are single characters, as usual in Chinese data
    scheme: str = "IOBES"  # of the training examples; "plain": tags such as parts of speech, which mark no entities
    crf: bool = False  # whether tags are decoded by a CRF
    segmented: bool = False  # whether raw Chinese text is segmented into words first

    @classmethod
    def from_examples(cls, examples: Examples, **options: Any) -> SequenceTagging:
        tag_sequences = [example.tags for example in examples if example.tags is not None]
        if not tag_sequences:
            raise InputError("no sentence has tags", hint="give a file with a word and its tag a line")
        words = [word for example in examples for word in example.words]
        chinese_words = [word for word in words if has_han(word)]
        num_long_words = sum(len(word) > 1 for word in chinese_words)
        characters = all(len(word) == 1 for word in words)
        segmented = not characters and num_long_words > MIN_LONG_WORD_FRACTION * len(chinese_words)
        options = {"characters": characters, "segmented": segmented, **options}
        if options.get("scheme") == iobes.PLAIN_SCHEME:
            return cls(**{"tags": tuple(sorted({*chain.from_iterable(tag_sequences)})), **options})
        entity_types = sorted({tag.partition("-")[2] for tags in tag_sequences for tag in tags if tag != "O"})
        if not entity_types:
            raise InputError("no word has a tag but O", hint="give sentences that hold something to find")
        entity_tags = tuple(f"{prefix}-{entity_type}" for entity_type in entity_types for prefix in "BIES")
        return cls(**{"tags": ("O", *entity_tags), **options})

    @property
    def is_plain(self) -> bool:
        return self.scheme == iobes.PLAIN_SCHEME

    @property
    def metric(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - it depends on the scheme
        return "accuracy" if self.is_plain else "f1"

    def split_words(self, text: str) -> tuple[str, ...]:
        """Split raw text into the words of this task."""
        if self.characters:
            return tuple(character for character in text if not character.isspace())
        if self.segmented and has_han(text):
            return tuple(_segment_words(text))
        words = _WORD_PATTERN.findall(text)  # Chinese ones are split into characters
        return tuple(chain.from_iterable(word if has_han(word) else (word,) for word in words))

    def has_tag(self, tags: Iterable[str]) -> bool:
        """Whether all tags, or their entity types in any scheme, are known to the task."""
        if self.is_plain:
            return {*self.tags}.issuperset(tags)
        return {*map(iobes.entity_type, self.tags)}.issuperset(map(iobes.entity_type, tags))

    def encode(
        self, examples: Examples, tokenizer: Tokenizer, input_format: InputFormat, *, is_training: bool = False
    ) -> ExampleRows:
        sentences = [example.words for example in examples]
        if tokenizer.kind == "bytepair":  # its tokens include the preceding space
            sentences = map(_join_words, sentences)
        ids, counts = tokenizer.encode_many(list(chain.from_iterable(sentences)))
        fallback_id = tokenizer.unk_id if tokenizer.unk_id is not None else (*input_format.before, 0)[0]
        fallback_ids = np.array([fallback_id], np.int32)  # of a word without any token
        split_ids = np.split(ids, np.cumsum(counts)[:-1])
        ids_of_words = (token_ids if len(token_ids) else fallback_ids for token_ids in split_ids)
        rows: list[ExampleRow] = []
        for index, example in enumerate(examples):
            rows += self._rows(index, example, list(islice(ids_of_words, len(example.words))), input_format)
        return ExampleRows.from_rows(rows, uses_segments=input_format.segments, groups_rows=False)

    def _rows(
        self, example_index: int, example: TaggedExample, word_token_ids: list[np.ndarray], input_format: InputFormat
    ) -> Iterator[ExampleRow]:
        max_tokens = input_format.max_text_tokens(1)
        word_token_ids = [token_ids[:max_tokens] for token_ids in word_token_ids]
        tag_ids = {tag: tag_id for tag_id, tag in enumerate(self.tags)}
        targets_of_words = [tag_ids.get(tag, IGNORE_INDEX) for tag in example.tags or ()]
        for start, end, supervised in _word_windows([len(token_ids) for token_ids in word_token_ids], max_tokens):
            text = np.concatenate(word_token_ids[start:end]) if start < end else np.empty(0, np.int32)
            tokens, segments = input_format.make_row(text)
            word_offsets = np.cumsum([len(input_format.before), *map(len, word_token_ids[start : end - 1])])
            word_indices, target = (np.full(len(tokens), IGNORE_INDEX, np.int64) for _ in range(2))
            for word in supervised:
                word_indices[word_offsets[word - start]] = word
                target[word_offsets[word - start]] = targets_of_words[word] if targets_of_words else IGNORE_INDEX
            yield ExampleRow(example_index, tokens, segments, {"tag": target}, word_indices)

    def build_heads(self, head_spec: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.crf import CRFLayer
        from forebear.nn.heads import TagHead

        crf, mixture = CRFLayer(*self.transitions) if self.crf else None, head_spec.make_mix()
        return {"tag": TagHead(head_spec.width, len(self.tags), crf=crf, mixture=mixture, dropout=head_spec.dropout)}

    @cached_property
    def transitions(self) -> iobes.TagTransitions:
        """Allowed transitions, start and end tags."""
        return iobes.unconstrained_transitions(len(self.tags)) if self.is_plain else iobes.iobes_transitions(self.tags)

    def predictions(self, examples: Examples, rows: ExampleRows, logits: Logits) -> list[TagPrediction]:
        lengths = [len(example.words) for example in examples]
        scores, predictions = np.zeros((sum(lengths), len(self.tags))), []
        starts = [0, *accumulate(lengths)]
        for example_index, word_start in enumerate(starts[:-1]):
            for row in rows.row_range(example_index) if lengths[example_index] else ():
                word_indices = rows.row_token_sources(row)
                is_first_token = word_indices != IGNORE_INDEX
                scores[word_start + word_indices[is_first_token]] = logits["tag"][row][is_first_token]
        for batch_start in range(0, len(examples), BATCH_SENTENCES):
            batch = examples[batch_start : batch_start + BATCH_SENTENCES]
            word_range = slice(starts[batch_start], starts[batch_start + len(batch)])
            batch_lengths = lengths[batch_start : batch_start + BATCH_SENTENCES]
            best, probabilities = self._decode(scores[word_range], batch_lengths, logits)
            split_at = [end - word_range.start for end in starts[batch_start + 1 : batch_start + len(batch)]]
            decoded = zip(batch, np.split(best, split_at), np.split(probabilities, split_at), strict=True)
            predictions += [self._make_prediction(example.words, *outputs) for example, *outputs in decoded]
        return predictions

    def _decode(self, scores: np.ndarray, lengths: Sequence[int], logits: Logits) -> tuple[np.ndarray, np.ndarray]:
        """(N,) best label of each word, and (N, K) label probabilities."""
        if not self.crf:
            return constrained_viterbi(scores, lengths, *self.transitions), softmax(scores)
        masks_and_scores = zip(self.transitions, logits["transitions"], strict=True)
        transitions = [np.where(is_allowed, learned, FORBIDDEN_SCORE) for is_allowed, learned in masks_and_scores]
        return chain_viterbi(scores, lengths, *transitions), chain_marginals(scores, lengths, *transitions)

    def _make_prediction(self, words: tuple[str, ...], best: np.ndarray, probabilities: np.ndarray) -> TagPrediction:
        tags = tuple(self.tags[tag_id] for tag_id in best)
        entities = []
        for start, end, entity_type in () if self.is_plain else iobes.entity_spans(tags):
            by_word = probabilities[range(start, end), best[start:end]]
            geometric_mean = float(np.exp(np.mean(np.log(np.maximum(by_word, MIN_WEIGHT)))))
            text = "".join(words[start:end] if self.characters else _join_words(words[start:end]))
            entities.append(EntityPrediction(text, entity_type, start, end, geometric_mean))
        return TagPrediction(words, tags, tuple(entities), self.tags, probabilities, self.is_plain)

    def to_source_format(self, prediction: TagPrediction) -> TagPrediction:
        """Convert to the tag scheme of the examples; probabilities of labels that become equal are summed."""
        if self.is_plain or not any(tag.startswith("E") for tag in self.tags):
            return replace(prediction, scheme=self.scheme if self.is_plain else None)
        if self.scheme == "IOBES":
            return prediction
        source_labels = iobes.scheme_labels(self.tags, self.scheme)  # pyright: ignore[reportArgumentType] - a word in JSON
        labels = tuple(dict.fromkeys(source_labels))
        merged_probabilities = np.zeros((len(prediction.words), len(labels)))
        for label_id, label in enumerate(source_labels):
            merged_probabilities[:, labels.index(label)] += prediction.probabilities[:, label_id]
        tags = tuple(iobes.from_iobes(prediction.tags, self.scheme))  # pyright: ignore[reportArgumentType]
        return replace(prediction, tags=tags, labels=labels, probabilities=merged_probabilities, scheme=self.scheme)

    def compare_to_gold(self, example: TaggedExample, prediction: TagPrediction) -> AnswerComparison:
        if self.is_plain:
            word_tags = zip(example.words, example.tags or (), prediction.tags, strict=False)
            errors = [row for row in word_tags if row[1] != row[2]]
            expected, predicted = (" ".join(f"{row[0]}/{row[column]}" for row in errors) for column in (1, 2))
        else:
            expected, predicted = (_entity_text(example.words, tags) for tags in (example.tags or (), prediction.tags))
        return AnswerComparison(expected == predicted, expected, predicted)

    def evaluate(self, examples: Examples, predictions: Sequence[TagPrediction]) -> dict[str, Any]:
        pairs = metrics.labeled_pairs(examples, predictions)
        evaluate_tags = metrics.tagging_accuracy if self.is_plain else metrics.entity_f1
        tag_metrics = evaluate_tags(
            [example.tags for example, _ in pairs], [prediction.tags for _, prediction in pairs]
        )
        return tag_metrics | {"examples": len(pairs)}


def _entity_text(words: Sequence[str], tags: Sequence[str]) -> str:
    spans = iobes.entity_spans(tags)
    return "; ".join(f"{''.join(_join_words(words[start:end]))} {entity_type}" for start, end, entity_type in spans)


def _word_windows(token_counts: Sequence[int], max_tokens: int) -> Iterator[tuple[int, int, range]]:
    """(first word, last word + 1, predicted words) of each window; every word is predicted once."""
    ends = np.cumsum([0, *token_counts])
    num_words, margin, num_predicted = len(token_counts), max_tokens // MARGIN_DIVISOR, 0
    while True:
        start = int(np.searchsorted(ends, ends[num_predicted] - margin)) if ends[-1] > max_tokens else 0
        start = min(max(start, 0), num_predicted)
        end = int(np.searchsorted(ends, ends[start] + max_tokens, side="right")) - 1
        end_before_margin = int(np.searchsorted(ends, ends[end] - margin, side="right")) - 1
        prediction_end = max(num_predicted + 1, end_before_margin) if end < num_words else num_words
        if prediction_end > end:  # a long word: its context is dropped
            start = num_predicted
            end = max(num_predicted + 1, int(np.searchsorted(ends, ends[num_predicted] + max_tokens, side="right")) - 1)
            prediction_end = min(prediction_end, end)
        yield start, min(end, num_words), range(num_predicted, min(prediction_end, num_words))
        num_predicted = prediction_end
        if num_predicted >= num_words:
            return


def _join_words(words: Sequence[str]) -> Iterator[str]:
    """The words with spaces between them as written: none next to Chinese characters."""
    if words:
        yield words[0]
    for previous, word in pairwise(words):
        yield word if has_han(previous[-1:]) or has_han(word[:1]) else f" {word}"


def _segment_words(text: str) -> list[str]:
    """Words of Chinese text: separated by spaces already, as in 我 爱 北京, or found by the segmenter."""
    tokens = text.split()
    chinese = [token for token in tokens if has_han(token)]
    if len(chinese) > 1 and sum(map(len, chinese)) <= MAX_MEAN_WORD_LENGTH * len(chinese):
        return tokens
    return [word for word in Segmenter().split(text) if not word.isspace()]
