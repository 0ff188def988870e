"""`forebear tokenizer train`, `tokenizer show` and `tokenize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from rich.markup import escape

from forebear.cli.batch_io import STDIN_PATH
from forebear.cli.options import ReadingOptions, TextFiles, TokenizerOptions, segmenter_for
from forebear.cli.output import Console, Output, Switch, Table
from forebear.data.source import TokenizerKind
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer

LowerCased = Annotated[
    bool | None,
    Parameter(help="For a bare vocabulary: whether it is meant for lower-cased text. [default: seen from its entries]"),
]
HELP = "Train a tokenizer on your text, or look into one."
tokenizer_app = App(name="tokenizer", help=HELP, result_action="return_value")


@tokenizer_app.command
def train(
    texts: TextFiles,
    /,
    *,
    to: Path,
    kind: TokenizerKind = "wordpiece",
    user_dict: Path | None = None,
    overwrite: Switch = False,
    reading: ReadingOptions = ReadingOptions(),
    tokenizer_options: TokenizerOptions = TokenizerOptions(),
    output: Output = Output(),
) -> None:
    """Train a tokenizer on your text and save it as one tokenizer.json, which Hugging Face's tools read too.

    ```
    forebear tokenizer train book.txt --kind wordpiece --size 8000 --to tokenizer.json
    forebear tokenizer train news/ --kind words --user-dict names.txt --to words.json
    ```

    Parameters
    ----------
    to
        The file to write.
    kind
        words, characters, wordpiece (BERT's) or bytepair (GPT-2's).
    user_dict
        Words: your own Chinese words, a line each: word [frequency] [tag].
    overwrite
        Replace the file if it exists.
    """
    from forebear.data.io.atomic import explain_disk_errors
    from forebear.data.source import train_on_files

    if user_dict is not None and kind != "words":
        raise InputError(f"--user-dict has no effect on {kind}", hint="leave it out, or choose --kind words")
    if to.is_dir() or (to.exists() and not overwrite):
        raise InputError("exists already", file=to, hint="add --overwrite, or choose another file with --to")
    if not to.parent.is_dir():
        raise InputError("the folder of this file does not exist", file=to, hint=f"mkdir -p {to.parent}")
    segmenter = segmenter_for(False, user_dict)
    with output.progress("learning the tokenizer") as progress:
        trained_tokenizer, _ = train_on_files(
            kind, texts, reading.text_format(), tokenizer_options.training_options(), segmenter, progress
        )
    with explain_disk_errors(to):
        trained_tokenizer.save(to)
    result = {"file": str(to), **trained_tokenizer.describe()}
    output.emit(result, lambda console: _print_tokenizer(console, trained_tokenizer, str(to), 0))


@tokenizer_app.command
def show(file: Path, /, *, top: int = 20, lower: LowerCased = None, output: Output = Output()) -> None:
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
    """
    from forebear.data.tokenizers.tokenizer import Tokenizer

    loaded_tokenizer = Tokenizer.load(file, lower=lower)
    tokens = loaded_tokenizer.vocabulary()[:top]
    result: dict[str, Any] = {"file": str(file), **loaded_tokenizer.describe(), "tokens": tokens}
    output.emit(result, lambda console: _print_tokenizer(console, loaded_tokenizer, str(file), top))


def _print_tokenizer(console: Console, tokenizer: Tokenizer, file: str, top: int) -> None:
    rows = Table("", "", title=escape(file))
    for name, value in tokenizer.describe().items():
        if name == "roles":
            value = ", ".join(f"{role} {entry['token']} ({entry['id']})" for role, entry in value.items())
        elif isinstance(value, dict):
            value = ", ".join(f"{key} {entry}" for key, entry in value.items() if entry is not None)
        rows.add_row(name, str(value))
    console.print(rows)
    if top:
        regular_tokens = [token for i, token in enumerate(tokenizer.vocabulary()) if i not in tokenizer.special_ids]
        console.print("first: " + escape("  ".join(map(repr, regular_tokens[:top]))))
        console.print("last:  " + escape("  ".join(map(repr, regular_tokens[-top:]))))


def tokenize(
    texts: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    tokenizer: Path,
    input_file: Annotated[Path | None, Parameter(name="--in")] = None,
    specials: Switch = False,
    lower: LowerCased = None,
    spaced: Switch = False,
    output: Output = Output(),
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
    spaced
        Write the tokens alone, a line a text, with a space between: what programs for n-grams, such as KenLM with an
        ARPA file of the run, take for words. What the vocabulary lacks stays as it is written.
    """
    from forebear.data.tokenizers.tokenizer import Tokenizer

    all_texts = [text for text in texts or () if text != STDIN_PATH]
    if input_file is None and STDIN_PATH in (texts or ()):
        input_file = Path(STDIN_PATH)
    if input_file is not None:
        from forebear.data.io.sources import find_sources
        from forebear.data.io.text_formats import TextFormat
        from forebear.data.io.text_ledger import Ledger

        line_format = TextFormat(documents="lines", format="text")
        all_texts += [line.text for line in line_format.documents_in(find_sources([input_file]), Ledger())]
    if not all_texts:
        raise InputError("there is no text to cut", hint='forebear tokenize "some text" --tokenizer FILE, or --in FILE')
    loaded_tokenizer = Tokenizer.load(tokenizer, lower=lower)
    encodings = ((text, loaded_tokenizer.encode(text, specials=specials)) for text in all_texts)
    result: dict[str, Any] = {"tokenizer": loaded_tokenizer.describe()}
    if spaced:
        lines = [_join_tokens(text, encoding, loaded_tokenizer) for text, encoding in encodings]
        result["texts"] = lines
        output.emit(result, lambda console: print("\n".join(lines)))  # noqa: T201 - lines must not be wrapped
        return
    records = []
    for text, encoding in encodings:
        rows = zip(encoding.texts, encoding.ids.tolist(), encoding.spans, strict=True)
        pieces = [{"token": token, "id": i, "start": a, "end": b, "original": text[a:b]} for token, i, (a, b) in rows]
        records.append({"text": text, "pieces": pieces})
    result["texts"] = records

    def draw(console: Console) -> None:
        unknown = loaded_tokenizer.unk_id
        for record in records:
            table = Table("piece", ">id", ">start", ">end", "original")
            for piece in record["pieces"]:
                table.add_row(*map(str, piece.values()), style="red" if piece["id"] == unknown else "")
            console.print(table)
            num_unknown = sum(piece["id"] == unknown for piece in record["pieces"])
            unknown_note = f", {num_unknown} unknown" if num_unknown else ""
            size = f"{len(record['pieces'])} tokens for {len(record['text'])} characters{unknown_note}"
            console.print(f"{size} ({loaded_tokenizer.kind}, {loaded_tokenizer.vocab_size:,} entries)")

    output.emit(result, draw)


def _join_tokens(text: str, encoding: TokenEncoding, tokenizer: Tokenizer) -> str:
    """The tokens separated by spaces; unknown ones as in the text."""
    rows = zip(encoding.texts, encoding.ids.tolist(), encoding.spans, strict=True)
    return " ".join("".join(text[a:b].split()) if i == tokenizer.unk_id else token for token, i, (a, b) in rows)
