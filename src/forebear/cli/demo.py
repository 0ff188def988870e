"""`forebear demo`: the whole way, once, on text that comes with forebear."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.printing import Speaking, ledger_table, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.corpus import Corpus

SENTENCE = "The match statement is used for pattern matching. 语言模型猜下一个字是什么。"


def demo(*, to: Path | None = None, speaking: Speaking = Speaking()) -> None:
    """Try the whole way on text that comes with forebear: read, learn a tokenizer, prepare a corpus, look at it.

    ```
    forebear demo
    forebear demo --to demo --json
    ```

    Parameters
    ----------
    to
        A folder for the texts and the corpus, so that you can go on with them. [default: a temporary one, removed]
    """
    if to is not None:
        to.mkdir(parents=True, exist_ok=True)
        _run(to, speaking, kept=True)
    else:
        with tempfile.TemporaryDirectory(prefix="forebear-demo-") as folder:
            _run(Path(folder), speaking, kept=False)


def write_texts(folder: Path) -> list[Path]:
    """The embedded texts as files: English prose from Python's manual, Chinese prose of our own."""
    from forebear.demo import manual, stories

    paths = []
    for name, documents in (("manual.txt", manual.documents()), ("stories.txt", stories.documents())):
        paths.append(folder / name)
        paths[-1].write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return paths


def _run(folder: Path, speaking: Speaking, *, kept: bool) -> None:
    from forebear.text.choosing import Learning, learn
    from forebear.text.preparing import prepare
    from forebear.text.reading import Reading
    from forebear.text.segmentation import Segmenter

    paths = write_texts(folder)
    tokenizer = learn("wordpiece", paths, Reading(), Learning(size=8000))
    corpus = prepare(paths, tokenizer, sentences="flow", segmenter=Segmenter(), to=folder / "corpus", overwrite=True)
    split = corpus.split()
    facts = {
        "folder": str(folder) if kept else None,
        "counts": corpus.facts["counts"],
        "train": len(split.train),
        "held_out": len(split.held_out),
        "pieces": tokenizer.encode(SENTENCE).texts,
        "ledger": corpus.ledger.to_json(),
    }
    speaking.tell(facts, lambda console: _draw(console, corpus, facts, folder if kept else None))


def _draw(console: Console, corpus: Corpus, facts: dict[str, Any], folder: Path | None) -> None:
    from rich.markup import escape

    counts = facts["counts"]
    console.print("[bold]1. Text[/] in English and Chinese: Python's own manual, and stories of a small town.")
    console.print(
        f"[bold]2. A tokenizer[/] learned from it: {corpus.tokenizer.kind}, {corpus.tokenizer.size:,} entries."
    )
    console.print(f"   {escape(SENTENCE)}\n   → {escape(' '.join(facts['pieces']))}", soft_wrap=True)
    console.print("[bold]3. A corpus[/] on disk, and the proof that nothing was lost:")
    console.print(ledger_table(corpus.ledger))
    console.print(
        f"[bold]4. A split[/] by what documents say: {facts['train']:,} to learn from, {facts['held_out']:,} held out;"
        f" {counts['tokens']:,} tokens in all."
    )
    console.print(f"[bold]5. Words[/] for whole-word masking: {escape(_words(corpus))}", soft_wrap=True)
    place = folder or Path("demo")
    made = table("try next", "")
    if folder is None:
        made.add_row(". .venv/bin/activate", "puts the forebear command on your path")
        made.add_row("forebear demo --to demo", "the same, keeping its files to go on with")
    for command, what in (
        (f"forebear corpus {place}/stories.txt", "what is in a text, and what is wrong with it"),
        (f"forebear prepare {place}/manual.txt --tokenizer bytepair", "another way of cutting it"),
        (f'forebear tokenize "北京的天气" --tokenizer {place}/corpus', "piece by piece, with offsets"),
    ):
        made.add_row(escape(command), what)
    console.print(made)


def _words(corpus: Corpus) -> str:
    """The first words of the corpus's last document, as the segmentation sees them."""
    import numpy as np

    start = int(corpus.sentences[corpus.documents[-2]])
    end = min(start + 40, len(corpus))
    begins = np.flatnonzero(corpus.word_starts(start, end))
    words = np.split(np.asarray(corpus.ids[start:end]), begins[1:])
    return " | ".join(corpus.tokenizer.decode(word).replace(" ", "") for word in words[:-1])
