"""Entry point of the command line: dispatch to commands; messages and exit codes of errors."""

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
COMMANDS = {  # module in forebear.cli, the function if it is not named like the command, and a summary
    "lineage": ("lineage", "The table of contents: every milestone, in the order history made them."),
    "explain": ("explain_model", "A milestone: the paper, what it predicts and by what, its sizes and what they cost."),
    "preview": ("preview", "What a milestone would see of your text, and what it would have to predict."),
    "pretrain": ("pretrain", "Train a milestone on your text."),
    "adapt": ("adapt", "Teach a run a task from your labelled examples."),
    "distil": ("distill", "Teach a smaller run what a larger one knows."),
    "quantise": ("quantize", "A run of small integers: a quarter as large, faster, with its price measured."),
    "classify": ("task_commands", "What a text, or a pair of texts, is."),
    "tag": ("task_commands", "Names and other parts of a text, word by word."),
    "answer": ("task_commands", "Where in a passage the answer to a question stands."),
    "choose": ("task_commands", "Which of several continuations or answers is right."),
    "translate": ("generate", "Texts in another language."),
    "score": ("score", "How probable a run finds sentences, in all and token by token."),
    "next": ("next", "What a run expects next, or in a blank (____)."),
    "generate": ("generate", "Let a run write on."),
    "fill": ("next", "What a run finds in the blanks (____, [MASK]) of a text."),
    "ask": (
        "prompt",
        "Ask a run what it was never trained for, by a prompt alone: labels, choices, blanks, summaries.",
    ),
    "embed": ("embed", "Vectors of texts and words, from any layer of a run."),
    "neighbours": ("neighbors", "The words nearest to a word, or the sentences of a file nearest to a text."),
    "similarity": ("words", "How alike two words or texts are."),
    "odd-one-out": ("words", "Which of some words or texts is least like the others."),
    "analogy": ("words", "What is to one word as another is to a third."),
    "measure": ("measure", "How well a run predicts a text (bits per byte, perplexity), or knows words."),
    "compare": (
        "compare",
        "Every milestone on the same text, or on your labels, with the same budget: one table, one page.",
    ),
    "inspect": ("inspect", "Look inside a run: why it says something, where it looks, how a prediction forms."),
    "runs": ("runs", "The runs in a folder."),
    "rerun": ("rerun", "Make a finished run again, step by step."),
    "import": ("import_export:import_command", "A run from another program's files."),
    "export": ("import_export:export_command", "A run as files that other programs read."),
    "demo": ("demo", "Try the whole way on text that comes with forebear."),
    "corpus": ("corpus", "Examine text: what it is, what is wrong with it, what would be dropped; and clean it."),
    "prepare": ("corpus", "Turn text into a corpus: token ids on disk, with a ledger that shows nothing was lost."),
    "tokenize": ("tokenizer", "Show how a tokenizer cuts a text, piece by piece, with offsets."),
    "tokenizer": ("tokenizer:tokenizer_app", "Train a tokenizer on your text, or look into one."),
}
COMMANDS_WITH_MODEL_OPTIONS = ("preview", "pretrain", "explain", "distil")
ABOUT = """Every milestone of pre-trained language models, on your own text, Chinese or English.

Every command takes --json (one JSON document on stdout), --quiet, --config FILE.toml and --help.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and returns its exit code: 0 success, 1 failure, 2 usage or input error, 130 interrupted."""
    given_tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        tokens, config = _split_config_option(["/dev/stdin" if token == "-" else token for token in given_tokens])
        return _app(_command(tokens), config)(_complete_switches(tokens), exit_on_error=False, print_error=False) or 0
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        return _fail(UserInterrupt("interrupted; what was finished is kept, the same command goes on"), given_tokens)
    except Exception as error:
        user_error = _reported_error(error, given_tokens)
        if user_error is None and os.environ.get("FOREBEAR_TRACEBACK"):
            raise
        hint = "this is a defect of forebear: please report it, with what FOREBEAR_TRACEBACK=1 prints"
        return _fail(user_error or ForebearError(f"{type(error).__name__}: {error}", hint=hint), given_tokens)


def _reported_error(error: Exception, tokens: Sequence[str]) -> ForebearError | None:
    """The error as a message for the user; None for a defect of forebear."""
    match error:
        case ForebearError():
            return error
        case cyclopts.CycloptsError():
            command = f"{tokens[0]} " if tokens and tokens[0] in COMMANDS else ""
            return InputError(str(error).strip(), hint=f"see: forebear {command}--help")
        case OSError():
            file = error.filename if isinstance(error.filename, str) else None
            return ForebearError(error.strerror or str(error), file=file, hint="look at the place named")
        case MemoryError():
            return ForebearError("out of memory", hint="fewer --workers, or a larger machine")
    return None


def _app(command: str | None, config: str | None) -> cyclopts.App:
    """The application: the called command is imported, the others are listed by name."""
    app = cyclopts.App(name="forebear", help=ABOUT, version=__version__, result_action="return_value")
    app.suppress_keyboard_interrupt = False  # reported in main
    app.console = make_console(wide=False)
    if config is not None:
        app.config = cyclopts.config.Toml(config, must_exist=True, search_parents=False)
    for name, (address, summary) in COMMANDS.items():
        module, _, function = f"forebear.cli.{address}".partition(":")
        function = function or name.replace("-", "_")
        if name == command:
            app.command(getattr(importlib.import_module(module), function), name=name)
        else:
            app.command(f"{module}:{function}", name=name, help=summary)
    return app


def _complete_switches(tokens: list[str]) -> list[str]:
    """Add the value `true` to Boolean model options without a value: --whole-words is --whole-words true."""
    if not tokens or tokens[0] not in COMMANDS_WITH_MODEL_OPTIONS:
        return tokens
    from dataclasses import fields

    from forebear.registry import LINEAGE, model_spec

    switches = [field.name for name in LINEAGE for field in fields(model_spec(name)) if str(field.type) == "bool"]
    flags, values = {f"--{name.replace('_', '-')}" for name in switches}, ("true", "false", "yes", "no", "1", "0")
    completed: list[str] = []
    for token, next_token in zip(tokens, [*tokens[1:], ""], strict=True):
        completed += [token, "true"] if token in flags and next_token not in values else [token]
    return completed


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
    """Split `--config FILE` off the arguments: a file of defaults with a table per command."""
    tokens = [part for token in tokens for part in (token.split("=", 1) if token.startswith("--config=") else [token])]
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
        details = {"what": error.message, "file": error.file, "line": error.line}
        details |= {"byte": error.byte, "remedy": error.hint}
        print(json.dumps({"error": details}, ensure_ascii=False))  # noqa: T201
    return error.exit_code


def run() -> None:
    """The entry point of the installed `forebear` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # characters that the terminal cannot encode
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has ended (forebear … | head): not a failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # such as a full disk where standard output is redirected to a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"forebear: standard output: {error.strerror}", file=sys.stderr)  # noqa: T201
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    run()
