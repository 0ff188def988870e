"""`forebear import`: another program's model becomes a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from forebear.cli.printing import Speaking
from forebear.errors import several

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.training.folder import RunFolder


Form = Literal["word2vec", "word2vec-binary", "glove", "fasttext", "safetensors"]


def imported(
    source: str,
    /,
    *,
    to: Path,
    heads: int | None = None,
    task: Literal["classification", "pairs", "none"] | None = None,
    form: Annotated[Form | None, Parameter(name="--format")] = None,
    limit: str | None = None,
    on_bad_bytes: Literal["fail", "replace", "skip"] | None = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Make a run from a Hugging Face folder or hub name, published ELMo or GPT, an ARPA file (n-gram) or word vectors.

    Of Hugging Face: openai-gpt, bert, gpt2, ernie, roberta and albert, with whatever heads the folder has: what was
    fine-tuned to classify, tag, answer or choose can be asked to at once. What was read, what it lacks and what was
    left out is told, and kept in the run. ELMo is what bilm-tf and AllenNLP publish: options.json, weights in HDF5 and
    perhaps a vocabulary (needs h5py: pip install 'forebear[elmo]'). A folder with rnnlm.npz and vocab.txt is an LSTM.
    Word vectors are those of word2vec (text and binary), GloVe, fastText (.vec) and safetensors, all but the last also
    as .gz and .zst; which it is is seen by what is in the file.

    ```
    forebear import ./bert-base-chinese --to runs/bert
    forebear import openai-community/gpt2 --to runs/gpt2
    forebear import ./roberta-large-mnli --task pairs --to runs/mnli
    forebear import ./elmo_2x4096_512_2048cnn_2xhighway --to runs/elmo
    forebear import model.arpa --to runs/kenlm
    forebear import glove.6B.300d.txt --to runs/glove
    forebear import wiki.zh.vec.gz --limit 200k --to runs/zh
    ```

    Parameters
    ----------
    source
        A folder that transformers' save_pretrained wrote, a name on the Hugging Face hub, a folder of an ELMo (or its
        file of weights), a folder or archive of params_0.npy … that OpenAI published, an ARPA file, or a file of word
        vectors.
    to
        The run folder.
    heads
        Of attention, for OpenAI's files, which do not tell. [default: one for every 64 numbers of width]
    task
        What a classifier was trained on, single texts or pairs, which its folder does not tell; none: leave the head
        for its task out, whatever it is. [default: pairs where labels are those of entailment]
    form
        What a file of word vectors is, where that cannot be seen.
    limit
        Take no more of a file's word vectors than these, from its beginning: 200k.
    on_bad_bytes
        With a word of such a file that is no UTF-8: fail, replace what is not by U+FFFD, or skip it. [default: fail]
    """
    from forebear.training.recipe import amount
    from forebear.using import exchanging
    from forebear.using.exchanging_vectors import Vectors

    vectors: Vectors = {}
    if form is not None:
        vectors["form"] = form
    if limit is not None:
        vectors["limit"] = amount(limit, "limit")
    if on_bad_bytes is not None:
        vectors["on_bad_bytes"] = on_bad_bytes
    with speaking.progress("reading") as vectors["progress"]:
        run = exchanging.imported(source, str(to), heads=heads, task=task, **vectors)
    facts = {"folder": str(run.path), **run.facts}
    speaking.tell(facts, lambda console: _draw(console, run, [] if speaking.quiet else run.facts["notes"]))


def _draw(console: Console, run: RunFolder, notes: list[str]) -> None:
    told = f"{run.facts['milestone']}, {run.facts['parameters']:,} parameters: {run.path}"
    console.print(told, markup=False, soft_wrap=True)
    if "heads" in run.facts:
        heads = ", ".join(run.facts["heads"]) or "none, an encoder only"
        console.print(f"heads: {heads}", markup=False, soft_wrap=True)
    if run.task is not None:
        labels = run.task.labels or run.task.tags
        named = f"; labels: {several(labels)}" if labels else ""
        told = f"task: {run.task.name}{named}; forebear {run.task.verb} {run.path}"
        console.print(told, markup=False, soft_wrap=True)
    for note in notes:
        console.print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
