"""Generation beside transformers and CTranslate2: the same weights and prompts, equal tokens; prints the ratios.

    ./dev bench generate                  greedy and beam 4, batch 1 and 8, equal and unequal prompts, floats and
                                          integers of 8 bits; one thread
    ./dev bench generate --only small     or 124M
    ./dev bench generate --write          put the figures into both READMEs

Text is WikiText-2 of ../shared/data (or $FOREBEAR_DATA), else the demo's, cut by a byte-pair tokenizer learned from it.
Ours and the peers take turns in one process; rates are medians over the rounds, ratios the medians of rounds' ratios.
Time is the processor's with one thread, so that others who use the machine disturb less, else the clock's.
Every token must be that of transformers' `generate` with its cache; of CTranslate2, whose rounding is its own and whose
beam search is another, the share of equal tokens is told. No text ends early: all have the same number of steps.
Integers of 8 bits stand beside transformers' floats, which has none for a processor, and beside CTranslate2's; what
they cost in perplexity is told by `forebear quantise` on trained runs, as random weights have none to speak of.
Behind the ratios stands the share of the machine's limit: for one row the memory's speed, as every weight is read once
for a token, for more the matrix product's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}

import numpy as np
import torch
from gpt2 import TINY, Size, natural_ids, peer_of, small
from side_by_side import machine, sgemm, write_figures

from forebear.inference.beam_search import beam_search
from forebear.nn.next_token_predictors import TransformerPredictor
from forebear.nn.quantized import quantized_copy

SIZES = {"small": small(256), "124M": Size("124M", {}, 50257, 0, 32)}
PROMPT, UNEQUAL = 32, (4, 60)  # tokens of prompts: of all, or from and to
NO_END = -1  # an id that no token has


@dataclass(frozen=True)
class Work:
    """Prompts and how they are continued."""

    label: str
    prompts: list[np.ndarray]
    beams: int
    length: int

    @property
    def rows(self) -> int:
        """Tokens that are read at each step."""
        return len(self.prompts) * self.beams


Side = Callable[[Work], list[list[int]]]  # the tokens that each prompt is continued by


def drawn(size: Size, rows: int, *, unequal: bool) -> list[np.ndarray]:
    """Natural prompts."""
    rng, ids = np.random.default_rng(1), natural_ids(min(size.vocabulary, 8000), size.text)
    most = min(UNEQUAL[1], size.milestone().context - size.length)
    lengths = np.linspace(UNEQUAL[0], most, rows).astype(int) if unequal else np.full(rows, min(PROMPT, most))
    starts = rng.integers(0, len(ids) - most, rows)
    return [ids[start : start + length] for start, length in zip(starts, lengths, strict=True)]


def spread_out(size: Size) -> Any:
    """A network whose weights are larger than it begins with: texts that do not repeat one token."""
    network = size.network().initialize(0)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if value.dim() > 1 and "embedding" not in name:
                value.mul_(4 * (2 * size.milestone().depth) ** 0.5 if "output" in name or "contract" in name else 4)
    return network


# --- those who are compared


def ours(network: Any) -> Side:
    predictor = TransformerPredictor(network)

    def continued(work: Work) -> list[list[int]]:
        reader = predictor.start_decoding(work.prompts, work.length)
        if work.beams > 1:
            lengths = [work.length] * len(work.prompts)
            found = beam_search(reader, len(work.prompts), eos_id=NO_END, beams=work.beams, lengths=lengths)
            return [list(best.ids) for (best,) in found]
        told = [reader.next_logits().argmax(1)]
        while len(told) < work.length:
            reader.append(told[-1])
            told.append(reader.next_logits().argmax(1))
        return np.stack(told, 1).tolist()

    return continued


def transformers(peer: Any) -> Side:
    @torch.inference_mode()
    def continued(work: Work) -> list[list[int]]:
        longest = max(map(len, work.prompts))
        given = torch.tensor([[0] * (longest - len(prompt)) + prompt.tolist() for prompt in work.prompts])
        seen = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in work.prompts])
        how = {"do_sample": False, "max_new_tokens": work.length, "min_new_tokens": work.length}
        found = peer.generate(given, attention_mask=seen, num_beams=work.beams, pad_token_id=0, **how)
        return found[:, longest:].tolist()

    return continued


def ctranslate2(peer: Any, vocabulary: int, folder: Path) -> dict[str, Side]:
    """Its way with floats and with integers."""
    from ctranslate2.converters.transformers import GPT2Loader

    loader = GPT2Loader()
    made = loader.get_model_spec(peer)
    made.register_vocabulary([f"t{number}" for number in range(vocabulary)])
    made.config.bos_token = made.config.eos_token = made.config.unk_token = f"t{vocabulary - 1}"
    made.validate()
    made.optimize(quantization=None)
    made.save(str(folder))
    kinds = {"CTranslate2": "float32", "CTranslate2, int8": "int8"}
    return {name: _continued(folder, kind) for name, kind in kinds.items()}


def _continued(folder: Path, kind: str) -> Side:
    from ctranslate2 import Generator

    threads = torch.get_num_threads()
    generator = Generator(str(folder), device="cpu", compute_type=kind, intra_threads=threads, inter_threads=1)

    def continued(work: Work) -> list[list[int]]:
        begun = [[f"t{token}" for token in prompt] for prompt in work.prompts]
        how = {"max_length": work.length, "min_length": work.length, "include_prompt_in_result": False}
        found = generator.generate_batch(begun, beam_size=work.beams, sampling_topk=1, max_batch_size=64, **how)
        return [answer.sequences_ids[0] for answer in found]

    return continued


# --- what is measured


def measured(size: Size, works: list[Work], rounds: int, limits: tuple[float, float]) -> list[list[str]]:
    """Prints a line for each work, and returns cells for the table."""
    network = spread_out(size)
    peer = peer_of(size, network).eval()
    weights = network.num_parameters - size.milestone().context * size.milestone().width
    told = []
    with tempfile.TemporaryDirectory() as folder:
        sides = {"ours": ours(network), "ours, int8": ours(quantized_copy(network)), "transformers": transformers(peer)}
        if find_spec("ctranslate2") is not None:
            sides |= ctranslate2(peer, size.vocabulary, Path(folder))
        for work in works:
            seconds, found = turns(sides, work, rounds)
            assert found["ours"] == found["transformers"], f"{size.label}, {work.label}: the tokens differ"
            for own, other, size_of in (("ours", "CTranslate2", 4), ("ours, int8", "CTranslate2, int8", 1)):
                told.append(line(size.label, work, (own, other), seconds, found, (weights, size_of), limits))
    return told


def line(
    model: str,
    work: Work,
    names: tuple[str, str],
    seconds: dict[str, list[float]],
    found: dict[str, Any],
    weights: tuple[int, int],
    limits: tuple[float, float],
) -> list[str]:
    """Ours beside transformers and beside CTranslate2's with numbers of the same kind; `weights` and their bytes."""
    own, other = names
    rate = len(work.prompts) * work.length / statistics.median(seconds[own])
    memory_share = weights[0] * weights[1] * rate / limits[0]
    several = 2 * weights[0] * rate * work.beams / limits[1]
    share = f"{memory_share:.2f} of memory" if work.rows == 1 else f"{several:.2f} of sgemm"
    ratios = {
        name: statistics.median(theirs / mine for mine, theirs in zip(seconds[own], times, strict=True))
        for name, times in seconds.items()
    }
    beside = "CTranslate2 is not installed"
    if other in seconds:
        alike = np.mean(np.ravel(found[own]) == np.ravel(found[other]))
        beside = f"ours/{other} = {ratios[other]:.2f} ({alike:.0%} alike)"
    label = f"generation, {model}, {work.label}" + own.removeprefix("ours")
    ratio = f"{ratios['transformers']:.2f}"
    print(f"{label:84}{rate:7,.0f} tokens/s   ours/theirs = {ratio}   {beside}   {share}", flush=True)
    return [label, f"{rate:,.0f}", ratio, share]


