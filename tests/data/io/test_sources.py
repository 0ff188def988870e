"""Source files: folders, globs, links and pipes; each file once and in order, skipped files entered in the ledger."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from forebear.data.io.sources import find_sources
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger
from forebear.errors import InputError
from story_corpus import read_documents, read_texts


def test_folder_is_read_in_order_without_links_and_other_files(tmp_path):
    for name in ("b/2.txt", "b/10.txt", "a/中文 名.txt", "a/new\nline.txt", "c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "b/loop").symlink_to(tmp_path)
    (tmp_path / "b/nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / ".hidden").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    documents, ledger = read_documents(tmp_path)
    names = ["a/new\nline.txt", "a/中文 名.txt", "b/10.txt", "b/2.txt", "c.md"]
    assert [d.text for d in documents] == names
    assert {reason: skipped.count for reason, skipped in ledger.skipped_files.items()} == {
        "named twice, or a link back to a folder already read": 1,
        "link that leads nowhere": 1,
        "not a text file by its name": 1,
        "hidden file": 1,
        "not a regular file": 1,
    }
    assert read_texts(str(tmp_path / "b/*.txt")) == ["b/10.txt", "b/2.txt"]
    assert read_texts(str(tmp_path / "**/*.txt")) == names[:-1]
    assert read_texts(tmp_path / "c.md", tmp_path / "c.md") == ["c.md"]


def test_file_named_twice_is_read_once(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt").write_text("c")
    os.link(tmp_path / "a.txt", tmp_path / "d.txt")  # another file that happens to be equal
    assert read_texts(tmp_path / "**") == ["a", "c", "a"]
    documents, ledger = read_documents(tmp_path, tmp_path / "a.txt", tmp_path / "b")
    assert [d.text for d in documents] == ["a", "c", "a"]
    assert ledger.skipped_files["named twice, or a link back to a folder already read"].count == 2


def test_hidden_folders_and_ledgers_are_skipped(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "object").write_bytes(b"\xff")
    (tmp_path / "clean.txt").write_text("clean")
    (tmp_path / "clean.txt.ledger.json").write_text("{}")
    documents, ledger = read_documents(tmp_path)
    assert [d.text for d in documents] == ["clean"]
    assert set(ledger.skipped_files) == {"hidden folder", "a ledger of cleaned text"}
    assert read_texts(tmp_path / ".git", on_bad_bytes="replace") == ["\ufffd"]


def test_folders_nested_a_thousand_deep_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(1200):
        os.mkdir("d")
        os.chdir("d")
    Path("deep.txt").write_text("deep")
    os.chdir(tmp_path)
    try:
        assert read_texts(tmp_path) == ["deep"]
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # deeper than Python's own removal can go


def test_missing_files_and_empty_globs_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_texts(tmp_path / "missing.txt")
    with pytest.raises(InputError, match="nothing matches"):
        read_texts(tmp_path / "*.txt")
    with pytest.raises(InputError, match="there is no file to read"):
        read_texts(tmp_path)


def test_file_deleted_while_reading_is_refused(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"text {number}")
    documents = TextFormat().documents_in(find_sources([tmp_path]), Ledger())
    next(documents)
    (tmp_path / "1.txt").unlink()
    with pytest.raises(InputError, match=r"1\.txt.*not there"):
        list(documents)


def test_named_pipe_can_be_read_twice(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("through a pipe"))
    writer.start()
    for _ in range(2):
        assert read_texts(tmp_path / "pipe") == ["through a pipe"]
    writer.join()
