"""Entry point of the command line: finds and runs the command; turns errors into messages and exit codes."""

from __future__ import annotations

import difflib
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence

import cyclopts

from forebear._version import __version__
from forebear.cli.output import make_console
from forebear.errors import ForebearError, InputError, UserInterrupt

# The module of a command is imported only when it is called, so that --help is fast.
COMMANDS = {
    "lineage": "The table of contents: every milestone, in the order history made them.",
    "explain": "A milestone: the paper, what it predicts and by what, its sizes and what they cost.",
    "preview": "What a milestone would see of your text, and what it would have to predict.",
    "pretrain": "Train a milestone on your text.",
    "adapt": "Teach a run a task from your labelled examples.",
    "distil": "Teach a smaller run what a larger one knows.",
    "quantise": "A run of small integers: a quarter as large, faster, with its price measured.",
    "classify": "What a text, or a pair of texts, is.",
    "tag": "Names and other parts of a text, word by word.",
    "answer": "Where in a passage the answer to a question stands.",
    "choose": "Which of several continuations or answers is right.",
    "translate": "Texts in another language.",
    "score": "How probable a run finds sentences, in all and token by token.",
    "next": "What a run expects next, or in a blank (____).",
    "generate": "Let a run write on.",
    "fill": "What a run finds in the blanks (____, [MASK]) of a text.",
    "ask": "Ask a run what it was never trained for, by a prompt alone: labels, choices, blanks, summaries.",
    "embed": "Vectors of texts and words, from any layer of a run.",
    "neighbours": "The words nearest to a word, or the sentences of a file nearest to a text.",
    "similarity": "How alike two words or texts are.",
    "odd-one-out": "Which of some words or texts is least like the others.",
    "analogy": "What is to one word as another is to a third.",
    "measure": "How well a run predicts a text (bits per byte, perplexity), or knows words.",
    "compare": "Every milestone on the same text, or on your labels, with the same budget: one table, one page.",
    "inspect": "Look inside a run: why it says something, where it looks, how a prediction forms.",
    "runs": "The runs in a folder.",
    "rerun": "Make a finished run again, step by step.",
    "import": "A run from another program's files.",
    "export": "A run as files that other programs read.",
    "demo": "Try the whole way on text that comes with forebear.",
    "corpus": "Examine text: what it is, what is wrong with it, what would be dropped; and clean it.",
    "prepare": "Turn text into a corpus: token ids on disk, with a ledger that shows nothing was lost.",
    "tokenize": "Show how a tokenizer cuts a text, piece by piece, with offsets.",
    "tokenizer": "Train a tokenizer on your text, or look into one.",
}
COMMAND_FUNCTIONS = {  # module and function of each command
    "lineage": "forebear.cli.explain:lineage",
    "explain": "forebear.cli.explain:explain",
    "preview": "forebear.cli.preview:preview",
    "pretrain": "forebear.cli.pretrain:pretrain",
    "adapt": "forebear.cli.adapt:adapt",
    "distil": "forebear.cli.distill:distil",
    "quantise": "forebear.cli.quantize:quantise",
    "classify": "forebear.cli.predict:classify",
    "tag": "forebear.cli.predict:tag",
    "answer": "forebear.cli.predict:answer",
    "choose": "forebear.cli.predict:choose",
    "translate": "forebear.cli.generate:translate",
    "score": "forebear.cli.score:score",
    "next": "forebear.cli.next:next",
    "generate": "forebear.cli.generate:generate",
    "fill": "forebear.cli.fill:fill",
    "ask": "forebear.cli.prompt:ask",
    "embed": "forebear.cli.embed:embed",
    "neighbours": "forebear.cli.embed:neighbours",
    "similarity": "forebear.cli.words:similarity",
    "odd-one-out": "forebear.cli.words:odd_one_out",
    "analogy": "forebear.cli.words:analogy",
    "measure": "forebear.cli.measure:measure",
    "compare": "forebear.cli.compare:compare",
    "inspect": "forebear.cli.inspect:inspect",
    "runs": "forebear.cli.runs:runs",
    "rerun": "forebear.cli.runs:rerun",
    "import": "forebear.cli.exchange:import_command",
    "export": "forebear.cli.exchange:export_command",
    "demo": "forebear.cli.demo:demo",
    "corpus": "forebear.cli.corpus:corpus",
    "prepare": "forebear.cli.corpus:prepare",
    "tokenize": "forebear.cli.tokenizer:tokenize",
    "tokenizer": "forebear.cli.tokenizer:tokenizer",
}
COMMANDS_WITH_MODEL_OPTIONS = (
    "preview",
    "pretrain",
    "explain",
    "distil",
)  # commands that take the fields of milestones as options
ABOUT = """Every milestone of pre-trained language models, on your own text, Chinese or English.

Every command takes --json (one JSON document on stdout), --quiet, --config FILE.toml and --help.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 success, 1 failure, 2 usage or input error, 130 interrupted."""
    tokens_given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        tokens, config = _split_config_option(["/dev/stdin" if token == "-" else token for token in tokens_given])
        return _app(_command(tokens), config)(_complete_switches(tokens), exit_on_error=False, print_error=False) or 0
    except cyclopts.CycloptsError as error:
        command = f"{tokens_given[0]} " if tokens_given and tokens_given[0] in COMMANDS else ""
        return _fail(InputError(str(error).strip(), hint=f"see: forebear {command}--help"), tokens_given)
    except ForebearError as error:
        return _fail(error, tokens_given)
    except KeyboardInterrupt:
        return _fail(UserInterrupt("interrupted; what was finished is kept, the same command goes on"), tokens_given)
    except BrokenPipeError:
        raise
    except OSError as error:
        file = error.filename if isinstance(error.filename, str) else None
        return _fail(
            ForebearError(error.strerror or str(error), file=file, hint="look at the place named"), tokens_given
        )
    except MemoryError:
        return _fail(ForebearError("out of memory", hint="fewer --workers, or a larger machine"), tokens_given)
    except Exception as error:
        if os.environ.get("FOREBEAR_TRACEBACK"):
            raise
        hint = "this is a defect of forebear: please report it, with what FOREBEAR_TRACEBACK=1 prints"
        return _fail(ForebearError(f"{type(error).__name__}: {error}", hint=hint), tokens_given)


