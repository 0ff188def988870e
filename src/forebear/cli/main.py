"""The command line's front door: finds the command, runs it, and turns every failure into words and an exit code."""

from __future__ import annotations

import difflib
import importlib
import json
import os
import sys
from collections.abc import Sequence

import cyclopts

from forebear import __version__
from forebear.errors import BadInput, ForebearError

# Each command lives in its own file, imported only when it is called, so that `--help` costs nothing.
COMMANDS = {
    "demo": "Try the whole way on text that comes with forebear.",
    "corpus": "Examine text: what it is, what is wrong with it, what would be dropped; and clean it.",
    "prepare": "Turn text into a corpus: token ids on disk, with a ledger that shows nothing was lost.",
    "tokenize": "Show how a tokenizer cuts a text, piece by piece, with offsets.",
    "tokenizer": "Train a tokenizer on your text, or look into one.",
}
ABOUT = """Every milestone of pre-trained language models, on your own text, Chinese or English.

Every command takes --json (one JSON document on stdout), --quiet, --config FILE.toml and --help.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 done, 1 failed, 2 bad use or bad input, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        tokens, config = _config(["/dev/stdin" if token == "-" else token for token in given])
        return _app(_command(tokens), config)(tokens, exit_on_error=False, print_error=False) or 0
    except cyclopts.CycloptsError as error:
        return _fail(BadInput(str(error).strip(), remedy=f"see: forebear {given[0]} --help"), given)
    except ForebearError as error:
        return _fail(error, given)
    except KeyboardInterrupt:
        print("forebear: interrupted; what was finished is kept, the same command goes on", file=sys.stderr)  # noqa: T201
        return 130
    except BrokenPipeError:  # the reader of our output went away (forebear … | head): not our failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _app(command: str | None, config: str | None) -> cyclopts.App:
    """The application: the command that is called, whole, and the others by name only."""
    made = cyclopts.App(name="forebear", help=ABOUT, version=__version__, result_action="return_value")
    made.suppress_keyboard_interrupt = False  # ours to tell, see main
    if config is not None:
        made.config = cyclopts.config.Toml(config, must_exist=True, search_parents=False)
    for name, about in COMMANDS.items():
        place = f"forebear.cli.{name}"
        if name == command:
            made.command(getattr(importlib.import_module(place), name), name=name)
        else:
            made.command(f"{place}:{name}", name=name, help=about)
    return made


def _command(tokens: Sequence[str]) -> str | None:
    """The command's name; one that does not exist is refused with the nearest that does."""
    if not tokens or tokens[0].startswith("-"):
        return None
    if tokens[0] not in COMMANDS:
        near = difflib.get_close_matches(tokens[0], COMMANDS, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"there are: {', '.join(COMMANDS)}"
        raise BadInput(f"no command named {tokens[0]!r}", remedy=remedy)
    return tokens[0]


def _config(tokens: list[str]) -> tuple[list[str], str | None]:
    """Takes `--config FILE` out of the arguments: a file of defaults, one table a command; flags win over it."""
    if "--config" not in tokens:
        return tokens, None
    import tomllib

    at = tokens.index("--config")
    if at + 1 == len(tokens):
        raise BadInput("--config needs a file", remedy="--config FILE.toml")
    file = tokens[at + 1]
    try:
        with open(file, "rb") as opened:
            tomllib.load(opened)
    except OSError as error:
        raise BadInput(error.strerror or str(error), file=file, remedy="give the path of a TOML file") from error
    except ValueError as error:
        raise BadInput(
            f"not TOML: {error}",
            file=file,
            remedy="write a table for each command: [corpus], and below it documents = 'lines'",
        ) from error
    return tokens[:at] + tokens[at + 2 :], file


def _fail(error: ForebearError, tokens: Sequence[str]) -> int:
    print(f"forebear: {error}", file=sys.stderr)  # noqa: T201
    if "--json" in tokens:
        facts = {"what": error.what, "file": error.file, "line": error.line, "byte": error.byte, "remedy": error.remedy}
        print(json.dumps({"error": facts}, ensure_ascii=False))  # noqa: T201
    return error.exit_code


def run() -> None:
    """What the installed `forebear` command calls."""
    sys.exit(main())
