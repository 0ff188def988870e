"""Commands run in this process, with their output captured."""

from __future__ import annotations

import json

import pytest

from forebear.cli.main import main

Captured = pytest.CaptureFixture[str]


def json_output(capsys: Captured, *arguments: object) -> dict:
    """The JSON document that a successful command prints."""
    capsys.readouterr()
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def printed_output(capsys: Captured, *arguments: object) -> str:
    capsys.readouterr()
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def refusal_message(capsys: Captured, *arguments: object) -> str:
    """What a refused command prints to standard error; it prints nothing else."""
    capsys.readouterr()
    assert main([*map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return printed.err
