"""Files that commands draw: what their names may end with, and writing them whole."""

from __future__ import annotations

from pathlib import Path

from forebear.errors import BadInput


def form_of(file: Path | None, *known: str) -> str:
    """The form that a file's name asks for; one that cannot be written is refused before any work."""
    if file is None:
        return ""
    form, names = file.suffix.lower().removeprefix("."), ", ".join(f".{one}" for one in known)
    if form not in known:
        raise BadInput(
            f"what {file.name} is to be cannot be told by its name", remedy=f"let it end with one of {names}"
        )
    if file.is_dir() or not file.absolute().parent.is_dir():
        what = "is a folder" if file.is_dir() else "the folder of this file does not exist"
        raise BadInput(what, file=file, remedy=f"name a file in a folder that exists, such as look.{known[0]}")
    return form


def put(file: Path, content: bytes) -> None:
    """Writes it, whole or not at all."""
    from forebear.text.aside import disk_told, written_aside

    with disk_told(file), written_aside(file) as aside:
        aside.write(content)
