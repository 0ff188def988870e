"""Preparing a corpus beside its peers: the same text, the same cores, the same tokens; prints the ratios.

    ./dev bench text                   English and Chinese of ../shared/data (or $FOREBEAR_DATA), else the demo's text
    ./dev bench text --text my.txt     any text; --kind, --size, --rounds, --cores
    ./dev bench text --memory          peak memory of one and of ten times the text
    ./dev bench text --write           put the figures into both READMEs

Peers, each in a process of its own, alternating with us, medians over the rounds:
  encode_batch   `tokenizers.encode_batch` on ready strings in memory: the limit of any pipeline built around it
  datasets       `datasets.map(batched=True)` with the transformers fast tokenizer, from the file to its cache
  rjieba         `Jieba().cut` on ready lines, for the segmentation
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("FOREBEAR_DATA", ROOT.parent / "shared" / "data"))


# --- what is measured; each runs in a fresh process and prints one JSON line ---


def ours(text: Path, tokenizer: Path, cores: int, to: Path) -> dict:
    """Read, split into sentences, tokenise, write."""
    from forebear.data.corpus.prepare import prepare_corpus
    from forebear.data.tokenizers.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer)
    began = time.perf_counter()
    corpus = prepare_corpus([text], loaded, to=to, workers=cores)
    seconds = time.perf_counter() - began
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)  # asked before the ids are looked at, which maps them all
    peak = [resource.getrusage(who).ru_maxrss // 1024 for who in whose]
    return {"seconds": seconds, "tokens": len(corpus), "sum": int(corpus.ids.sum(dtype="int64")), "peak": peak}


def encode_batch(text: Path, tokenizer: Path, cores: int, to: Path) -> dict:
    """The limit: strings are ready in memory, ids are left inside the library's objects."""
    os.environ["TOKENIZERS_PARALLELISM"], os.environ["RAYON_NUM_THREADS"] = "true", str(cores)
    import tokenizers

    loaded = tokenizers.Tokenizer.from_file(str(tokenizer))
    strings = ready_sentences(text)
    tokens, seconds, checksum = 0, 0.0, 0
    for start in range(0, len(strings), 10_000):
        began = time.perf_counter()
        encodings = loaded.encode_batch(strings[start : start + 10_000], add_special_tokens=False)
        seconds += time.perf_counter() - began
        tokens += sum(map(len, encodings))
        checksum += sum(sum(encoding.ids) for encoding in encodings)
    return {"seconds": seconds, "tokens": tokens, "sum": checksum}


