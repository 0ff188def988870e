"""`forebear embed`: vectors of texts and of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.batch_io import (
    SINGLE_INPUT,
    BatchInputOptions,
    FailedInput,
    InputLine,
    PartialResults,
    TextArguments,
    group_inputs,
    open_run,
    printable_cell,
    relocate_errors,
    shorten,
)
from forebear.cli.output import Output, count_phrase, make_table
from forebear.errors import InputError
from forebear.inference.embed import EmbeddingPooling, LongTextPolicy

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from forebear.embeddings.lexicon import Lexicon, WordNeighbors
    from forebear.inference.embed import EmbeddedText
    from forebear.inference.run import Run
    from forebear.inference.similarity import SentenceIndex, SentenceNeighbors

ARRAYS = (".npy", ".safetensors")
TOGETHER = 2048  # texts that are sorted by length and read at once
SHOWN = 12  # texts or words whose cosines fit into a table
NAMED = 10  # lines without a word that are told one by one


def embed(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    layers: str | None = None,
    pooling: EmbeddingPooling = "mean",
    words: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    long: LongTextPolicy | None = None,
    normalise: bool = True,
    compiled: Annotated[bool, Parameter(name="--compile", negative="", show_default=False)] = False,
    many: BatchInputOptions = SINGLE_INPUT,
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
    from forebear.inference.embed import is_word_table, parse_layers, resolve_embedding_options

    output = many.output_file
    as_array = _is_array(output, words)
    using = open_run(run, "embed", speaking)
    chosen = None if layers is None else parse_layers(layers)
    zeros = is_word_table(using) and many.reads_lines(texts)
    how = resolve_embedding_options(using, layers=chosen, pooling=pooling, long=long, normalise=normalise, zeros=zeros)
    if compiled:
        _compile(using)
    total, texts_told, nothing = many.count_inputs(texts, blank=zeros), Counter[str](), list[int]()
    with speaking.counter("texts") as progress:

        def tell(cut: Sequence[int], read: Sequence[int]) -> None:
            nothing.extend(texts_told["texts"] + number for number, tokens in enumerate(read, 1) if not tokens)
            texts_told.update(texts=len(cut), cut=sum(cut))
            progress(texts_told["texts"], total)

        if as_array:
            assert output is not None
            _save(using, output, many.valid_inputs(texts), how, tell)
            answers = []
        else:

            def ask(group: list[str]) -> list[EmbeddedText]:
                made = using.embed(group, words=words, **how)
                tell([one.num_truncated for one in made], [one.tokens for one in made])
                return made

            answers = many.run_batch(many.valid_inputs(texts), ask, lambda answer: answer.to_dict(), TOGETHER)
    if not (count := texts_told["texts"]):
        raise InputError("there is no text to embed", hint='forebear embed RUN "some text", or --in FILE')
    facts: dict[str, Any] = {"run": using.name, "texts": count, "cut": texts_told["cut"], "out": str(output)}
    if output is None:
        facts = {"run": using.name, "texts": [answer.to_dict() for answer in answers]}
    if zeros:
        facts["zeros"] = nothing
    if long_words := _too_long(using):
        facts["long_words"] = long_words
    speaking.emit(facts, lambda console: _draw(console, facts, answers, nothing))


def _too_long(run: Run) -> list[str]:
    """Of a run that reads words by their letters: those that came and are longer than it reads."""
    from forebear.inference.embed import is_word_table

    embedding = None if is_word_table(run) else run.model.encoder.embedding
    spelling = None if embedding is None else embedding.spelling
    return [] if spelling is None else spelling.truncated_words()


def _is_array(output: Path | None, words: bool) -> bool:
    """Whether the answers are an array; what cannot be one is refused."""
    as_array = output is not None and output.suffix in ARRAYS
    if as_array and words:
        raise InputError("--words gives texts different numbers of vectors", hint="write them to a .jsonl file")
    if output is not None and Path(output.stem).suffix in ARRAYS and output.suffix in (".gz", ".zst"):
        hint = "leave .gz or .zst out of the name"
        raise InputError(f"{output}: files of vectors are read where they lie", hint=hint)
    return as_array


def _compile(run: Run) -> None:
    from forebear.inference.embed import is_word_table

    if is_word_table(run):
        what = "--compile is for networks, and this is a table of words"
        raise InputError(what, file=run.folder.path, hint="leave it out")
    from forebear.nn.encode_rows import compile_blocks

    compile_blocks(run.network)


def _save(run: Run, file: Path, lines: Iterable[InputLine], how: dict[str, Any], tell: Callable[..., object]) -> None:
    """All vectors in a file, a group of texts at a time."""
    import json

    from forebear.data.io.atomic import file_digest
    from forebear.data.io.safetensors import write_vectors
    from forebear.inference.embed import embed_texts

    def groups() -> Iterator[np.ndarray]:
        count = 0
        for group in group_inputs(lines, TOGETHER):
            made = relocate_errors(group, lambda texts: embed_texts(run, texts, **how))
            tell(made.num_truncated.tolist(), made.num_tokens.tolist())
            count += len(group)
            yield made.vectors
        if not count:
            raise InputError("there is no text to embed", hint='forebear embed RUN "some text", or --in FILE')

    facts = {"run": run.name, "weights": file_digest(run.folder.verified_weights()[0]), "how": json.dumps(how)}
    write_vectors(file, groups(), facts)


def _draw(console: Console, facts: dict[str, Any], answers: list[EmbeddedText], nothing: list[int]) -> None:
    if "out" in facts:
        lost = f", {facts['cut']:,} token{'s' * (facts['cut'] != 1)} left away" if facts["cut"] else ""
        console.print(f"vectors of {count_phrase(facts['texts'], 'text')}{lost}: {facts['out']}", markup=False)
    else:
        _draw_cosines(console, answers)
    if nothing:
        named = ", ".join(f"{number:,}" for number in nothing[:NAMED]) + ", …" * (len(nothing) > NAMED)
        told = "1 line has" if len(nothing) == 1 else f"{len(nothing):,} lines have"
        console.print(f"{told} no word with a vector, and zeros: {named}", style="yellow", soft_wrap=True)
    if long_words := facts.get("long_words"):
        told = "1 word is" if len(long_words) == 1 else f"{len(long_words):,} words are"
        shown = f"{told} longer than the run reads, and read as far as that: {shorten(long_words[0])}"
        console.print(shown, style="yellow", soft_wrap=True)


def _draw_cosines(console: Console, answers: list[EmbeddedText]) -> None:
    import numpy as np

    words = [(word.text, word.vector) for answer in answers for word in answer.words or ()]
    named = words or [(answer.text, answer.vector) for answer in answers]
    for answer in answers:
        told = f"{len(answer.vector):,} numbers from {answer.tokens:,} tokens"
        console.print(
            f"{shorten(answer.text)}: {told}"
            + (f", {answer.num_truncated:,} left away" if answer.num_truncated else "")
        )
    named = named[:SHOWN]
    if len(named) < 2:
        console.print("(--json or --out has the numbers)", style="dim")
        return
    units = np.stack([vector / max(float(np.linalg.norm(vector)), 1e-12) for _, vector in named])
    made = make_table("cosine", *(f">{at}" for at in range(1, len(named) + 1)))
    for at, ((text, _), row) in enumerate(zip(named, units @ units.T, strict=True), 1):
        made.add_row(f"{at} {printable_cell(text[:40])}", *(f"{value:.3f}" for value in row))
    console.print(made)


# `forebear neighbours`: the nearest words of a run, or the nearest sentences of a file.


NEIGHBOURS_TOGETHER = 2048  # texts whose neighbours are looked for at once
WORDS, SENTENCES = 10, 5  # shown, unless another number is asked for

Ask = Callable[[list[str]], Sequence[Any]]


def neighbours(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    among: Path | None = None,
    top: int | None = None,
    vectors: Path | None = None,
    approximate: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    layers: str | None = None,
    pooling: EmbeddingPooling | None = None,
    long: LongTextPolicy | None = None,
    many: BatchInputOptions = SINGLE_INPUT,
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
    from forebear.inference.embed import embed_texts, parse_layers
    from forebear.inference.similarity import SentenceIndex, reject_search_options

    using = open_run(run, "neighbours", speaking)
    how = {"layers": None if layers is None else parse_layers(layers), "pooling": pooling, "long": long}
    if top is not None and top < 1:
        raise InputError(f"--top is {top}", hint="ask for at least one neighbour")
    facts: dict[str, Any] = {"run": using.name}
    searching: SentenceIndex | Lexicon
    if among is None:
        reject_search_options({**how, "vectors": vectors})
        most, searching = top or WORDS, using.lexicon
        facts["words"] = len(using.word_table.words)
    else:
        file = BatchInputOptions(among, encoding=many.encoding)
        most, searching = top or SENTENCES, _searched(using, file, speaking, vectors=vectors, **how)
        facts |= {"among": str(among), "sentences": len(searching.texts)}
    if approximate:
        facts["recall"] = round(searching.index.recall(most), 4)

    def ask(group: list[str]) -> list[WordNeighbors] | list[SentenceNeighbors]:
        if isinstance(searching, SentenceIndex):
            return searching.search(group, embed_texts(using, group, **how).vectors, most, approximate=approximate)
        return searching.neighbors(group, most, approximate=approximate)

    _answer(facts, many, texts, ask, speaking)


def _searched(run: Run, file: BatchInputOptions, speaking: Output, **how: Any) -> SentenceIndex:
    """The sentences of a file with their vectors; a fault in its last line is told before any work."""
    from forebear.inference.embed import is_word_table
    from forebear.inference.similarity import index_sentences

    file.count_inputs(None, blank=is_word_table(run))
    with speaking.counter("sentences read") as progress:
        return index_sentences(run, (line.text for line in file.valid_inputs(None)), progress=progress, **how)


def _answer(
    facts: dict[str, Any], many: BatchInputOptions, texts: list[str] | None, ask: Ask, speaking: Output
) -> None:
    """Tells what is near to each text, or writes it to a file."""
    partly = PartialResults()
    answers = many.run_batch(
        many.valid_inputs(texts),
        lambda group: list(ask(group)),
        lambda answer: answer.to_dict(),
        NEIGHBOURS_TOGETHER,
        partly,
    )
    if not partly.count:
        hint = 'forebear neighbours RUN word, or RUN "some text" --among FILE, or --in FILE'
        raise InputError("there is no text", hint=hint)
    if many.output_file is not None:
        facts |= {"texts": partly.count, "out": str(many.output_file)}
    else:
        facts["texts"] = [answer.to_dict() for answer in answers]
    partly.emit_failures(facts, quiet=speaking.quiet)
    shown = [answer for answer in answers if not isinstance(answer, FailedInput)]
    speaking.emit(facts, lambda console: _neighbours_draw(console, facts, shown))


def _table(answer: SentenceNeighbors | WordNeighbors) -> Table:
    from forebear.inference.similarity import SentenceNeighbors

    if isinstance(answer, SentenceNeighbors):
        made = make_table(">cosine", ">line", "sentence")
        for one in answer.nearest:
            made.add_row(f"{one.cosine:.3f}", f"{one.line:,}", printable_cell(one.text))
        return made
    counted = any(one.count is not None for one in answer.nearest)
    made = make_table(">cosine", *[">seen"] * counted, "word")
    for one in answer.nearest:
        seen = ["" if one.count is None else f"{one.count:,}"] * counted
        made.add_row(f"{one.cosine:.3f}", *seen, printable_cell(one.word))
    return made


def _neighbours_draw(console: Console, facts: dict[str, Any], answers: list[SentenceNeighbors | WordNeighbors]) -> None:
    from forebear.embeddings.lexicon import WordNeighbors

    for answer in answers:
        note = answer.note if isinstance(answer, WordNeighbors) else ""
        console.print(
            f"[bold]{printable_cell(answer.text)}[/]" + (f"  ({printable_cell(note)})" if note else ""), soft_wrap=True
        )
        if answer.nearest:
            console.print(_table(answer))
    if "out" in facts:
        some = f"{facts['texts'] - facts['unanswered']:,} of " if "unanswered" in facts else ""
        console.print(
            f"neighbours of {some}{count_phrase(facts['texts'], 'text')}: {facts['out']}", markup=False, soft_wrap=True
        )
    if "recall" in facts:
        console.print(f"the index finds {facts['recall']:.1%} of the nearest, measured against exact search")
