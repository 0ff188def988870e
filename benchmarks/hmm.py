"""A hidden Markov model beside hmmlearn's CategoricalHMM: the same text, the same first tables; prints the ratios.

    ./dev bench hmm                    iterations, probabilities and the best chain; 16 and 64 states, one thread
    ./dev bench hmm --threads 2        with two threads, which theirs makes no use of: by the clock
    ./dev bench hmm --growth           how an iteration grows with text and with states

Text is WikiText-2 of ../shared/data (or $FOREBEAR_DATA), else the demo's manual; words are what stands between spaces,
and a line is a text. Theirs knows no end of a text, so that ours learns ends besides; they are taken out where tables
are compared. Theirs computes with scaled probabilities ("scaling"), the faster of its two ways.
Sides alternate; figures are medians over the rounds, ratios the medians of rounds' ratios.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from hmmlearn.hmm import CategoricalHMM
from side_by_side import machine, natural_text

from forebear.statistical import hmm
from forebear.statistical.hmm import HMMModel

END, FEWEST = 0, 5  # the id of the end; words seen less often are one
ENDS = 0.05  # P of an end, to begin with
CLOSE = 1e-5  # what tables may differ


class Text:
    """Rows of words as ids from 1 on, for both sides."""

    def __init__(self, size: int) -> None:
        lines = [line.split() for line in natural_text(size).split("\n")]
        _, numbers = np.unique([word for line in lines for word in line], return_inverse=True)
        rare = np.bincount(numbers) < FEWEST
        ids = np.where(rare, 1, 1 + np.cumsum(~rare))[numbers]
        self.vocabulary = int(ids.max()) + 1
        self.lengths = np.array([len(line) for line in lines if line])
        self.words = ids
        ends = np.cumsum(self.lengths)
        self.targets = np.insert(ids, ends, END)
        self.tokens = np.roll(self.targets, 1)
        self.rows = [np.append([END], row) for row in np.split(ids, ends[:-1])]


def ours(text: Text, states: int) -> HMMModel:
    model = HMMModel(states=states, vocab_size=text.vocabulary, eos_id=END, smoothing=0.0)
    model.set_token_counts(np.bincount(text.targets, minlength=text.vocabulary))
    model.initialize(0)
    arrays = model.arrays()
    arrays["moves"][:, -1] = 0.0  # an end as probable from everywhere says nothing of the state
    arrays["moves"] *= (1 - ENDS) / arrays["moves"].sum(1, keepdims=True)
    arrays["moves"][:, -1] = ENDS
    model.load(arrays)
    return model


def theirs(model: HMMModel) -> CategoricalHMM:
    """The same tables, without ends."""
    tables, states = model.smoothed_parameters(), model.states
    peer = CategoricalHMM(states, n_features=model.vocab_size - 1, init_params="", n_iter=1, implementation="scaling")
    moves = tables.transitions[:, :-1] / tables.transitions[:, :-1].sum(1, keepdims=True)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = moves[-1], moves[:-1], tables.emissions[1:, :-1].T.copy()
    return peer


def medians(one: Callable[[], object], other: Callable[[], object], rounds: int, by: Callable[[], float]) -> str:
    """Both in turn, after once to warm up: their seconds, and how many times as fast the first is."""
    found = []
    for turn in range(rounds + 1):
        began = by()
        other()
        between = by()
        one()
        if turn:
            found.append((by() - between, between - began))
    mine, others = (statistics.median(side) for side in zip(*found, strict=True))
    ratio = statistics.median(their / own for own, their in found)
    return f"{mine:.3f} s, hmmlearn {others:.3f} s   ours/theirs = {ratio:.1f} times as fast"


def same(name: str, mine: np.ndarray, other: np.ndarray, close: float = CLOSE) -> None:
    if not np.allclose(mine, other, atol=close, rtol=close):
        sys.exit(f"{name}: the sides differ by up to {np.abs(mine - other).max():.2g}")


def compared(text: Text, states: int, rounds: int, by: Callable[[], float]) -> None:
    """An iteration, probabilities and the best chain, each checked to be the same."""
    columns = text.words[:, None] - 1

    def iteration() -> HMMModel:
        model = ours(text, states)
        model.accumulate(text.tokens, text.lengths + 1, text.targets)
        model.update()
        return model

    def their_iteration() -> CategoricalHMM:
        return theirs(ours(text, states)).fit(columns, text.lengths)

    mine, other = iteration(), their_iteration()
    same("start", mine.smoothed_parameters().transitions[-1, :-1], other.startprob_)
    same("words", mine.smoothed_parameters().emissions[1:, :-1].T, other.emissionprob_)
    moves = mine.smoothed_parameters().transitions[:-1, :-1]
    same("moves", moves / moves.sum(1, keepdims=True), other.transmat_)
    about = f"{states} states, {len(text.words):,} words of {text.vocabulary:,}"
    print(f"{about}: an iteration of Baum and Welch's way: {medians(iteration, their_iteration, rounds, by)}")
    peer, model = theirs(mine), mine.smoothed_parameters()
    free = hmm.HMMParameters(*_without_ends(model.transitions, model.emissions), END)
    logs = sum(float(scores.sum()) for scores in free.score(text.rows))
    same("log P", np.array(logs), np.array(peer.score(columns, text.lengths)))
    told = medians(lambda: free.score(text.rows), lambda: peer.score(columns, text.lengths), rounds, by)
    print(f"{about}: probabilities of all words: {told}")
    chains = np.concatenate(free.viterbi(text.rows)), peer.predict(columns, text.lengths)
    alike = float(np.mean(chains[0] == chains[1]))
    if alike < 0.999:  # a few chains may be exactly as probable as others
        sys.exit(f"the best chains: {alike:.2%} of the states are the same")
    told = medians(lambda: free.viterbi(text.rows), lambda: peer.predict(columns, text.lengths), rounds, by)
    print(f"{about}: the best chain, {alike:.2%} of its states the same: {told}")


def _without_ends(moves: np.ndarray, emissions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same tables where no text ever ends, as in theirs."""
    moves = moves.copy()
    moves[:, -1] = 0.0
    return moves / moves.sum(1, keepdims=True), emissions


def growth(size: int) -> None:
    """Seconds of an iteration, by the clock: they should grow as text does, and as states by states."""
    for states, times in ((32, 1), (32, 4), (32, 16), (64, 4), (128, 4)):
        text = Text(size * times)
        model = ours(text, states)
        model.accumulate(text.tokens[:1], np.array([1]), np.array([END]))
        began = time.perf_counter()
        model.accumulate(text.tokens, text.lengths + 1, text.targets)
        model.update()
        seconds = time.perf_counter() - began
        each = seconds / len(text.targets) / (states + 1) ** 2
        print(f"{states} states, {len(text.targets):,} tokens: {seconds:.2f} s, {each * 1e9:.2f} ns a token and move")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=500_000, help="bytes of text")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a tiny text, once")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # theirs says that one iteration is not enough, and that words are many
    hmm.cpu_count = lambda: options.threads
    print(machine(options.threads, ("numba", "hmmlearn")))
    if options.growth:
        growth(options.size // 4)
        return
    text = Text(20_000 if options.quick else options.size)
    by = time.process_time if options.threads == 1 else time.perf_counter
    for states in (4,) if options.quick else (16, 64):
        compared(text, states, 1 if options.quick else options.rounds, by)


if __name__ == "__main__":
    main()