def datasets(text: Path, tokenizer: Path, cores: int, to: Path) -> dict:
    """What people use today."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    os.environ["HF_DATASETS_CACHE"] = str(to)
    import datasets as peer
    from transformers import PreTrainedTokenizerFast

    peer.disable_progress_bars()
    loaded = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer))

    def tokenise(batch: dict) -> dict:
        return loaded(batch["text"], add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False)

    began = time.perf_counter()
    lines = peer.load_dataset("text", data_files=str(text), split="train", cache_dir=str(to))
    done = lines.attention_map(tokenise, batched=True, num_proc=cores, remove_columns=["text"])
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "tokens": sum(len(row) for row in done["input_ids"]), "sum": None}


def segmented(text: Path, tokenizer: Path, cores: int, to: Path) -> dict:
    from forebear.data.segmentation import Segmenter

    lines, segmenter = ready_lines(text), Segmenter()
    segmenter.word_ends("热身")
    began = time.perf_counter()
    words = sum(len(segmenter.split(line)) for line in lines)
    return {"seconds": time.perf_counter() - began, "tokens": words, "sum": None}


def rjieba(text: Path, tokenizer: Path, cores: int, to: Path) -> dict:
    import rjieba as peer

    lines, jieba = ready_lines(text), peer.Jieba()
    jieba.cut("热身")
    began = time.perf_counter()
    words = sum(len(jieba.cut(line)) for line in lines)
    return {"seconds": time.perf_counter() - began, "tokens": words, "sum": None}


def ready_sentences(text: Path) -> list[str]:
    from forebear.data.io.sources import find_sources
    from forebear.data.io.text_formats import TextFormat
    from forebear.data.io.text_ledger import Ledger
    from forebear.data.sentences import split_sentences

    documents = TextFormat().documents_in(find_sources([text]), Ledger())
    return [sentence for document in documents for sentence in split_sentences(document.text)]


def ready_lines(text: Path) -> list[str]:
    return [line for line in text.read_text(encoding="utf-8").split("\n") if line]


MEASURED = {f.__name__: f for f in (ours, encode_batch, datasets, segmented, rjieba)}


# --- the comparison ---


def run(name: str, text: Path, tokenizer: Path, cores: int) -> dict:
    """One measurement in a fresh process on the first `cores` processors."""
    with tempfile.TemporaryDirectory(prefix="forebear-bench-") as folder:
        command = [sys.executable, __file__, "--measure", name, str(text), str(tokenizer), str(cores), f"{folder}/to"]
        environment = {**os.environ, "FOREBEAR_CACHE": f"{folder}/cache"}
        chosen = sorted(os.sched_getaffinity(0))[:cores]
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, chosen),
        )
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def medians(names: list[str], text: Path, tokenizer: Path, cores: int, rounds: int) -> dict[str, dict]:
    """All of them in turn, several times over, so that a disturbance hits them alike."""
    seen: dict[str, list[dict]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            seen[name].append(run(name, text, tokenizer, cores))
    return {
        name: {**results[-1], "seconds": statistics.median(it["seconds"] for it in results)}
        for name, results in seen.items()
    }


def compare(label: str, text: Path, tokenizer: Path, cores: int, rounds: int, peers: list[str]) -> str:
    """Preparing against its peers on one text; the tokens must be the same. Returns the row for the READMEs."""
    found = medians(["ours", *peers], text, tokenizer, cores, rounds)
    mine = found["ours"]
    assert mine["tokens"] == found["encode_batch"]["tokens"], (mine, found["encode_batch"])
    assert mine["sum"] == found["encode_batch"]["sum"], "the ids differ"
    size = text.stat().st_size / 1e6
    print(f"\n{label}: {size:.1f} MB, {mine['tokens']:,} tokens, {cores} cores, {rounds} rounds")
    cells = []
    for name, facts in found.items():
        rate = facts["tokens"] / facts["seconds"]
        ratio = mine["tokens"] / mine["seconds"] / rate
        cells.append(f"{ratio:.2f}")
        print(f"  {name:14}{facts['seconds']:8.2f} s {rate / 1e6:8.2f} M tokens/s   ours/{name} = {ratio:.2f}")
    return (
        f"| {label}, {size:.0f} MB | {mine['tokens'] / mine['seconds'] / 1e6:.2f} M | " + " | ".join(cells[1:]) + " |"
    )


def compare_segmentation(text: Path, tokenizer: Path, rounds: int) -> str:
    words = medians(["segmented", "rjieba"], text, tokenizer, 1, rounds)
    assert words["rjieba"]["tokens"] == words["segmented"]["tokens"]
    ratio = f"{words['rjieba']['seconds'] / words['segmented']['seconds']:.2f}"
    print(f"  segmentation on one core: ours/rjieba = {ratio}")
    return ratio


def tokenizer_for(text: Path, folder: Path, kind: str, size: int) -> Path:
    from forebear.data.io.text_formats import TextFormat
    from forebear.data.source import TokenizerTrainingOptions, train_on_files

    path = folder / f"{text.stem}-{kind}-{size}.json"
    if not path.exists():
        train_on_files(kind, [text], TextFormat(), TokenizerTrainingOptions(size=size))[0].save(path)
    return path


def natural_texts(folder: Path) -> dict[str, Path]:
    """English and Chinese prose as people wrote it, each once; the demo's where the real data are absent."""
    corpora = DATA / "corpora"
    if not corpora.is_dir():
        from forebear.demo import python_manual

        own = folder / "manual.txt"
        own.write_text("\n\n".join(python_manual.manual_documents()), encoding="utf-8")
        return {"English (demo)": own}
    english = folder / "english.txt"
    parts = ["wikitext2/train.txt", "wikitext2/wiki.valid.raw", "wikitext2/wiki.test.raw", "tinyshakespeare.txt"]
    english.write_text("\n\n".join((corpora / part).read_text() for part in parts))
    return {"English": english, "Chinese": corpora / "zhwiki.txt"}