def _app(command: str | None, config: str | None) -> cyclopts.App:
    """The application: the called command is imported, the others are listed by name."""
    app = cyclopts.App(name="forebear", help=ABOUT, version=__version__, result_action="return_value")
    app.suppress_keyboard_interrupt = False  # reported in main
    app.console = make_console(wide=False)
    if config is not None:
        app.config = cyclopts.config.Toml(config, must_exist=True, search_parents=False)
    for name, summary in COMMANDS.items():
        module, _, function = COMMAND_FUNCTIONS[name].partition(":")
        if name == command:
            app.command(getattr(importlib.import_module(module), function), name=name)
        else:
            app.command(COMMAND_FUNCTIONS[name], name=name, help=summary)
    return app


def _complete_switches(tokens: list[str]) -> list[str]:
    """Adds the value `true` to Boolean model options without a value: --whole-words is --whole-words true."""
    if tokens[:1] not in ([name] for name in COMMANDS_WITH_MODEL_OPTIONS):
        return tokens
    switches, values = _switches(), ("true", "false", "yes", "no", "1", "0")
    completed: list[str] = []
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        completed.append(token)
        if token in switches and following not in values:
            completed.append("true")
    return completed


def _switches() -> set[str]:
    from dataclasses import fields

    from forebear.registry import LINEAGE, model_spec

    switches = (field for name in LINEAGE for field in fields(model_spec(name)) if str(field.type) == "bool")
    return {f"--{field.name.replace('_', '-')}" for field in switches}


def _command(tokens: Sequence[str]) -> str | None:
    """The command's name; an unknown one is an error with a suggestion."""
    if not tokens or tokens[0].startswith("-"):
        return None
    if tokens[0] not in COMMANDS:
        matches = difflib.get_close_matches(tokens[0], COMMANDS, n=1)
        hint = f"did you mean {matches[0]}?" if matches else f"there are: {', '.join(COMMANDS)}"
        raise InputError(f"no command named {tokens[0]!r}", hint=hint)
    return tokens[0]


def _split_config_option(tokens: list[str]) -> tuple[list[str], str | None]:
    """Splits `--config FILE` off the arguments: a file of defaults with a table per command."""
    tokens = [
        piece for token in tokens for piece in (token.split("=", 1) if token.startswith("--config=") else [token])
    ]
    if "--config" not in tokens:
        return tokens, None
    from forebear.training.settings import read_toml

    position = tokens.index("--config")
    if position + 1 == len(tokens):
        raise InputError("--config needs a file", hint="--config FILE.toml")
    file = tokens[position + 1]
    example = "write a table for each command: [corpus], and below it documents = 'lines'"
    tables = read_toml(file, example)
    if unknown := [name for name, table in tables.items() if name not in COMMANDS or not isinstance(table, dict)]:
        raise InputError(f"{unknown[0]!r} is no command's table", file=file, hint=example)
    return tokens[:position] + tokens[position + 2 :], file


def _fail(error: ForebearError, tokens: Sequence[str]) -> int:
    print(f"forebear: {error}", file=sys.stderr)  # noqa: T201
    if "--json" in tokens:
        details = {
            "what": error.message,
            "file": error.file,
            "line": error.line,
            "byte": error.byte,
            "remedy": error.hint,
        }
        print(json.dumps({"error": details}, ensure_ascii=False))  # noqa: T201
    return error.exit_code


def run() -> None:
    """The entry point of the installed `forebear` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character shows its number
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output went away (forebear … | head): not our failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a full disk behind standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"forebear: standard output: {error.strerror}", file=sys.stderr)  # noqa: T201
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    run()
