"""`forebear import` and `export`: convert models of other programs to runs and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from forebear.cli.options import given_options
from forebear.cli.output import Console, Output
from forebear.errors import join_errors

ImportFormat = Literal["word2vec", "word2vec-binary", "glove", "fasttext", "safetensors"]
ExportFormat = Literal["huggingface", "arpa", "elmo", "onnx", ImportFormat]


def import_command(
    source: str,
    /,
    *,
    to: Path,
    heads: int | None = None,
    task: Literal["classification", "pairs", "none"] | None = None,
    file_format: Annotated[ImportFormat | None, Parameter(name="--format")] = None,
    limit: str | None = None,
    on_bad_bytes: Literal["fail", "replace", "skip"] | None = None,
    output: Output = Output(),
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
    file_format
        What a file of word vectors is, where that cannot be seen.
    limit
        Take no more of a file's word vectors than these, from its beginning: 200k.
    on_bad_bytes
        With a word of such a file that is no UTF-8: fail, replace what is not by U+FFFD, or skip it. [default: fail]
    """
    from forebear.interop import convert
    from forebear.settings.units import parse_count

    max_vectors = None if limit is None else parse_count(limit, "limit")
    options = given_options(form=file_format, limit=max_vectors, on_bad_bytes=on_bad_bytes)
    with output.progress("reading") as progress:
        run = convert.import_model(source, str(to), heads=heads, task=task, **options, progress=progress)

    def draw(console: Console) -> None:
        console.plain(f"{run.metadata['milestone']}, {run.metadata['parameters']:,} parameters: {run.path}")
        if "heads" in run.metadata:
            console.plain(f"heads: {', '.join(run.metadata['heads']) or 'none, an encoder only'}")
        if run.task is not None:
            labels = run.task.labels or run.task.tags
            label_note = f"; labels: {join_errors(labels)}" if labels else ""
            console.plain(f"task: {run.task.name}{label_note}; forebear {run.task.verb} {run.path}")
        console.notes([] if output.quiet else run.metadata["notes"])

    output.emit({"folder": str(run.path), **run.metadata}, draw)


def export_command(
    run: Path,
    /,
    *,
    to: Path,
    file_format: Annotated[ExportFormat | None, Parameter(name="--format")] = None,
    output: Output = Output(),
) -> None:
    """Write a run as a folder that transformers opens, an ONNX file, ARPA (n-gram), published ELMo, or word vectors.

    A run that was adapted to a task becomes a model for that task there, with its labels; what such a folder cannot say
    is told. An ONNX file takes padded batches of any size (input_ids, attention_mask, token_type_ids) and is compared
    with the run by ONNX Runtime before it gets its name; its tokenizer, and a .json that says how to use it, stand
    beside it. An ELMo becomes options.json, lm_weights.hdf5 and vocab.txt, as bilm-tf and AllenNLP read them (needs
    h5py: pip install 'forebear[elmo]'). Any run whose tokens are words can be written as a file of word vectors, packed
    where its name ends with .gz or .zst; safetensors keep words and counts as they are, and for the others white space
    in a word becomes _.

    ```
    forebear export runs/book --to book-gpt2
    forebear export runs/reviews --to reviews-bert
    forebear export runs/ngram --format arpa --to book.arpa
    forebear export runs/reviews --format onnx --to reviews.onnx
    forebear export runs/elmo --to elmo-published
    forebear export runs/words --format word2vec --to words.txt
    ```

    Parameters
    ----------
    run
        A run folder.
    to
        The folder or file to write.
    file_format
        huggingface, arpa, elmo, onnx; of word vectors word2vec (text, which gensim reads too), word2vec-binary, glove,
        fasttext or safetensors. [default: the first of these that the run can be written as]
    """
    from forebear.inference.run import Run
    from forebear.interop import convert
    from forebear.interop.word_vectors import VECTOR_FORMATS

    loaded_run = Run.open(run)
    export_format = file_format or convert.default_export_format(loaded_run)
    if export_format in VECTOR_FORMATS and (size_note := convert.export_note(loaded_run, export_format, to)):
        output.note([size_note])
    path = convert.export_run(loaded_run, export_format, str(to))

    def draw(console: Console) -> None:
        console.plain(f"{export_format}: {path}")
        console.notes([] if output.quiet else loaded_run.notes)

    output.emit({"run": str(run), "format": export_format, "to": str(path), "notes": loaded_run.notes}, draw)
