"""Translating beside transformers' Marian and CTranslate2: the same weights, the same texts; prints the ratios.

    ./dev bench translate                     a small run, trained for three minutes first, one thread
    ./dev bench translate --run runs/de-en    a run of one's own
    ./dev bench translate --beams 1 --threads 2
    ./dev bench translate --write             put the figures into both READMEs

Text is Multi30k of ../shared/data (or $FOREBEAR_DATA), else a made-up language. All sides get token ids and sort the
sentences by length; transformers in batches of 32 sentences, CTranslate2 with its own best settings (batches by
tokens). Sides alternate in one process; figures are medians over the rounds. Translations are compared: equal ones are
counted. Integers of 8 bits, ours and CTranslate2's, stand beside each other. CTranslate2 ends its search by another
rule, so that some of its translations differ.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}

import torch
from side_by_side import DATA, alternated, machine, sgemm, write_figures
from translating_peers import ctranslate2_model, marian

import forebear as fb
from forebear.inference.run import Run
from forebear.inference.translate import translate_texts
from forebear.nn.quantized import quantized_copy
from forebear.nn.seq2seq import TransformerSeq2Seq

MULTI30K = DATA / "tasks" / "multi30k"
LONGER, MORE = 2.0, 20  # the most tokens of a translation, as ours
LEAST_SAME = 0.9  # of the translations


def texts(folder: Path) -> tuple[list[Path], list[str]]:
    """Files to learn from, and sentences to translate."""
    if (MULTI30K / "train.de").exists():
        sentences = (MULTI30K / "test_2016_flickr.de").read_text(encoding="utf-8").splitlines()
        return [MULTI30K / "train.de", MULTI30K / "train.en"], sentences
    chance, words = random.Random(0), [f"{a}{b}" for a in "bdfgklmnprst" for b in ("ana", "eli", "oro", "um")]
    lines = [" ".join(chance.choice(words) for _ in range(chance.randint(3, 20))) for _ in range(4000)]
    files = [folder / "made-up.a", folder / "made-up.b"]
    files[0].write_text("\n".join(lines), encoding="utf-8")
    files[1].write_text("\n".join(" ".join(reversed(line.split())).upper() for line in lines), encoding="utf-8")
    return files, lines[:1000]


def by_transformers(model: Any, rows: list[list[int]], beams: int, pad: int) -> list[list[int]]:
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
    found: list[list[int]] = [[]] * len(rows)
    for first in range(0, len(order), 32):
        batch = order[first : first + 32]
        longest = len(rows[batch[0]])
        ids = torch.tensor([rows[number] + [pad] * (longest - len(rows[number])) for number in batch])
        with torch.inference_mode():
            said = model.generate(
                input_ids=ids,
                attention_mask=(ids != pad).long(),
                num_beams=beams,
                max_new_tokens=min(int(LONGER * longest) + MORE, model.config.max_position_embeddings - 1),
                length_penalty=1.0,
                early_stopping=False,
                do_sample=False,
                suppress_tokens=[pad],
            )
        for number, row in zip(batch, said.tolist(), strict=True):
            found[number] = _until(row[1:], {pad, model.config.eos_token_id})
    return found


def by_ctranslate2(model: Any, rows: list[list[str]], beams: int) -> list[list[int]]:
    longest = max(map(len, rows))
    told = model.translate_batch(
        rows,
        beam_size=beams,
        length_penalty=1.0,
        max_batch_size=2048,
        batch_type="tokens",
        max_decoding_length=int(LONGER * longest) + MORE,
        return_scores=False,
    )
    return [[int(token) for token in one.hypotheses[0]] for one in told]


def _until(row: list[int], ends: set[int]) -> list[int]:
    at = next((place for place, token in enumerate(row) if token in ends), len(row))
    return row[:at]


def compared(
    name: str, ours: Callable[[], list], theirs: Callable[[], list], count: int, rounds: int
) -> tuple[list[list[int]], float, list[str]]:
    """Prints one line; what we said, in how many seconds, and cells of the table."""
    mine, others, said, their_words = [], [], [], []
    for said, their_words, own, other in alternated(ours, theirs, rounds):  # noqa: B007 - the last are compared
        mine.append(own)
        others.append(other)
    same = sum(one == two for one, two in zip(said, their_words, strict=True)) / count
    ratio = statistics.median(other / own for own, other in zip(mine, others, strict=True))
    rate = count / statistics.median(mine)
    told = f"{rate:8,.1f} sentences/s   ours/theirs = {ratio:.2f}   {same:.1%} of translations are the same"
    print(f"{name:34}{told}", flush=True)
    if same < LEAST_SAME and name.startswith("transformers"):  # CTranslate2 ends its search by another rule
        raise SystemExit("the sides say different things: the comparison means nothing")
    return said, statistics.median(mine), [f"translation, beside {name}", f"{rate:,.0f} sentences", f"{ratio:.2f}", "–"]


def share_of_sgemm(run: Run, rows: list[list[int]], said: list[list[int]], beams: int, seconds: float) -> float:
    """What the products of reading and writing need, if sgemm did them, by the time that was taken."""
    milestone = run.folder.spec
    width, inner, depth = milestone.width, milestone.inner, milestone.depth
    vocabulary = run.folder.tokenizer_pair.target.vocab_size
    read = sum(map(len, rows)) * depth * 2 * (4 * width**2 + 2 * width * inner + 2 * width**2)
    steps = sum(len(row) + 1 for row in said) * beams
    written = steps * (depth * 2 * (6 * width**2 + 2 * width * inner) + 2 * width * vocabulary)
    return (read + written) / sgemm() / seconds


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--run", type=Path)
    asked.add_argument("--beams", type=int, default=4)
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--sentences", type=int, default=500)
    asked.add_argument("--time", default="3m", help="how long to train where no --run is given")
    asked.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    asked.add_argument("--quick", action="store_true", help="a tiny run and few sentences, to see that it works")
    given = asked.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory(prefix="forebear-translate-") as place:
        folder = Path(place)
        files, sentences = texts(folder)
        if given.quick:
            given.rounds, given.sentences = 1, 10
        how = {"size": "tiny", "steps": 40, "batch": 1024} if given.quick else {"time": given.time}
        run = Run.open(given.run) if given.run else fb.pretrain("transformer", pairs=files, to=folder / "run", **how)
        sentences = sentences[: given.sentences]
        sides = run.folder.tokenizer_pair
        end, pad = sides.target.special_roles["end"], sides.target.vocab_size
        rows = [[*sides.source.encode(text).ids.tolist(), end] for text in sentences]
        words = [[str(token) for token in row] for row in rows]

        networks = {"float32": run.translator, "int8": TransformerSeq2Seq(quantized_copy(run.network))}

        def ours(kind: str = "float32") -> list[list[int]]:
            said = translate_texts(networks[kind], sides, sentences, beams=given.beams)
            return [sides.target.encode(one.text).ids.tolist() for one in said]

        theirs = marian(run)
        print(
            f"{len(rows)} sentences, {given.beams} beams; {run.num_parameters:,} parameters; {machine(given.threads)}"
        )
        said, seconds, cells = compared(
            "transformers, batches of 32",
            ours,
            lambda: by_transformers(theirs, rows, given.beams, pad),
            len(rows),
            given.rounds,
        )
        share = share_of_sgemm(run, rows, said, given.beams, seconds)
        cells[-1], rows_told = f"{share:.2f}", [cells]
        print(f"{'':34}the products alone, by sgemm, would take {share:.0%} of our time: of sgemm")
        there = find_spec("ctranslate2") is not None
        if not there:
            print("CTranslate2 is not installed: left out")
        for compute in ("float32", "int8") if there and not given.quick else ():
            other = ctranslate2_model(run, folder / compute, given.threads, compute)
            name = f"CTranslate2, {compute}"
            own = partial(ours, compute)
            peer = partial(by_ctranslate2, other, words, given.beams)
            rows_told.append(compared(name, own, peer, len(rows), given.rounds)[2])
        if given.write:
            chinese = {"translation, beside ": "翻译，对手 ", "batches of 32": "每批 32 句", " sentences": " 句"}
            write_figures("translate", rows_told, machine(given.threads), given.rounds, chinese)


if __name__ == "__main__":
    main()