def turns(sides: dict[str, Side], work: Work, rounds: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of each side in each round, after one to warm up, and what each answered."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    answers = {}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            began = clock()
            answers[name] = side(work)
            if turn:
                seconds[name].append(clock() - began)
    return seconds, answers


def memory() -> float:
    """Bytes a second that a product of one row reads of a matrix too large for any cache."""
    matrix, row = torch.ones(1024, 1 << 16), torch.ones(1, 1024)
    seconds = []
    for _ in range(7):
        began = time.process_time()
        torch.mm(row, matrix)
        seconds.append(time.process_time() - began)
    return 4 * matrix.numel() / min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=list(SIZES))
    parser.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    parser.add_argument("--quick", action="store_true", help="a tiny model and two rounds: a smoke test")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rounds, where = 2 if options.quick else options.rounds, machine(options.threads)
    print(where, flush=True)
    limits, rows = (memory(), sgemm()), []
    for name, size in {"tiny": TINY}.items() if options.quick else SIZES.items():
        if options.only in (None, name):
            equal, unequal = drawn(size, 8, unequal=False), drawn(size, 8, unequal=True)
            works = [
                Work("batch 1", equal[:1], 1, size.length),
                Work("batch 8", equal, 1, size.length),
                Work("batch 8 of unequal prompts", unequal, 1, size.length),
                Work("beam 4, batch 1", equal[:1], 4, size.length),
                Work("beam 4, batch 8 of unequal prompts", unequal, 4, size.length),
            ]
            rows += measured(size, works, rounds, limits)
    if options.write:
        chinese = {
            "generation, ": "生成，",
            ", batch ": "，批大小 ",
            ", beam ": "，束宽 ",
            " of unequal prompts": "，提示长短不一",
        }
        chinese |= {
            ", context ": "，上下文 ",
            " blocks of ": " 层，宽 ",
            " of memory": "（内存带宽）",
            " of sgemm": "（sgemm）",
        }
        write_figures("generate", rows, where, rounds, chinese)


if __name__ == "__main__":
    main()
