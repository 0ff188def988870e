"""Commands as a person gives them, in this process: what they print is caught."""

from __future__ import annotations

import json

import pytest

from forebear.cli.main import main

Captured = pytest.CaptureFixture[str]


def told(capsys: Captured, *arguments: object) -> dict:
    """The one JSON document that a successful command prints."""
    capsys.readouterr()
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def said(capsys: Captured, *arguments: object) -> str:
    capsys.readouterr()
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def refused(capsys: Captured, *arguments: object) -> str:
    """What a command that cannot be carried out complains of; it prints nothing else."""
    capsys.readouterr()
    assert main([*map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return printed.err
