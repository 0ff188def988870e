"""`forebear tokenizer train` and `forebear tokenizer show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from forebear.cli.learning import LearningOptions, segmenter_of
from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions, Texts
from forebear.errors import BadInput
from forebear.text.choosing import Kind

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.tokenizer import Tokenizer

tokenizer = App(
    name="tokenizer", help="Train a tokenizer on your text, or look into one.", result_action="return_value"
)


@tokenizer.command
def train(
    texts: Texts,
    /,
    *,
    to: Path,
    kind: Kind = "wordpiece",
    user_dict: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    reading: ReadingOptions = ReadingOptions(),
    learning: LearningOptions = LearningOptions(),
    speaking: Speaking = Speaking(),
) -> None:
    """Train a tokenizer on your text and save it as one tokenizer.json, which Hugging Face's tools read too.

    ```
    forebear tokenizer train book.txt --kind wordpiece --size 8000 --to tokenizer.json
    forebear tokenizer train news/ --kind words --user-dict names.txt --to words.json
    ```

    Parameters
    ----------
    texts
        Text files (also .gz, .zst), folders, quoted globs, or - for standard input.
    to
        The file to write.
    kind
        words, characters, wordpiece (BERT's) or bytepair (GPT-2's).
    user_dict
        Words: your own Chinese words, a line each: word [frequency] [tag].
    overwrite
        Replace the file if it exists.
    """
    from forebear.text.aside import disk_told
    from forebear.text.choosing import learn

    if user_dict is not None and kind != "words":
        raise BadInput(f"--user-dict has no effect on {kind}", remedy="leave it out, or choose --kind words")
    if to.is_dir() or (to.exists() and not overwrite):
        raise BadInput("exists already", file=to, remedy="add --overwrite, or choose another file with --to")
    if not to.parent.is_dir():
        raise BadInput("the folder of this file does not exist", file=to, remedy=f"mkdir -p {to.parent}")
    with speaking.progress("learning the tokenizer") as progress:
        made = learn(kind, texts, reading.reading(), learning.learning(), segmenter_of(False, user_dict), progress)
    with disk_told(to):
        made.save(to)
    speaking.tell({"file": str(to), **made.describe()}, lambda console: _draw(console, made, str(to), 0))


@tokenizer.command
def show(
    file: Path,
    /,
    *,
    top: int = 20,
    lower: bool | None = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Look into a tokenizer: what kind it is, its special tokens, its first and last entries.

    ```
    forebear tokenizer show tokenizer.json
    forebear tokenizer show bert-base-chinese-vocab.txt --top 100 --json
    ```

    Parameters
    ----------
    file
        A tokenizer.json, a vocab.txt, GPT-2's encoder.json, or the folder of one of them.
    top
        How many entries to show.
    lower
        For a bare vocabulary: whether it is meant for lower-cased text. [default: seen from its entries]
    """
    from forebear.text.tokenizer import Tokenizer

    made = Tokenizer.load(file, lower=lower)
    facts: dict[str, Any] = {"file": str(file), **made.describe(), "tokens": made.tokens()[:top]}
    speaking.tell(facts, lambda console: _draw(console, made, str(file), top))


def _draw(console: Console, made: Tokenizer, file: str, top: int) -> None:
    from rich.markup import escape

    facts = table("", "", title=escape(file))
    for name, value in made.describe().items():
        if name == "roles":
            value = ", ".join(f"{role} {it['token']} ({it['id']})" for role, it in value.items())
        elif isinstance(value, dict):
            value = ", ".join(f"{key} {it}" for key, it in value.items() if it is not None)
        facts.add_row(name, escape(str(value)))
    console.print(facts)
    if top:
        ordinary = [token for i, token in enumerate(made.tokens()) if i not in made.specials]
        console.print("first: " + escape("  ".join(map(repr, ordinary[:top]))))
        console.print("last:  " + escape("  ".join(map(repr, ordinary[-top:]))))
