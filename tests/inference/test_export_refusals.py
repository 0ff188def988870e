"""Runs that no other program can read: export is refused, with what can be exported and what to do instead."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import forebear as fb
from forebear.errors import InputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


def test_hmm_export_is_refused_with_alternatives(tmp_path: Path):
    tagged = tmp_path / "tagged.txt"
    tagged.write_text("".join(f"the/d {noun}/n ran/v\n" for noun in ("cat", "dog", "fox", "hen")) * 2)
    (tmp_path / "plain.txt").write_text("The cat sat.\nThe dog ran.\nA fox saw it.\n" * 9)
    unsupervised = fb.pretrain("hmm", tmp_path / "plain.txt", to=tmp_path / "hidden", epochs=1)
    tagger = fb.pretrain("hmm", tagged, to=tmp_path / "tags")
    for run, hint in (
        (unsupervised, "use it here: forebear score, next, generate, ask, measure; or count n-grams"),
        (tagger, f"have its answers in a file instead: forebear tag {tagger.folder.path} --in FILE --out FILE"),
    ):
        for file_format in (None, "arpa"):
            with pytest.raises(InputError) as caught:
                run.export(tmp_path / "out", format=file_format)
            assert caught.value.hint.startswith(hint)
            assert "ngram as arpa; gpt, bert, " in caught.value.hint
            assert "adapted from" not in caught.value.hint  # there is no such run


def test_task_export_is_refused_with_its_exportable_base_run(tmp_path: Path):
    (tmp_path / "plain.txt").write_text("The cat sat.\nThe dog ran.\nA fox saw it.\n" * 9)
    rows = "".join(f"{word} day\t{label}\n" for word, label in zip("abcdefgh", "xyxyxyxy", strict=True))
    (tmp_path / "rows.tsv").write_text(rows)
    fb.pretrain("ngram", tmp_path / "plain.txt", to=tmp_path / "ngrams")
    adapted = fb.adapt(tmp_path / "ngrams", tmp_path / "rows.tsv", to=tmp_path / "task", task="classification")
    with pytest.raises(InputError, match=r"adapted from: forebear export .*ngrams --to"):
        adapted.export(tmp_path / "out")
    shutil.rmtree(tmp_path / "ngrams")
    with pytest.raises(InputError, match=r"forebear classify .*task --in FILE"):
        adapted.export(tmp_path / "out")
