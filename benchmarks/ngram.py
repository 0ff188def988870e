"""N-grams beside KenLM: the same lines, the same order; perplexities are compared, and ratios printed.

    ./dev bench ngram                       WikiText-2, order 5, one thread
    ./dev bench ngram --text FILE           a text of one's own, cut into words by spaces, a line a sentence
    ./dev bench ngram --threads 2           ours with two threads, by the clock
    ./dev bench ngram --growth              1, 4 and 16 times as much text: seconds and memory
    ./dev bench ngram --growth --write      the same, into both READMEs

  build    from text to a model that can be asked: theirs `lmplz` (1 GB to sort in) and `build_binary` (probing), of
           $KENLM_BIN or PATH; ours `text`: what `forebear pretrain` does with text (read, learn words, cut, keep a
           ledger) and with counts, and `ids`: from the prepared corpus to the table on the disk. Seconds are the
           processor's, without those of loading Python and compiled loops; memory is that of a whole process.
  score    from text: theirs `query` and the `kenlm` module; from ids: theirs `kenlm_benchmark`
  load     opening a finished model
Sides alternate; figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ngram_peers import KenLM, programs, timed

from forebear.data.source import TextSource, prepare_source
from forebear.models.ngram import NgramSpec
from forebear.objectives.batch import BatchKey
from forebear.statistical.disk_backed_arrays import tune_malloc
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel

MARKED = "<unk>", "UNKWORD"  # what KenLM takes for a mark of its own


# --- our side: a process of its own, so that its memory can be told ---


def built(text: Path, folder: Path, order: int, threads: int) -> dict[str, Any]:
    """Seconds of the processor, and by the clock, from text and from ids to a table in this folder."""
    told: dict[str, Any] = {}
    os.environ["FOREBEAR_CACHE"] = tempfile.mkdtemp(dir=folder)  # a new one, or the text would be prepared already
    tune_malloc()  # as `pretrain` does
    began, clock = time.process_time(), time.perf_counter()
    source = TextSource((str(text),), sentences="lines")
    corpus = prepare_source(source, "spaces", workers=1)
    told["preparing"] = time.process_time() - began
    milestone = NgramSpec(order=order, unit="sentence")
    network, objective = milestone.build(corpus.tokenizer), milestone.objective(corpus.tokenizer)
    network.counter.threads = threads
    between, by_clock = time.process_time(), time.perf_counter()
    size = milestone.default_recipe()["batch"]
    for step in range(objective.steps(corpus.all_documents(), size)):
        batch = objective.batch(corpus.all_documents(), size, BatchKey(0, step))
        network.add_batch(batch.inputs["tokens"], batch.inputs["lengths"], batch.targets["next"])
    made = network.build_store(folder / "table")
    told |= {"ids": time.process_time() - between, "ids_by_clock": time.perf_counter() - by_clock}
    told |= {"text": time.process_time() - began, "text_by_clock": time.perf_counter() - clock}
    corpus.tokenizer.save(folder / "tokenizer.json")
    return told | {"sizes": made.sizes if made else [], "tokens": int(corpus.all_documents().num_tokens)}


def side(text: Path, folder: Path, order: int, threads: int, warmed: bool) -> None:
    """Once on a text that is nothing, so that loops are compiled and loaded, then in earnest."""
    with tempfile.TemporaryDirectory() if warmed else contextlib.nullcontext() as warm:
        if warm is None:
            built(text, folder, order, threads)
            return
        small = Path(warm) / "warm.txt"
        rng = np.random.default_rng(0)
        words = rng.integers(0, 5_000, 600_000)  # of all lengths so many n-grams that all loops are wanted
        small.write_text("\n".join(" ".join(map(str, row)) for row in np.split(words, 30_000)) + "\n")
        built(small, Path(warm), order, threads)
    print(json.dumps(built(text, folder, order, threads)))


def ours_built(text: Path, folder: Path, order: int, threads: int) -> dict[str, Any]:
    out = folder / "told.json"
    command = [sys.executable, __file__, "--side", str(text), str(folder), str(order), str(threads)]
    timed([*command, "warmed"], None, out)
    cold, _ = timed([*command, "cold"])  # the warm-up leaves memory behind that a person's command does not take
    return json.loads(out.read_text().splitlines()[-1]) | {"memory": cold.memory}


# --- both ---


CHINESE = {
    "from text to a table": "从文本到查询表",
    "from prepared text": "从准备好的文本",
    "scoring text": "给文本打分",
    "scoring ids": "给编号打分",
    "beside": "对比",
    " words/s": " 词/秒",
    " s |": " 秒 |",
    ", order ": "，阶数 ",
    "the module": "其模块",
}


def told_of_building(text: Path, folder: Path, order: int, threads: int, rounds: int) -> list[list[str]]:
    found, ours, theirs = programs(), [], []
    for _ in range(rounds):
        ours.append(ours_built(text, folder, order, threads))
        if found:
            theirs.append(KenLM(found, folder, order).build(text))
    middle = {name: statistics.median(one[name] for one in ours) for name in ours[0] if name != "sizes"}
    print(f"  {round(middle['tokens']):,} words, n-grams {ours[0]['sizes']}")
    print(f"  ours    text {middle['text']:.2f} s   ids {middle['ids']:.2f} s   {middle['memory'] / 1e6:,.0f} MB")
    if threads > 1:
        print(f"          by the clock: text {middle['text_by_clock']:.2f} s   ids {middle['ids_by_clock']:.2f} s")
    if not theirs:
        print("  KenLM's programs are neither in $KENLM_BIN nor on PATH: nothing to compare with")
        return []
    seconds = statistics.median(one.seconds for one in theirs)
    memory = statistics.median(one.memory for one in theirs)
    print(f"  KenLM   text {seconds:.2f} s   {memory / 1e6:,.0f} MB")
    size, share = f"{text.stat().st_size / 1e6:.1f} MB", middle["memory"] / memory
    cells = []
    for name, label in (("text", "from text to a table"), ("ids", "from prepared text")):
        ratio = statistics.median(other.seconds / one[name] for one, other in zip(ours, theirs, strict=True))
        print(f"  KenLM/ours {name} {ratio:.2f}", end="   ")
        told = f"{middle['memory'] / 1e6:,.0f} MB ({share:.2f})" if name == "text" else "–"
        cells.append([f"{label}, order {order}, {size}", f"{middle[name]:.2f} s", f"{ratio:.2f}", told])
    print(f"memory ours/KenLM {share:.2f}")
    return cells


def opened(folder: Path, order: int) -> tuple[NgramModel, Any, float]:
    from forebear.data.tokenizers.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    model = NgramSpec(order=order).build(tokenizer)
    began = time.perf_counter()
    table = NgramStore.open(folder / "table")
    loading = time.perf_counter() - began
    model.use_store(table, dict)
    return model, tokenizer, loading


def told_of_scoring(test: Path, folder: Path, order: int, rounds: int) -> list[list[str]]:
    from forebear.inference.score import text_log_probs

    model, tokenizer, loading = opened(folder, order)
    lines, found = test.read_text(encoding="utf-8").splitlines(), programs()
    theirs = KenLM(found, folder, order) if found else None
    ids, counts = tokenizer.encode_many(lines)
    lengths = counts.astype(np.int64) + 2
    tokens = np.full(int(lengths.sum()), tokenizer.special_roles["end"], np.int32)
    tokens[np.arange(len(ids)) + np.repeat(2 * np.arange(len(counts)) + 1, counts)] = ids
    scored = len(ids) + len(counts)
    ratios: dict[str, list[float]] = {}
    speeds: dict[str, list[float]] = {}
    perplexity = {}

    def kept(name: str, seconds: float) -> float:
        speeds.setdefault(name, []).append(scored / seconds / 1e6)
        return seconds

    module = None
    if theirs is not None:
        import kenlm

        began = time.perf_counter()
        module = kenlm.Model(str(theirs.binary))
        print(f"  load: ours {loading * 1e3:.1f} ms, the kenlm module {(time.perf_counter() - began) * 1e3:.1f} ms")
    for turn in range(rounds + 1):
        began = time.process_time()
        mine = text_log_probs(model, tokenizer, lines)
        text = time.process_time() - began
        began = time.process_time()
        model.score_flat(tokens, lengths)
        from_ids = time.process_time() - began
        perplexity["ours"] = float(np.exp(-mine.sum() / scored))
        if not turn:
            continue
        kept("ours, text", text)
        kept("ours, ids", from_ids)
        if theirs is None or module is None:
            continue
        perplexity["query"], seconds = theirs.query(test)
        ratios.setdefault("query", []).append(kept("query", seconds) / text)
        began = time.process_time()
        total = sum(module.score(line) for line in lines)
        ratios.setdefault("the module", []).append(kept("the module", time.process_time() - began) / text)
        perplexity["the module"] = float(10 ** (-total / scored))
        if (seconds := theirs.score_ids(test)) is not None:
            ratios.setdefault("kenlm_benchmark", []).append(kept("kenlm_benchmark", seconds) / from_ids)
    print("  perplexity: " + ", ".join(f"{name} {value:.4f}" for name, value in perplexity.items()))
    if len(perplexity) > 1:
        assert max(perplexity.values()) / min(perplexity.values()) < 1 + 1e-5, "they do not agree"
    print("  million words a second: " + ", ".join(f"{k} {statistics.median(v):.2f}" for k, v in speeds.items()))
    cells = []
    for name, values in ratios.items():
        what = "ids" if name == "kenlm_benchmark" else "text"
        ratio, speed = statistics.median(values), statistics.median(speeds[f"ours, {what}"])
        print(f"  {name}/ours, {what} {ratio:.2f}")
        cells.append([f"scoring {what}, beside {name}", f"{speed:.2f} M words/s", f"{ratio:.2f}", "–"])
    return cells


def written(text: str, file: Path) -> Path:
    """Lines that both take for the same: no blank ones, no marks."""
    lines = (" ".join(line.split()) for line in text.replace(*MARKED).splitlines())
    file.write_text("".join(f"{line}\n" for line in lines if line), encoding="utf-8")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--write", action="store_true", help="enter the figures in both READMEs")
    parser.add_argument("--quick", action="store_true", help="a small text and one round, to see that it runs")
    given = parser.parse_args()
    if given.side:
        text, folder, order, threads, how = given.side
        side(Path(text), Path(folder), int(order), int(threads), how == "warmed")
        return
    from side_by_side import DATA, machine, natural_text, write_figures  # only here: torch takes memory

    where, rows = machine(given.threads, ("numpy", "numba")), []
    print(where)
    rounds = 1 if given.quick else given.rounds
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        whole = given.text.read_text(encoding="utf-8") if given.text else natural_text(1 << (21 if given.quick else 24))
        test = DATA / "corpora" / "wikitext2" / "test.txt"
        held = given.test or (test if test.exists() and not given.quick else None)
        if held is None:
            cut = len(whole) * 9 // 10
            whole, rest = whole[:cut], whole[cut:]
        else:
            rest = held.read_text(encoding="utf-8")
        shares = (16, 4, 1) if given.growth else (1,)
        for share in shares:
            text = written(whole[: len(whole) // share], folder / "text.txt")
            print(f"order {given.order}, {text.stat().st_size / 1e6:.1f} MB of text, {given.threads} thread(s)")
            rows += told_of_building(text, folder, given.order, given.threads, rounds)
        rows += told_of_scoring(written(rest, folder / "test.txt"), folder, given.order, rounds)
    if given.write and rows:
        more = {
            "units": ("seconds, or words a second", "秒数，或每秒词数"),
            "peer": "KenLM",
            "last": ("memory (against KenLM's)", "内存（相对于 KenLM）"),
        }
        write_figures("ngram", rows, where, rounds, CHINESE, **more)


if __name__ == "__main__":
    main()
