"""`forebear embed`: vectors of texts and words, as an array, as JSON lines, or as cosines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.batch_io import (
    BatchInputOptions,
    InputLine,
    TextArguments,
    add_source_location,
    group_inputs,
    open_run,
)
from forebear.cli.options import chosen_layers
from forebear.cli.output import Console, Output, Switch, Table, count_phrase, printable_cell, shorten
from forebear.errors import InputError
from forebear.inference.embed import EmbeddingPooling, LongTextPolicy

if TYPE_CHECKING:
    import numpy as np

    from forebear.inference.embed import EmbeddedText
    from forebear.inference.run import Run

ARRAY_SUFFIXES = (".npy", ".safetensors")
EMBED_BATCH_SIZE = 2048  # texts sorted by length and embedded together
MAX_SHOWN_TEXTS = 12  # texts or words whose cosines fit into a table
MAX_NAMED_LINES = 10  # maximum number of lines without a known word that are listed


def embed(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    layers: str | None = None,
    pooling: EmbeddingPooling = "mean",
    words: Switch = False,
    long: LongTextPolicy | None = None,
    normalise: bool = True,
    compiled: Annotated[bool, Parameter(name="--compile", negative="", show_default=False)] = False,
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
) -> None:
    """Turn texts, or their words in context, into vectors; several are shown with the cosines between them.

    A run of word vectors makes them of the words it knows; the others are counted as left away. A line of a file that
    is blank, or of which no word is known, gets zeros, so that vectors and lines have the same numbers, and is told.

    A file of any length is read as it goes: --out takes .npy and .safetensors (an array, a row a text) or JSON lines
    (also .gz, .zst), and the file has its name only when all is in it.

    ```
    forebear embed runs/bert "我很喜欢你" "我很中意你" "今天下雨"
    forebear embed runs/bert "the bank of the river" "money in the bank" --words --layers 2
    forebear embed runs/bert --in sentences.txt --out vectors.npy
    forebear embed runs/bert --in sentences.txt.gz --out vectors.jsonl.zst
    forebear embed runs/bert "a text" --layers 0:0.2,3:0.3,4:0.5 --json
    forebear embed runs/word2vec --in sentences.txt --pooling sif --out vectors.npy
    ```

    Parameters
    ----------
    run
        The run's folder: any with an encoder, or one imported (sentence encoders of Hugging Face too).
    texts
        Texts, each by itself; - for the lines of standard input.
    layers
        A layer (0: the embedding, -1: the last), several for their mean (1,2,3), or with weights (2:0.5,4:0.5).
        [default: -1]
    pooling
        A text's vector is the mean of its tokens' vectors, the first one's ([CLS]), the last one's, or their max. Of
        word vectors also sif: frequent words count less, and what all texts have in common is taken away.
    words
        Each word its own vector, the mean of its tokens'; Chinese is cut into words.
    long
        A text longer than the context is read in windows, or truncated; what is left away is told. [default: windows]
    normalise
        Vectors of length 1.
    compiled
        Let torch compile the network first. On processors this takes up to minutes and has gained nothing where it was
        measured; it needs a C++ compiler.
    """
    from forebear.inference.embed import is_word_table, resolve_embedding_options

    out_file = batch_input.output_file
    writes_array = out_file is not None and out_file.suffix in ARRAY_SUFFIXES
    if writes_array and words:
        raise InputError("--words gives texts different numbers of vectors", hint="write them to a .jsonl file")
    if out_file is not None and Path(out_file.stem).suffix in ARRAY_SUFFIXES and out_file.suffix in (".gz", ".zst"):
        hint = "leave .gz or .zst out of the name"
        raise InputError(f"{out_file}: files of vectors are read where they lie", hint=hint)
    loaded_run = open_run(run, "embed", output)
    use_zeros = is_word_table(loaded_run) and batch_input.reads_lines(texts)
    embedding_options = resolve_embedding_options(
        loaded_run, layers=chosen_layers(layers), pooling=pooling, long=long, normalise=normalise, zeros=use_zeros
    )
    if compiled:
        if is_word_table(loaded_run):
            message = "--compile is for networks, and this is a table of words"
            raise InputError(message, file=loaded_run.folder.path, hint="leave it out")
        from forebear.nn.encode_rows import compile_blocks

        compile_blocks(loaded_run.network)
    total, counts, zero_texts = batch_input.count_inputs(texts, blank=use_zeros), Counter[str](), list[int]()
    if not total and (out_file is None or writes_array):  # run_batch rejects the other files
        raise InputError("there is no text to embed", hint='forebear embed RUN "some text", or --in FILE')
    with output.counter("texts") as progress:

        def report(truncated_counts: Sequence[int], token_counts: Sequence[int]) -> None:
            zero_texts.extend(counts["texts"] + index for index, tokens in enumerate(token_counts, 1) if not tokens)
            counts.update(texts=len(truncated_counts), cut=sum(truncated_counts))
            progress(counts["texts"], total)

        def embed_batch(batch: list[str]) -> list[EmbeddedText]:
            answers = loaded_run.embed(batch, words=words, **embedding_options)
            report([answer.num_truncated for answer in answers], [answer.tokens for answer in answers])
            return answers

        lines, embeddings = batch_input.valid_inputs(texts), []
        if out_file is not None and writes_array:
            _write_array(loaded_run, out_file, lines, embedding_options, report)
        else:
            embeddings = batch_input.run_batch(lines, embed_batch, batch_size=EMBED_BATCH_SIZE)
    result: dict[str, Any] = {"run": loaded_run.name, "texts": [answer.to_dict() for answer in embeddings]}
    if out_file is not None:
        result |= {"texts": counts["texts"], "cut": counts["cut"], "out": str(out_file)}
    if use_zeros:
        result["zeros"] = zero_texts
    embedding = None if is_word_table(loaded_run) else loaded_run.model.encoder.embedding
    char_ids = None if embedding is None else embedding.char_ids
    if char_ids is not None and (long_words := char_ids.truncated_words()):
        result["long_words"] = long_words
    output.emit(result, lambda console: _print_embeddings(console, result, embeddings))


def _write_array(
    run: Run, file: Path, lines: Iterable[InputLine], options: dict[str, Any], report: Callable[..., object]
) -> None:
    """Write all vectors to an array file, batch by batch."""
    from forebear.data.io.arrays import write_vectors
    from forebear.data.io.atomic import file_digest
    from forebear.inference.embed import embed_texts

    def vector_batches() -> Iterator[np.ndarray]:
        for batch in group_inputs(lines, EMBED_BATCH_SIZE):
            embedded = add_source_location(batch, lambda texts: embed_texts(run, texts, **options))
            report(embedded.num_truncated.tolist(), embedded.num_tokens.tolist())
            yield embedded.vectors

    metadata = {"run": run.name, "weights": file_digest(run.folder.verified_weights()[0]), "how": json.dumps(options)}
    write_vectors(file, vector_batches(), metadata)


def _print_embeddings(console: Console, result: dict[str, Any], embeddings: list[EmbeddedText]) -> None:
    if "out" in result:
        truncated_note = f", {count_phrase(result['cut'], 'token')} left away" if result["cut"] else ""
        size = count_phrase(result["texts"], "text")
        console.print(f"vectors of {size}{truncated_note}: {result['out']}", markup=False)
    else:
        _print_cosines(console, embeddings)
    if zero_texts := result.get("zeros"):
        numbers = ", ".join(f"{number:,}" for number in zero_texts[:MAX_NAMED_LINES])
        numbers += ", …" * (len(zero_texts) > MAX_NAMED_LINES)
        subject_phrase = count_phrase(len(zero_texts), "line has", "lines have")
        console.warn(f"{subject_phrase} no word with a vector, and zeros: {numbers}")
    if long_words := result.get("long_words"):
        subject_phrase = count_phrase(len(long_words), "word is", "words are")
        longest = printable_cell(shorten(long_words[0]))
        console.warn(f"{subject_phrase} longer than the run reads, and read as far as that: {longest}")


def _print_cosines(console: Console, embeddings: list[EmbeddedText]) -> None:
    import numpy as np

    words = [(word.text, word.vector) for embedding in embeddings for word in embedding.words or ()]
    vectors = words or [(embedding.text, embedding.vector) for embedding in embeddings]
    for embedding in embeddings:
        size = f"{len(embedding.vector):,} numbers from {embedding.tokens:,} tokens"
        truncated_note = f", {embedding.num_truncated:,} left away" if embedding.num_truncated else ""
        console.print(f"{printable_cell(shorten(embedding.text))}: {size}{truncated_note}")
    vectors = vectors[:MAX_SHOWN_TEXTS]
    if len(vectors) < 2:
        console.print("(--json or --out has the numbers)", style="dim")
        return
    unit_vectors = np.stack([vector / max(float(np.linalg.norm(vector)), 1e-12) for _, vector in vectors])
    table = Table("cosine", *(f">{index}" for index in range(1, len(vectors) + 1)))
    for index, ((text, _), row) in enumerate(zip(vectors, unit_vectors @ unit_vectors.T, strict=True), 1):
        table.add_row(f"{index} {text[:40]}", *(f"{value:.3f}" for value in row))
    console.print(table)
