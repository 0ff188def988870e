"""Diagnose training: warnings on the text, exploding gradients, underfitting and overfitting, with what to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.parallel import ParallelCorpus
from forebear.data.corpus.subset import Subset, concat_ranges
from forebear.errors import ForebearError

MAX_UNKNOWN_RATE = 0.2  # of tokens; above it the vocabulary does not fit the text
MAX_SLASH_RATE = 0.1  # of "/" among the tokens of ordinary text
SLASH_SAMPLE_TOKENS = 100_000  # number of first tokens in which "/" is counted
MAX_DUPLICATE_RATE = 0.2  # of documents; a higher rate causes a warning
FREQUENCY_SAMPLE_TOKENS = 4_000_000  # approximate size of the sample in which tokens are counted
EXPLODING_FACTOR = 100  # times the clipping norm; smaller gradients occur in every training
DIVERGENCE_FACTOR = 4  # times the loss of untrained vectors: more than overfitting can cause
RUINED_LOSS_FACTOR = 3  # times the unigram loss at the end: the learning rate was far too high
LATE_FACTOR = 1.2  # times the time budget: a longer run causes a warning
DOCUMENTS_PER_BLOCK = 1_000  # documents whose tokens are counted together


class NonFiniteLossError(ForebearError):
    """The loss is NaN or infinite, or diverges: training cannot continue."""


def text_warnings(corpus: Corpus | ParallelCorpus, min_count: int | None = None) -> Iterator[str]:
    """Warnings about the text before the first step; words below `min_count` are unknown on purpose."""
    unknown_rate = corpus.metadata["counts"]["unknown"] / max(1, len(corpus))
    if unknown_rate == 1:
        hint = "choose a tokenizer made for this language, or have one learned (--tokenizer bytepair)"
        raise ForebearError("every token of this text is unknown to the tokenizer", file=corpus.folder, hint=hint)
    for policy, items in corpus.ledger.repaired.items():
        yield f"{items.count:,} bytes that are not in the text's encoding were {policy}; its ledger.json lists them"
    if unknown_rate > MAX_UNKNOWN_RATE and min_count is not None:
        reason = f"they are seen less than {min_count} times, or --vocabulary is full"
        yield f"{unknown_rate:.0%} of the words have no vector: {reason}"
    elif unknown_rate > MAX_UNKNOWN_RATE:
        yield f"{unknown_rate:.0%} of the tokens are unknown, and little else will be learned: choose another tokenizer"
    if isinstance(corpus, Corpus) and (slash_id := corpus.tokenizer.token_to_id("/")) is not None:
        slash_rate = float(np.mean(corpus.ids[:SLASH_SAMPLE_TOKENS] == slash_id))
        if slash_rate > MAX_SLASH_RATE:
            yield f"{slash_rate:.0%} of the tokens are /: if this is word/tag text, --format tagged reads it as that"
    duplicate_rate = 1 - len(np.unique(corpus.hashes)) / len(corpus.hashes)
    if duplicate_rate > MAX_DUPLICATE_RATE:
        unit = "pairs" if isinstance(corpus, ParallelCorpus) else "documents"
        subject = f"{duplicate_rate:.0%} of the {unit} repeat another word for word"
        yield f"{subject}: the model will learn them by heart; forebear corpus TEXT --clean OUT removes copies"


def unigram_entropy(train: Subset, held_out: Subset, vocab_size: int, eos_id: int, unk_id: int | None = None) -> float:
    """Loss per held-out token, in nats, of a unigram model of the training text: the baseline of language models.

    If the training text has no unknown words, their count is estimated as that of words that occur once (Good–Turing).
    """
    counts = _token_counts(train, vocab_size, eos_id)
    if unk_id is not None and not counts[unk_id]:
        counts[unk_id] = np.count_nonzero(counts == 1)
    counts += 1.0  # add-one smoothing
    held_out_counts = _token_counts(held_out, vocab_size, eos_id)
    return float(-(held_out_counts * np.log(counts / counts.sum())).sum() / held_out_counts.sum())


def _token_counts(subset: Subset, vocab_size: int, eos_id: int) -> np.ndarray:
    """Token counts, of a sample if the text is large, with an end-of-text token for each document."""
    counts = np.zeros(vocab_size)
    for start in range(0, len(subset), DOCUMENTS_PER_BLOCK):
        spans = subset.spans[start : start + DOCUMENTS_PER_BLOCK]
        lengths = np.minimum(spans[:, 1] - spans[:, 0], FREQUENCY_SAMPLE_TOKENS // len(spans))
        positions = concat_ranges(spans[:, 0], lengths)
        counts += np.bincount(subset.corpus.ids[positions], minlength=vocab_size)
        counts[eos_id] += len(spans)
        if counts.sum() >= FREQUENCY_SAMPLE_TOKENS:
            break
    return counts


@dataclass(frozen=True)
class Diagnostics:
    """Checks of the training loop; `emit` receives the kind and the message of each warning."""

    unigram_loss: float | None  # of held-out text; None without next-token targets
    warmup: int
    steps_per_epoch: int
    emit: Callable[[str, str], object]
    typical_lr: float | None = None  # the model's default learning rate

    def check_finite(self, step: int, loss: float, rate: float) -> None:
        if not math.isfinite(loss):
            raise self._divergence(f"the loss is {loss} at step {step:,}, with a rate of {rate:.2g}", rate)

    def _divergence(self, message: str, rate: float) -> NonFiniteLossError:
        """The error, which suggests a third of the learning rate, or the default if this one is far above it."""
        lower = self.typical_lr if self.typical_lr is not None and rate > 3 * self.typical_lr else rate / 3
        return NonFiniteLossError(message, hint=f"a lower rate: --rate {lower:.2g} --overwrite")

    def check_vectors(self, step: int, loss: float, untrained_loss: float | None, rate: float) -> None:
        """`untrained_loss` is the loss of untrained word vectors, if known."""
        if untrained_loss is None or not loss > untrained_loss:
            return
        if loss > DIVERGENCE_FACTOR * untrained_loss:
            message = f"the vectors grow without end: the held-out loss is {loss:.3g} at step {step:,}, "
            message += f"where vectors that know nothing have {untrained_loss:.2f}"
            raise self._divergence(message, rate)
        self.emit(
            "nothing is learned",
            f"the held-out loss ({loss:.2f}) is above that of vectors that know nothing "
            f"({untrained_loss:.2f}): the rate is too high for this text",
        )

    def check_gradient(self, step: int, max_norm: float, clip: float) -> None:
        """`max_norm` is the gradient norm before clipping."""
        if step > self.warmup and max_norm > EXPLODING_FACTOR * clip:
            self.emit(
                "exploding gradients",
                f"at step {step:,} the gradient was {max_norm:,.0f} long and was cut to {clip:g}; run.json counts "
                "those that were cut. If the loss does not fall, a lower --rate or --clip helps, "
                "or a shorter --context",
            )

    def check_training_loss(self, step: int, loss: float) -> None:
        """`loss` is the mean training loss of the last steps."""
        if self.unigram_loss is not None and step > 2 * self.warmup + 100 and loss > self.unigram_loss:
            self.emit(
                "nothing is learned",
                f"after {step:,} steps the loss ({loss:.2f}) is above that of token frequencies alone "
                f"({self.unigram_loss:.2f}); the rate may be too high (try a third) or too low",
            )

    def check_end(self, loss: float, seconds: float, time_budget: float | None, *, is_counting: bool = False) -> None:
        """`loss` is the final held-out loss; `is_counting` is for count-based models."""
        if self.unigram_loss is not None and loss > self.unigram_loss:
            hint = "give it more text, or another --smoothing" if is_counting else "give it more time, or more text"
            if loss > RUINED_LOSS_FACTOR * self.unigram_loss and not is_counting:
                hint = "the rate is far too high: leave --rate out, or give a tenth of it, with --overwrite"
            self.emit(
                "little is learned",
                f"held-out loss ({loss:.4g}) ends above that of token frequencies alone "
                f"({self.unigram_loss:.2f}): {hint}",
            )
        if time_budget is not None and seconds > LATE_FACTOR * time_budget and not is_counting:
            self.emit(
                "late",
                f"{seconds:.0f} s instead of {time_budget:.0f} s: the machine became slower on the way; "
                "fewer --threads suffer less from other programs",
            )

    def check_overfitting(self, step: int, loss: float, best_loss: float, best_step: int) -> None:
        epochs = step / max(1, self.steps_per_epoch)
        if epochs > 2 and loss > best_loss + 0.02 * abs(best_loss):
            self.emit(
                "learned by heart",
                f"the text has been shown {epochs:.0f} times, and held-out loss has risen since step {best_step:,} "
                f"({best_loss:.3f} → {loss:.3f}); more text, a smaller --size, --dropout 0.1, or --patience 3 to stop "
                "in time (the best checkpoint is kept)",
            )
