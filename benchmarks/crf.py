"""The conditional random field beside CRFsuite and pytorch-crf: the same features and numbers; prints the ratios.

    ./dev bench crf                     parts of speech of 3,000 sentences of the People's Daily
    ./dev bench crf --sentences 19000   all of them
    ./dev bench crf --quick             sentences by chance, to see that everything runs

Sentences are those of ../shared/data (or $FOREBEAR_DATA), else drawn by chance. Both sides get the same features, as
numbers and as strings; the time in which strings or numbers are made is not counted.
  steps      as many steps of L-BFGS from 0, both without knowing how the cost bends. They go the same way until a step
             is too long for one of them; the cost of their weights must be the same to five digits by both
  cost       until the cost is as low as CRFsuite has it after so many steps; ours knows how it bends
  tagging    the likeliest tags of all sentences; ours finds the numbers of features in that time too
  loss, best pytorch-crf on the same scores, in batches: loss with its gradient, and Viterbi's path
Sides alternate, one thread each but where two are told; figures are medians, ratios the medians of rounds' ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pycrfsuite as _crfsuite
from side_by_side import DATA, machine

from forebear.data.labeled.readers import parse_slash_tags
from forebear.data.labeled.tag_schemes import unconstrained_transitions
from forebear.kernels import crf as kernels
from forebear.statistical.crf import CRFModel, CRFProblem
from forebear.statistical.crf_features import WordAttributes
from forebear.statistical.lbfgs import LBFGSOptimizer

pycrfsuite: Any = _crfsuite  # which says little of its types
MEMORY, L2 = 6, 1.0  # CRFsuite's own
NEWSPAPER = DATA / "corpora" / "peoples-daily-1998-tagged.txt"
Sentences = list[tuple[tuple[str, ...], tuple[str, ...]]]


def sentences(count: int, quick: bool) -> Sentences:
    if not quick and NEWSPAPER.exists():
        with open(NEWSPAPER, encoding="utf-8") as lines:
            return [parse_slash_tags(line) for line in lines if line.strip()][:count]
    chance = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "abcdefghij" for b in ("ing", "ed", "er", "s", "ly")]
    made: Sentences = []
    for size in chance.integers(3, 20, count).tolist():
        drawn = chance.integers(0, len(words), size)
        tags = (drawn % 5 + np.append(0, drawn[:-1] % 2)) % 6
        made.append((tuple(words[one] for one in drawn), tuple(f"T{tag}" for tag in tags)))
    return made


class Side:
    """Both programs with the same sentences."""

    def __init__(self, given: Sentences, steps: int, folder: Path) -> None:
        self.steps, self.file = steps, str(folder / "crfsuite")
        vocabulary: dict[str, int] = {}
        tokens = [vocabulary.setdefault(word, len(vocabulary)) for words, _ in given for word in words]
        self.tags = sorted({tag for _, tags in given for tag in tags})
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        self.inputs = {"tokens": np.array(tokens), "lengths": np.array([len(words) for words, _ in given])}
        self.right = np.array([numbers[tag] for _, tags in given for tag in tags])
        labels = len(self.tags)
        rules = unconstrained_transitions(labels)
        self.model = CRFModel(
            WordAttributes(list(vocabulary), str), (rules.allowed_transitions, rules.may_start, rules.may_end), l2=L2
        )
        self.problems = {threads: self.model.make_problem(self.inputs, self.right, threads) for threads in (1, 2)}
        self.seen = _as_strings(self.problems[1])
        self.trainer = pycrfsuite.Trainer(verbose=False)
        how = {"c1": 0.0, "c2": L2, "max_iterations": steps, "num_memories": MEMORY, "epsilon": 1e-12, "delta": 1e-12}
        self.trainer.set_params({**how, "feature.possible_transitions": True})
        for own, (_, tags) in zip(self.seen, given, strict=True):
            self.trainer.append(own, tags)

    def theirs(self) -> float:
        self.trainer.train(self.file)
        return float(self.trainer.logparser.last_iteration["loss"])

    def ours(self, threads: int = 1) -> float:
        problem = self.problems[threads]
        search = LBFGSOptimizer(
            problem.objective, np.zeros(problem.size), memory=MEMORY, curvature=np.ones(problem.size)
        )
        for _ in range(self.steps):
            search.step()
        self.model.set_weights(search.point)
        return search.value

    def as_low(self, cost: float, threads: int = 1) -> int:
        """How many steps it takes to be as low."""
        problem = self.problems[threads]
        search = LBFGSOptimizer(problem.objective, np.zeros(problem.size), memory=MEMORY, curvature=problem.curvature)
        for step in range(1, 10 * self.steps):
            if not search.step() or search.value <= cost:
                return step
        return 10 * self.steps

    def parted(self) -> str:
        """Up to which step both have gone the same way: ours takes a step that theirs finds too long (strong Wolfe)."""
        problem = self.problems[1]
        search = LBFGSOptimizer(
            problem.objective, np.zeros(problem.size), memory=MEMORY, curvature=np.ones(problem.size)
        )
        for number, theirs in enumerate(self.trainer.logparser.iterations):
            search.step()
            if abs(search.value - theirs["loss"]) > 1e-6 * theirs["loss"]:
                return f"the same for {number} steps"
        return "the same at every step"

    def their_point(self) -> np.ndarray:
        """Their weights as one of our points."""
        tagger = pycrfsuite.Tagger()
        tagger.open(self.file)
        told, problem, count = tagger.info(), self.problems[1], len(self.tags)
        pairs, numbers = problem.pairs, {tag: number for number, tag in enumerate(self.tags)}
        point = np.zeros(problem.size)
        edges = {"start": pairs.size + count**2, "end": pairs.size + count**2 + count}
        for (attribute, tag), weight in told.state_features.items():
            if attribute in edges:
                point[edges[attribute] + numbers[tag]] = weight
                continue
            first, last = pairs.offsets[int(attribute) : int(attribute) + 2]
            point[first + int(np.flatnonzero(pairs.labels[first:last] == numbers[tag])[0])] = weight
        for (before, after), weight in told.transitions.items():
            point[pairs.size + numbers[before] * count + numbers[after]] = weight
        return point

    def ours_tagged(self) -> np.ndarray:
        assert self.model.transitions is not None
        return kernels.viterbi(self.model.logits(self.inputs)["tag"], self.inputs["lengths"], *self.model.transitions)

    def theirs_tagged(self) -> list[str]:
        tagger = pycrfsuite.Tagger()
        tagger.open(self.file)
        return [tag for own in self.seen for tag in tagger.tag(own)]


def _as_strings(problem: CRFProblem) -> list[list[list[str]]]:
    made, at = [], 0
    for size in problem.lengths.tolist():
        own = [[str(one) for one in row if one >= 0] for row in problem.features[at : at + size].tolist()]
        own[0].append("start")
        own[-1].append("end")
        made.append(own)
        at += size
    return made


def seconds(do: Callable[[], Any], threads: int) -> tuple[float, Any]:
    """The processor's with one thread, so that others who use the machine disturb less, else the clock's."""
    clock = time.process_time if threads == 1 else time.perf_counter
    began = clock()
    found = do()
    return clock() - began, found


def beside(what: str, ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int, threads: int = 1) -> Any:
    """Alternately; gives back what both gave at last."""
    pairs, found = [], (None, None)
    for _ in range(rounds):
        (mine, one), (other, two) = seconds(ours, threads), seconds(theirs, threads)
        pairs.append((mine, other))
        found = one, two
    mine, other = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    ratio = statistics.median(b / a for a, b in pairs)
    print(
        f"{what:<28} ours {mine:8.3f} s   theirs {other:8.3f} s   ours/theirs {ratio:5.2f} times as fast",
        flush=True,
    )
    return found


def beside_pytorch(side: Side, rounds: int) -> None:
    import torch
    from torchcrf import CRF

    torch.set_num_threads(1)
    lengths, labels = side.inputs["lengths"][:400], len(side.tags)
    words = int(lengths.sum())
    chance = np.random.default_rng(0)
    scores, right = chance.normal(size=(words, labels)), side.right[:words]
    layer: Any = CRF(labels, batch_first=True).double()
    moves, start, end = (
        one.detach().numpy() for one in (layer.transitions, layer.start_transitions, layer.end_transitions)
    )
    mask = torch.from_numpy(np.arange(lengths.max())[None, :] < lengths[:, None])
    padded, tags = torch.zeros(*mask.shape, labels, dtype=torch.float64), torch.zeros(mask.shape, dtype=torch.long)
    padded[mask], tags[mask] = torch.from_numpy(scores), torch.from_numpy(right)
    width = kernels.padded_labels(labels)

    def ours() -> float:
        wide, room = np.zeros((words, width)), np.empty(width)
        wide[:, :labels] = scores
        levels = kernels.exponentials(wide, labels, room, room.view(np.int64))
        powers = np.zeros((width, width)), np.zeros(width), np.zeros(width)
        powers[0][:labels, :labels], powers[1][:labels], powers[2][:labels] = np.exp(moves), np.exp(start), np.exp(end)
        expected, edges = np.zeros((width, width)), np.zeros((2, width))
        cost = kernels.forward_backward(wide, lengths, powers, right, expected, edges) + levels.sum()
        firsts, lasts = np.cumsum(lengths) - lengths, np.cumsum(lengths) - 1
        inner = np.setdiff1d(np.arange(words), firsts)
        reached = scores[np.arange(words), right].sum() + moves[right[inner - 1], right[inner]].sum()
        return float(cost - reached - start[right[firsts]].sum() - end[right[lasts]].sum())

    def theirs() -> float:
        given = padded.clone().requires_grad_()
        loss = -layer(given, tags, mask=mask, reduction="sum")
        loss.backward()
        return float(loss.detach())

    one, two = beside("pytorch-crf, loss", ours, theirs, rounds)
    assert abs(one - two) <= 1e-9 * abs(two), (one, two)
    one, two = beside(
        "pytorch-crf, best",
        lambda: kernels.viterbi(scores, lengths, moves, start, end),
        lambda: layer.decode(padded, mask=mask),
        rounds,
    )
    assert one.tolist() == [label for row in two for label in row]
    print("losses are the same to 9 digits, and all best paths are the same")


def main() -> None:
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reading.add_argument("--sentences", type=int, default=3000)
    reading.add_argument("--steps", type=int, default=50)
    reading.add_argument("--rounds", type=int, default=3)
    reading.add_argument("--quick", action="store_true")
    asked = reading.parse_args()
    count, steps, rounds = (200, 8, 2) if asked.quick else (asked.sentences, asked.steps, asked.rounds)
    print(machine(1, ("torch", "python-crfsuite", "pytorch-crf")))
    with tempfile.TemporaryDirectory() as folder:
        side = Side(sentences(count, asked.quick), steps, Path(folder))
        problem = side.problems[1]
        learned = int(problem.is_free.sum())
        print(f"{count:,} sentences, {len(side.right):,} words, {len(side.tags)} tags, {learned:,} weights")
        side.problems[1].objective(np.zeros(problem.size))  # compiles
        one, two = beside(f"{steps} steps", side.ours, side.theirs, rounds)
        print(f"the cost after {steps} steps: ours {one:.4f}, theirs {two:.4f}; {side.parted()}")
        point = side.their_point()
        cost, _ = problem.objective(point)
        assert abs(cost - two) <= 1e-5 * two, (cost, two)
        print(f"the cost of their weights: ours says {cost:.4f}, theirs {two:.4f}")
        beside(f"{steps} steps, two threads", lambda: side.ours(2), side.theirs, rounds, 2)
        for threads in (1, 2):
            told = "" if threads == 1 else ", two threads"
            found, _ = beside(
                f"to that cost{told}", lambda threads=threads: side.as_low(two, threads), side.theirs, rounds, threads
            )
            print(f"in {found} steps, theirs in {steps}")
        side.model.set_weights(point)
        mine, other = beside("tagging", side.ours_tagged, side.theirs_tagged, rounds)
        same = float(np.mean([side.tags[one] == tag for one, tag in zip(mine, other, strict=True)]))
        assert same > 0.9999, same  # their weights are told with six digits
        print(f"{same:.3%} of the tags are the same, with the same weights")
        beside_pytorch(side, rounds)


if __name__ == "__main__":
    main()