def compare_memory(text: Path, tokenizer: Path, cores: int, folder: Path) -> str:
    ten = folder / "ten.txt"
    ten.write_text((text.read_text(encoding="utf-8") + "\n\n") * 10, encoding="utf-8")
    one, more = run("ours", text, tokenizer, cores), run("ours", ten, tokenizer, cores)
    ratio = f"{sum(more['peak']) / sum(one['peak']):.2f}"
    peaks = f"{one['peak']} for {text.stat().st_size / 1e6:.0f} MB of text, {more['peak']} for ten times as much"
    print(f"  peak memory in MB (caller, largest worker): {peaks}: {ratio} times")
    return ratio


def machine(cores: int) -> str:
    """The processor by its name, and what it runs."""
    cpu = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", cpu.read_text(), re.M) if cpu.exists() else []
    peers = [name for name in ("tokenizers", "datasets", "transformers", "rjieba") if find_spec(name)]
    versions = ", ".join(f"{name} {version(name)}" for name in peers)
    return f"{names[0] if names else platform.machine()}, {cores} cores; Python {platform.python_version()}, {versions}"


def write_figures(rows: list[str], extra: dict[str, str], where: str, rounds: int) -> None:
    """Into both READMEs, between their marks."""
    said = {
        "README.md": (
            "| text | tokens/s | against `encode_batch` alone | against `datasets.map` |",
            "Segmentation runs at {words} of rjieba's own speed; ten times the text takes {memory} times the memory.",
            "Medians of {rounds} rounds on {where}.",
        ),
        "README.zh-CN.md": (
            "| 文本 | 词元/秒 | 相对于单独的 `encode_batch` | 相对于 `datasets.map` |",
            "中文切词的速度是 rjieba 本身的 {words} 倍；十倍的文本占用 {memory} 倍的内存。",
            "{rounds} 轮的中位数，机器为 {where}。",
        ),
    }
    for name, (head, also, measured) in said.items():
        path = ROOT / name
        lines = [
            head,
            "|---|---|---|---|",
            *([row.replace("English", "英文").replace("Chinese", "中文") for row in rows] if "zh" in name else rows),
            "",
            also.format(**extra),
            measured.format(rounds=rounds, where=where),
        ]
        mark = "<!-- written by `./dev bench text --write`: do not edit by hand -->\n"
        before, _, rest = path.read_text().partition(mark)
        path.write_text(before + mark + "\n".join(lines) + "\n" + rest[rest.index("<!-- end -->") :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="a text of your own instead")
    kinds = ["wordpiece", "bytepair", "characters"]  # not words: the peer cannot cut Chinese into them
    parser.add_argument("--kind", default="wordpiece", choices=kinds, help="the kind of tokenizer")
    parser.add_argument("--size", type=int, default=30_000)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="only the memory of one and ten times the text")
    parser.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    parser.add_argument("--quick", action="store_true", help="one round, without datasets: a smoke test")
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, text, tokenizer, cores, to = options.measure
        print(json.dumps(MEASURED[name](Path(text), Path(tokenizer), int(cores), Path(to))))
        return
    where = machine(options.cores)
    print(where)
    rows: list[str] = []
    extra: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="forebear-bench-") as made:
        folder = Path(made)
        texts = {"your text": options.text} if options.text else natural_texts(folder)
        rounds, peers = (1, ["encode_batch"]) if options.quick else (options.rounds, ["encode_batch", "datasets"])
        for label, text in texts.items():
            tokenizer = tokenizer_for(text, folder, options.kind, options.size)
            if not options.memory:
                rows.append(compare(label, text, tokenizer, options.cores, rounds, peers))
            if label == "Chinese" and not (options.quick or options.memory):
                extra["words"] = compare_segmentation(text, tokenizer, rounds)
            if options.memory or options.write:
                extra["memory"] = compare_memory(text, tokenizer, options.cores, folder)
    if options.write:
        write_figures(rows, extra, where, rounds)


if __name__ == "__main__":
    main()
