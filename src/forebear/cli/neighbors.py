"""`forebear neighbours`: the words nearest to a word, or the sentences of a file nearest to a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.batch_io import BatchInputOptions, FailedInput, PartialResults, TextArguments, open_run
from forebear.cli.options import chosen_layers
from forebear.cli.output import Console, Output, Switch, Table, count_phrase, number_cell, printable_cell
from forebear.errors import InputError
from forebear.inference.embed import EmbeddingPooling, LongTextPolicy

if TYPE_CHECKING:
    from forebear.embeddings.lexicon import Lexicon, WordNeighbors
    from forebear.inference.similarity import SentenceIndex, SentenceNeighbors

QUERY_BATCH_SIZE = 2048  # queries searched together
DEFAULT_TOP_WORDS, DEFAULT_TOP_SENTENCES = 10, 5


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
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
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

    loaded_run = open_run(run, "neighbours", output)
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
        top_k, search_input = top or DEFAULT_TOP_SENTENCES, BatchInputOptions(among, encoding=batch_input.encoding)
        search_input.count_inputs(None, blank=is_word_table(loaded_run))  # raises errors before any work
        with output.counter("sentences read") as progress:
            sentences = (line.text for line in search_input.valid_inputs(None))
            index = index_sentences(loaded_run, sentences, progress=progress, vectors=vectors, **search_options)
        result |= {"among": str(among), "sentences": len(index.texts)}
    if approximate:
        result["recall"] = round(index.index.recall(top_k), 4)

    def search_batch(batch: list[str]) -> list[Any]:
        if isinstance(index, SentenceIndex):
            query_vectors = embed_texts(loaded_run, batch, **search_options).vectors
            return index.search(batch, query_vectors, top_k, approximate=approximate)
        return index.neighbors(batch, top_k, approximate=approximate)

    partial_results, lines = PartialResults(), batch_input.valid_inputs(texts)
    answers = batch_input.run_batch(lines, search_batch, batch_size=QUERY_BATCH_SIZE, partial_results=partial_results)
    if not partial_results.count:
        hint = 'forebear neighbours RUN word, or RUN "some text" --among FILE, or --in FILE'
        raise InputError("there is no text", hint=hint)
    if batch_input.output_file is not None:
        result |= {"texts": partial_results.count, "out": str(batch_input.output_file)}
    else:
        result["texts"] = [answer.to_dict() for answer in answers]
    partial_results.emit_failures(result, output)
    answered = [answer for answer in answers if not isinstance(answer, FailedInput)]
    output.emit(result, lambda console: _print_neighbors(console, result, answered))


def _print_neighbors(
    console: Console, result: dict[str, Any], answers: list[SentenceNeighbors | WordNeighbors]
) -> None:
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
