"""`forebear tokenize`: how a tokenizer cuts a text, piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.printing import Speaking, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.tokenizer import Pieces, Tokenizer

STDIN = "/dev/stdin"  # what the front door makes of a lone -


def tokenize(
    texts: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    tokenizer: Path,
    input_file: Annotated[Path | None, Parameter(name="--in")] = None,
    specials: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    lower: bool | None = None,
    spaced: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    speaking: Speaking = Speaking(),
) -> None:
    """Show how a tokenizer cuts a text, piece by piece, with offsets into the original.

    ```
    forebear tokenize "我很喜欢你" --tokenizer corpora/book/tokenizer.json
    forebear tokenize "the [MASK] sat" --tokenizer bert-base-uncased-vocab.txt --specials --json
    forebear tokenize --in test.txt --tokenizer runs/ngram --spaced > test.cut
    ```

    Parameters
    ----------
    texts
        What to cut, each argument by itself; - for the lines of standard input.
    tokenizer
        A tokenizer.json, a vocab.txt, GPT-2's encoder.json, or the folder of one of them, such as a run.
    input_file
        A file whose lines are cut one by one, after the texts.
    specials
        Take special tokens written in the text, such as [MASK], for what they are.
    lower
        For a bare vocabulary: whether it is meant for lower-cased text. [default: seen from its entries]
    spaced
        Write the tokens alone, a line a text, with a space between: what programs for n-grams, such as KenLM with an
        ARPA file of the run, take for words. What the vocabulary lacks stays as it is written.
    """
    from forebear.text.tokenizer import Tokenizer

    given = [text for text in texts or () if text != STDIN]
    if input_file is None and STDIN in (texts or ()):
        input_file = Path(STDIN)
    if input_file is not None:
        from forebear.text.ledger import Ledger
        from forebear.text.reading import Reading
        from forebear.text.sources import find

        given += [
            document.text for document in Reading(documents="lines", format="text").read(find([input_file]), Ledger())
        ]
    if not given:
        raise BadInput("there is no text to cut", remedy='forebear tokenize "some text" --tokenizer FILE, or --in FILE')
    chosen = Tokenizer.load(tokenizer, lower=lower)
    cut = [(text, chosen.encode(text, specials=specials)) for text in given]
    if spaced:
        lines = [_spaced(text, pieces, chosen) for text, pieces in cut]
        facts = {"tokenizer": chosen.describe(), "texts": lines}
        speaking.tell(facts, lambda console: print("\n".join(lines)))  # noqa: T201 - no line may be folded
        return
    speaking.tell(
        {"tokenizer": chosen.describe(), "texts": [_facts(text, pieces) for text, pieces in cut]},
        lambda console: [_draw(console, text, pieces, chosen) for text, pieces in cut],
    )


def _spaced(text: str, pieces: Pieces, tokenizer: Tokenizer) -> str:
    """Its tokens with a space between; those that are unknown as they are written."""
    rows = zip(pieces.texts, pieces.ids.tolist(), pieces.spans, strict=True)
    return " ".join("".join(text[a:b].split()) if i == tokenizer.unknown else token for token, i, (a, b) in rows)


def _facts(text: str, pieces: Pieces) -> dict[str, Any]:
    rows = zip(pieces.texts, pieces.ids.tolist(), pieces.spans, strict=True)
    return {
        "text": text,
        "pieces": [{"token": token, "id": i, "start": a, "end": b, "original": text[a:b]} for token, i, (a, b) in rows],
    }


def _draw(console: Console, text: str, pieces: Pieces, tokenizer: Tokenizer) -> None:
    made = table("piece", ">id", ">start", ">end", "original")
    for token, i, (start, end) in zip(pieces.texts, pieces.ids.tolist(), pieces.spans, strict=True):
        made.add_row(
            _plain(token),
            str(i),
            str(start),
            str(end),
            _plain(text[start:end]),
            style="red" if i == tokenizer.unknown else "",
        )
    console.print(made)
    unknown = int((pieces.ids == tokenizer.unknown).sum()) if tokenizer.unknown is not None else 0
    told = f", {unknown} unknown" if unknown else ""
    console.print(
        f"{len(pieces.ids)} tokens for {len(text)} characters{told} ({tokenizer.kind}, {tokenizer.size:,} entries)"
    )


def _plain(text: str) -> str:
    """The text as it may be shown in a cell: white space and controls by their escapes, brackets not as markup."""
    from rich.markup import escape

    return escape(text if text.isprintable() else repr(text)[1:-1])
