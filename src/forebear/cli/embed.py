"""`forebear embed`: vectors of texts and of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import ONE, Given, Line, ManyOptions, brief, grouped, located, opened, plain
from forebear.cli.printing import Speaking, counted, table
from forebear.errors import BadInput
from forebear.using.vectors import AnyPooling, Long

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from forebear.using.run import Run
    from forebear.using.vectors import Embedded

ARRAYS = (".npy", ".safetensors")
TOGETHER = 2048  # texts that are sorted by length and read at once
SHOWN = 12  # texts or words whose cosines fit into a table
NAMED = 10  # lines without a word that are told one by one


def embed(
    run: Path,
    texts: Given = None,
    /,
    *,
    layers: str | None = None,
    pooling: AnyPooling = "mean",
    words: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    long: Long | None = None,
    normalise: bool = True,
    compiled: Annotated[bool, Parameter(name="--compile", negative="", show_default=False)] = False,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
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
    from forebear.using.embedding import settled
    from forebear.using.vectors import layers_from
    from forebear.using.words import is_table

    output = many.output_file
    as_array = _is_array(output, words)
    using = opened(run, "embed", speaking)
    chosen = None if layers is None else layers_from(layers)
    zeros = is_table(using) and many.reads_lines(texts)
    how = settled(using, layers=chosen, pooling=pooling, long=long, normalise=normalise, zeros=zeros)
    if compiled:
        _compile(using)
    total, texts_told, nothing = many.count(texts, blank=zeros), Counter[str](), list[int]()
    with speaking.counting("texts") as progress:

        def tell(cut: Sequence[int], read: Sequence[int]) -> None:
            nothing.extend(texts_told["texts"] + number for number, tokens in enumerate(read, 1) if not tokens)
            texts_told.update(texts=len(cut), cut=sum(cut))
            progress(texts_told["texts"], total)

        if as_array:
            assert output is not None
            _save(using, output, many.lines(texts), how, tell)
            answers = []
        else:

            def ask(group: list[str]) -> list[Embedded]:
                made = using.embed(group, words=words, **how)
                tell([one.cut for one in made], [one.tokens for one in made])
                return made

            answers = many.answer(many.lines(texts), ask, lambda answer: answer.facts(), TOGETHER)
    if not (count := texts_told["texts"]):
        raise BadInput("there is no text to embed", remedy='forebear embed RUN "some text", or --in FILE')
    facts: dict[str, Any] = {"run": using.name, "texts": count, "cut": texts_told["cut"], "out": str(output)}
    if output is None:
        facts = {"run": using.name, "texts": [answer.facts() for answer in answers]}
    if zeros:
        facts["zeros"] = nothing
    if long_words := _too_long(using):
        facts["long_words"] = long_words
    speaking.tell(facts, lambda console: _draw(console, facts, answers, nothing))


def _too_long(run: Run) -> list[str]:
    """Of a run that reads words by their letters: those that came and are longer than it reads."""
    from forebear.using.words import is_table

    embedding = None if is_table(run) else run.model.encoder.embedding
    spelling = None if embedding is None else embedding.spelling
    return [] if spelling is None else spelling.longer()


def _is_array(output: Path | None, words: bool) -> bool:
    """Whether the answers are an array; what cannot be one is refused."""
    as_array = output is not None and output.suffix in ARRAYS
    if as_array and words:
        raise BadInput("--words gives texts different numbers of vectors", remedy="write them to a .jsonl file")
    if output is not None and Path(output.stem).suffix in ARRAYS and output.suffix in (".gz", ".zst"):
        remedy = "leave .gz or .zst out of the name"
        raise BadInput(f"{output}: files of vectors are read where they lie", remedy=remedy)
    return as_array


def _compile(run: Run) -> None:
    from forebear.using.words import is_table

    if is_table(run):
        what = "--compile is for networks, and this is a table of words"
        raise BadInput(what, file=run.folder.path, remedy="leave it out")
    from forebear.networks.compiling import compile_blocks

    compile_blocks(run.network)


def _save(run: Run, file: Path, lines: Iterable[Line], how: dict[str, Any], tell: Callable[..., object]) -> None:
    """All vectors in a file, a group of texts at a time."""
    import json

    from forebear.training.checkpoint import digest
    from forebear.using.embedding import matrix_of
    from forebear.using.vector_files import write_vectors

    def groups() -> Iterator[np.ndarray]:
        count = 0
        for group in grouped(lines, TOGETHER):
            made = located(group, lambda texts: matrix_of(run, texts, **how))
            tell(made.cut.tolist(), made.tokens.tolist())
            count += len(group)
            yield made.vectors
        if not count:
            raise BadInput("there is no text to embed", remedy='forebear embed RUN "some text", or --in FILE')

    facts = {"run": run.name, "weights": digest(run.folder.weights()[0]), "how": json.dumps(how)}
    write_vectors(file, groups(), facts)


def _draw(console: Console, facts: dict[str, Any], answers: list[Embedded], nothing: list[int]) -> None:
    if "out" in facts:
        lost = f", {facts['cut']:,} token{'s' * (facts['cut'] != 1)} left away" if facts["cut"] else ""
        console.print(f"vectors of {counted(facts['texts'], 'text')}{lost}: {facts['out']}", markup=False)
    else:
        _draw_cosines(console, answers)
    if nothing:
        named = ", ".join(f"{number:,}" for number in nothing[:NAMED]) + ", …" * (len(nothing) > NAMED)
        told = "1 line has" if len(nothing) == 1 else f"{len(nothing):,} lines have"
        console.print(f"{told} no word with a vector, and zeros: {named}", style="yellow", soft_wrap=True)
    if long_words := facts.get("long_words"):
        told = "1 word is" if len(long_words) == 1 else f"{len(long_words):,} words are"
        shown = f"{told} longer than the run reads, and read as far as that: {brief(long_words[0])}"
        console.print(shown, style="yellow", soft_wrap=True)


def _draw_cosines(console: Console, answers: list[Embedded]) -> None:
    import numpy as np

    words = [(word.text, word.vector) for answer in answers for word in answer.words or ()]
    named = words or [(answer.text, answer.vector) for answer in answers]
    for answer in answers:
        told = f"{len(answer.vector):,} numbers from {answer.tokens:,} tokens"
        console.print(f"{brief(answer.text)}: {told}" + (f", {answer.cut:,} left away" if answer.cut else ""))
    named = named[:SHOWN]
    if len(named) < 2:
        console.print("(--json or --out has the numbers)", style="dim")
        return
    units = np.stack([vector / max(float(np.linalg.norm(vector)), 1e-12) for _, vector in named])
    made = table("cosine", *(f">{at}" for at in range(1, len(named) + 1)))
    for at, ((text, _), row) in enumerate(zip(named, units @ units.T, strict=True), 1):
        made.add_row(f"{at} {plain(text[:40])}", *(f"{value:.3f}" for value in row))
    console.print(made)
