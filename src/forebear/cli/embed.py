"""`forebear embed` and `neighbours`: vectors of texts and words, and nearest-neighbor search."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.batch_io import (
    BatchInputOptions,
    FailedInput,
    InputLine,
    PartialResults,
    TextArguments,
    group_inputs,
    open_run,
    relocate_errors,
)
from forebear.cli.options import chosen_layers
from forebear.cli.output import Console, Output, Switch, Table, count_phrase, number_cell, printable_cell, shorten
from forebear.errors import InputError
from forebear.inference.embed import EmbeddingPooling, LongTextPolicy

if TYPE_CHECKING:
    import numpy as np

    from forebear.embeddings.lexicon import Lexicon, WordNeighbors
    from forebear.inference.embed import EmbeddedText
    from forebear.inference.run import Run
    from forebear.inference.similarity import SentenceIndex, SentenceNeighbors

ARRAY_SUFFIXES = (".npy", ".safetensors")
BATCH_TEXTS = 2048  # texts that are sorted by length and read at once
MAX_SHOWN_TEXTS = 12  # texts or words whose cosines fit into a table
MAX_NAMED_LINES = 10  # lines without a word that are told one by one
NEIGHBORS_BATCH = 2048  # texts searched for at once
DEFAULT_TOP_WORDS, DEFAULT_TOP_SENTENCES = 10, 5


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
    many: BatchInputOptions = BatchInputOptions(),
    speaking: Output = Output(),
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

    output = many.output_file
    as_array = output is not None and output.suffix in ARRAY_SUFFIXES
    if as_array and words:
        raise InputError("--words gives texts different numbers of vectors", hint="write them to a .jsonl file")
    if output is not None and Path(output.stem).suffix in ARRAY_SUFFIXES and output.suffix in (".gz", ".zst"):
        hint = "leave .gz or .zst out of the name"
        raise InputError(f"{output}: files of vectors are read where they lie", hint=hint)
    loaded_run = open_run(run, "embed", speaking)
    zeros = is_word_table(loaded_run) and many.reads_lines(texts)
    embedding_options = resolve_embedding_options(
        loaded_run, layers=chosen_layers(layers), pooling=pooling, long=long, normalise=normalise, zeros=zeros
    )
    if compiled:
        if is_word_table(loaded_run):
            message = "--compile is for networks, and this is a table of words"
            raise InputError(message, file=loaded_run.folder.path, hint="leave it out")
        from forebear.nn.encode_rows import compile_blocks

        compile_blocks(loaded_run.network)
    total, counts, zero_texts = many.count_inputs(texts, blank=zeros), Counter[str](), list[int]()
    if not total and (output is None or as_array):  # run_batch rejects the other files
        raise InputError("there is no text to embed", hint='forebear embed RUN "some text", or --in FILE')
    with speaking.counter("texts") as progress:

        def report(cut: Sequence[int], read: Sequence[int]) -> None:
            zero_texts.extend(counts["texts"] + number for number, tokens in enumerate(read, 1) if not tokens)
            counts.update(texts=len(cut), cut=sum(cut))
            progress(counts["texts"], total)

        def ask(group: list[str]) -> list[EmbeddedText]:
            embeddings = loaded_run.embed(group, words=words, **embedding_options)
            truncated = [embedding.num_truncated for embedding in embeddings]
            report(truncated, [embedding.tokens for embedding in embeddings])
            return embeddings

        lines, answers = many.valid_inputs(texts), []
        if output is not None and as_array:
            _write_array(loaded_run, output, lines, embedding_options, report)
        else:
            answers = many.run_batch(lines, ask, batch_size=BATCH_TEXTS)
    result: dict[str, Any] = {"run": loaded_run.name, "texts": [answer.to_dict() for answer in answers]}
    if output is not None:
        result |= {"texts": counts["texts"], "cut": counts["cut"], "out": str(output)}
    if zeros:
        result["zeros"] = zero_texts
    embedding = None if is_word_table(loaded_run) else loaded_run.model.encoder.embedding
    spelling = None if embedding is None else embedding.spelling
    if spelling is not None and (long_words := spelling.truncated_words()):
        result["long_words"] = long_words
    speaking.emit(result, lambda console: _draw_embeddings(console, result, answers))


def _write_array(
    run: Run, file: Path, lines: Iterable[InputLine], options: dict[str, Any], report: Callable[..., object]
) -> None:
    """Writes all vectors to an array file, batch by batch."""
    from forebear.data.io.atomic import file_digest
    from forebear.data.io.safetensors import write_vectors
    from forebear.inference.embed import embed_texts

    def groups() -> Iterator[np.ndarray]:
        for group in group_inputs(lines, BATCH_TEXTS):
            embedded = relocate_errors(group, lambda texts: embed_texts(run, texts, **options))
            report(embedded.num_truncated.tolist(), embedded.num_tokens.tolist())
            yield embedded.vectors

    metadata = {"run": run.name, "weights": file_digest(run.folder.verified_weights()[0]), "how": json.dumps(options)}
    write_vectors(file, groups(), metadata)


def _draw_embeddings(console: Console, result: dict[str, Any], answers: list[EmbeddedText]) -> None:
    if "out" in result:
        truncated_note = f", {count_phrase(result['cut'], 'token')} left away" if result["cut"] else ""
        size = count_phrase(result["texts"], "text")
        console.print(f"vectors of {size}{truncated_note}: {result['out']}", markup=False)
    else:
        _draw_cosines(console, answers)
    if zero_texts := result.get("zeros"):
        numbers = ", ".join(f"{number:,}" for number in zero_texts[:MAX_NAMED_LINES])
        numbers += ", …" * (len(zero_texts) > MAX_NAMED_LINES)
        subject = count_phrase(len(zero_texts), "line has", "lines have")
        console.warn(f"{subject} no word with a vector, and zeros: {numbers}")
    if long_words := result.get("long_words"):
        subject = count_phrase(len(long_words), "word is", "words are")
        longest = printable_cell(shorten(long_words[0]))
        console.warn(f"{subject} longer than the run reads, and read as far as that: {longest}")


def _draw_cosines(console: Console, answers: list[EmbeddedText]) -> None:
    import numpy as np

    words = [(word.text, word.vector) for answer in answers for word in answer.words or ()]
    vectors = words or [(answer.text, answer.vector) for answer in answers]
    for answer in answers:
        size = f"{len(answer.vector):,} numbers from {answer.tokens:,} tokens"
        truncated_note = f", {answer.num_truncated:,} left away" if answer.num_truncated else ""
        console.print(f"{printable_cell(shorten(answer.text))}: {size}{truncated_note}")
    vectors = vectors[:MAX_SHOWN_TEXTS]
    if len(vectors) < 2:
        console.print("(--json or --out has the numbers)", style="dim")
        return
    units = np.stack([vector / max(float(np.linalg.norm(vector)), 1e-12) for _, vector in vectors])
    table = Table("cosine", *(f">{number}" for number in range(1, len(vectors) + 1)))
    for number, ((text, _), row) in enumerate(zip(vectors, units @ units.T, strict=True), 1):
        table.add_row(f"{number} {text[:40]}", *(f"{value:.3f}" for value in row))
    console.print(table)


def neighbours(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    among: Path | None = None,
    top: int | None = None,
    vectors: Path | None = None,
    approximate: Switch = False,
    layers: str | None = None,
    pooling: EmbeddingPooling | None = None,
    long: LongTextPolicy | None = None,
    many: BatchInputOptions = BatchInputOptions(),
    speaking: Output = Output(),
) -> None:
    """Find the words that are nearest to a word, or the sentences of a file nearest to a text, by their cosines.

    Words are those that the run knows, if its tokens are words; each is told with how often it was seen. With --among,
    sentences of a file are searched: their vectors are made once and kept in the cache, or taken from a file that
    `embed` wrote. Search is exact; what is equally near comes in the order of the vocabulary or file. A text that has
    no answer, such as an unknown word, keeps its place with an `error`, and is told.

    ```
    forebear neighbours runs/word2vec king "new york"
    forebear neighbours runs/zh 北京 --top 20
    forebear neighbours runs/bert "a cat on a mat" --among sentences.txt
    forebear neighbours runs/bert --in questions.txt --among answers.txt --top 3 --out nearest.jsonl
    forebear neighbours runs/bert "今天下雨" --among sentences.txt --vectors vectors.npy
    ```

    Parameters
    ----------
    run
        The run's folder: any with vectors, or one imported (sentence encoders of Hugging Face too).
    texts
        Words or texts, each by itself; - for the lines of standard input. Several words in one are taken for a phrase
        that the run knows, or for their mean.
    among
        The file to search, a sentence a line (also .gz, .zst). [default: none, the run's own words]
    top
        How many neighbours each gets. [default: 10 words, or 5 sentences]
    vectors
        The vectors of that file, as embed --out wrote them (.npy, .safetensors). [default: kept in the cache]
    approximate
        Search by an index (usearch) that finds most of the nearest and looks at few: for millions. How many of the
        nearest it finds is measured and told.
    layers
        Of sentences, as for embed.
    pooling
        Of sentences, as for embed.
    long
        Of sentences, as for embed.
    """
    from forebear.inference.embed import embed_texts, is_word_table
    from forebear.inference.similarity import SentenceIndex, index_sentences, reject_search_options

    loaded_run = open_run(run, "neighbours", speaking)
    search_options: dict[str, Any] = {"layers": chosen_layers(layers), "pooling": pooling, "long": long}
    if top is not None and top < 1:
        raise InputError(f"--top is {top}", hint="ask for at least one neighbour")
    result: dict[str, Any] = {"run": loaded_run.name}
    index: SentenceIndex | Lexicon
    if among is None:
        reject_search_options({**search_options, "vectors": vectors})
        top_k, index = top or DEFAULT_TOP_WORDS, loaded_run.lexicon
        result["words"] = len(loaded_run.word_table.words)
    else:
        top_k, file = top or DEFAULT_TOP_SENTENCES, BatchInputOptions(among, encoding=many.encoding)
        file.count_inputs(None, blank=is_word_table(loaded_run))  # finds a bad line before any work
        with speaking.counter("sentences read") as progress:
            sentences = (line.text for line in file.valid_inputs(None))
            index = index_sentences(loaded_run, sentences, progress=progress, vectors=vectors, **search_options)
        result |= {"among": str(among), "sentences": len(index.texts)}
    if approximate:
        result["recall"] = round(index.index.recall(top_k), 4)

    def ask(group: list[str]) -> list[Any]:
        if isinstance(index, SentenceIndex):
            vectors = embed_texts(loaded_run, group, **search_options).vectors
            return index.search(group, vectors, top_k, approximate=approximate)
        return index.neighbors(group, top_k, approximate=approximate)

    partial = PartialResults()
    answers = many.run_batch(many.valid_inputs(texts), ask, batch_size=NEIGHBORS_BATCH, partial=partial)
    if not partial.count:
        hint = 'forebear neighbours RUN word, or RUN "some text" --among FILE, or --in FILE'
        raise InputError("there is no text", hint=hint)
    if many.output_file is not None:
        result |= {"texts": partial.count, "out": str(many.output_file)}
    else:
        result["texts"] = [answer.to_dict() for answer in answers]
    partial.emit_failures(result, speaking)
    answered = [answer for answer in answers if not isinstance(answer, FailedInput)]
    speaking.emit(result, lambda console: _draw_neighbors(console, result, answered))


def _draw_neighbors(console: Console, result: dict[str, Any], answers: list[SentenceNeighbors | WordNeighbors]) -> None:
    from forebear.embeddings.lexicon import WordNeighbors

    for answer in answers:
        if not isinstance(answer, WordNeighbors):
            console.bold(answer.text)
            rows = ((f"{neighbor.cosine:.3f}", f"{neighbor.line:,}", neighbor.text) for neighbor in answer.nearest)
            console.table(">cosine", ">line", "sentence", rows=rows)
            continue
        console.bold(answer.text, f"  ({printable_cell(answer.note)})" if answer.note else "")
        has_counts = any(neighbor.count is not None for neighbor in answer.nearest)
        table = Table(">cosine", *[">seen"] * has_counts, "word")
        for neighbor in answer.nearest:
            table.add_row(f"{neighbor.cosine:.3f}", *[number_cell(neighbor.count)] * has_counts, neighbor.word)
        if answer.nearest:
            console.print(table)
    if "out" in result:
        answered = f"{result['texts'] - result['unanswered']:,} of " if "unanswered" in result else ""
        console.plain(f"neighbours of {answered}{count_phrase(result['texts'], 'text')}: {result['out']}")
    if "recall" in result:
        console.print(f"the index finds {result['recall']:.1%} of the nearest, measured against exact search")
