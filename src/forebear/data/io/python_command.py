"""Commands and environment of child processes: fresh interpreters that import nothing from the working folder.

Python puts the working folder first on the search path of a program given by `-c` or `-m`. A file `json.py` next to the
text would then run instead of the standard library's module.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE_PARENT = Path(__file__).resolve().parents[3]  # the folder that holds the package forebear


def python_command(program: str, *arguments: object) -> list[str]:
    """The command that runs the Python code `program` in a fresh interpreter."""
    path, package = _search_path(), str(PACKAGE_PARENT)
    # Entries that PYTHONPATH cannot hold, and the folder of this package if it is the working folder, come last: they
    # replace no module of the standard library or of installed packages.
    appended_paths = [entry for entry in path if os.pathsep in entry]
    if package not in map(os.path.realpath, path):
        appended_paths.append(package)
    if appended_paths:
        program = f"import sys; sys.path += {appended_paths!r}; {program}"
    return [sys.executable, "-P", "-c", program, *map(str, arguments)]


def child_environment(**changes: str) -> dict[str, str]:
    """The environment of this process, with its module search path and with `changes`."""
    search_path = os.pathsep.join(path for path in _search_path() if os.pathsep not in path)
    return {**os.environ, "PYTHONPATH": search_path, "PYTHONSAFEPATH": "1", **changes}


def _search_path() -> list[str]:
    """Absolute entries of `sys.path`, without the working folder."""
    try:
        working_folder = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was removed: relative entries lead nowhere
        return [path for path in sys.path if os.path.isabs(path)]
    return [os.path.abspath(path) for path in sys.path if path and os.path.realpath(path) != working_folder]
