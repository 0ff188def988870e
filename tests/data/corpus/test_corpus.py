"""Prepared corpora: reuse from the cache, detection of changes, refusal of damaged folders, splits by content hash."""

import json
import os
import pickle

import numpy as np
import pytest

from forebear.data import source
from forebear.data.corpus import prepare as prepare_module
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.text_formats import TextFormat
from forebear.data.segmentation import Segmenter
from forebear.data.source import tokenizer_for
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import ForebearError, InputError
from story_corpus import STORY, folder_contents


def fingerprint_then_change(path, text):
    """A fingerprint function after whose call the file has another text."""
    fingerprint = prepare_module.fingerprint_sources  # before it is patched

    def then_change(paths, reading):
        digest = fingerprint(paths, reading)
        path.write_text(text)
        return digest

    return then_change


def test_prepared_corpus_is_reused_until_text_or_settings_change(
    story_path, wordpiece_tokenizer, tmp_path, monkeypatch
):
    first = prepare_corpus([story_path], wordpiece_tokenizer)
    monkeypatch.setattr(prepare_module, "finish_corpus", lambda *_, **__: pytest.fail("it was made again"))
    assert prepare_corpus([story_path], wordpiece_tokenizer).folder == first.folder
    os.utime(story_path, ns=(1, 1))  # touched, not changed
    assert prepare_corpus([story_path], wordpiece_tokenizer).folder == first.folder
    renamed = story_path.rename(tmp_path / "other name.txt")
    assert prepare_corpus([renamed], wordpiece_tokenizer).folder == first.folder
    monkeypatch.undo()
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    others = [
        prepare_corpus([renamed], wordpiece_tokenizer, sentences="lines"),
        prepare_corpus([renamed], wordpiece_tokenizer, sentences="whole"),
        prepare_corpus([renamed], wordpiece_tokenizer, text_format=TextFormat(documents="lines")),
        prepare_corpus([renamed], wordpiece_tokenizer, segmenter=Segmenter()),
        prepare_corpus([renamed], train_tokenizer("characters", [STORY])),
    ]
    renamed.write_text(STORY + "!")
    others.append(prepare_corpus([renamed], wordpiece_tokenizer))
    assert len({corpus.key for corpus in [first, *others]}) == 7


def test_suffix_that_changes_the_format_makes_another_corpus(tmp_path, wordpiece_tokenizer):
    (tmp_path / "a.txt").write_text('{"text": "the cat"}')
    as_text = prepare_corpus([tmp_path / "a.txt"], wordpiece_tokenizer)
    (tmp_path / "a.txt").rename(tmp_path / "a.jsonl")
    as_records = prepare_corpus([tmp_path / "a.jsonl"], wordpiece_tokenizer)
    assert as_text.key != as_records.key
    assert as_records.sizes.tolist() == [7]


def test_unchanged_files_are_not_read_again(story_path, wordpiece_tokenizer, monkeypatch):
    os.utime(story_path, ns=(10**18, 10**18))
    monkeypatch.setattr(prepare_module, "STABLE_AFTER_NS", -(10**18))  # as if the file had been at rest for long
    prepare_corpus([story_path], wordpiece_tokenizer)
    monkeypatch.setattr(prepare_module, "sources_digest", lambda _: pytest.fail("it was read again"))
    prepare_corpus([story_path], wordpiece_tokenizer)


def test_corpus_in_given_folder_is_replaced_only_with_overwrite(story_path, wordpiece_tokenizer, tmp_path):
    corpus = prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "my corpus")
    assert corpus.folder == tmp_path / "my corpus"
    assert prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "my corpus").key == corpus.key
    story_path.write_text("something else entirely")
    with pytest.raises(InputError, match="holds a corpus of other text") as caught:
        prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "my corpus")
    assert "--overwrite" in caught.value.hint
    assert (
        len(prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "my corpus", overwrite=True).documents) == 2
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="is no corpus"):
        prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "mine", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "my corpus", "story.txt"]


def test_text_changed_while_read_is_refused(story_path, wordpiece_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(
        prepare_module, "fingerprint_sources", fingerprint_then_change(story_path, "changed behind our back")
    )
    with pytest.raises(InputError, match="changed while it was being read"):
        prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / "c.part").exists()


def test_split_by_content_is_stable_and_keeps_duplicates_together(tmp_path, wordpiece_tokenizer):
    lines = [f"sentence number {n}" for n in range(400)]
    small_file, large_file = tmp_path / "one.txt", tmp_path / "more.txt"
    small_file.write_text("\n".join(lines))
    large_file.write_text(
        "\n".join(
            ["new at the front", *lines, *lines[::3], "  sentence number 7 ", *("more " * n for n in range(1, 200))]
        )
    )
    by_line = TextFormat(documents="lines")
    small, large = (
        prepare_corpus([small_file], wordpiece_tokenizer, text_format=by_line),
        prepare_corpus([large_file], wordpiece_tokenizer, text_format=by_line),
    )
    split, later_split = small.split(0.2), large.split(0.2)
    assert split.method == later_split.method == "content"
    assert sorted([*split.train.units[:, 0], *split.held_out.units[:, 0]]) == list(range(400))  # a sentence each
    assert 40 < len(split.held_out) < 120

    def document_hashes(subset):
        return {int(subset.corpus.hashes[n]) for n in np.searchsorted(subset.corpus.documents, subset.units[:, 0])}

    assert document_hashes(split.held_out) <= document_hashes(later_split.held_out)
    assert not document_hashes(later_split.held_out) & document_hashes(later_split.train)
    assert large.hashes[8] == large.hashes[-200]  # white space around a document does not change its hash


def test_held_out_share_must_be_at_least_0_and_below_1(story_path, wordpiece_tokenizer):
    corpus = prepare_corpus([story_path], wordpiece_tokenizer)
    assert corpus.split(1e-9).method == "position"
    unsplit = corpus.split(0)
    assert (unsplit.method, len(unsplit.held_out), unsplit.train.num_tokens) == (
        "nothing",
        0,
        corpus.all_documents().num_tokens,
    )
    for share in (-0.1, 1, 1.5, float("nan")):
        with pytest.raises(InputError, match="share"):
            corpus.split(share)


def test_files_next_to_the_target_folder_are_not_touched(story_path, wordpiece_tokenizer, tmp_path):
    for name in ("c.old", "c.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious.txt").write_text("mine")
    with pytest.raises(InputError, match=r"c\.part.*in the way"):
        prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "c")
    (tmp_path / "c.part" / "precious.txt").unlink()
    prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "c")
    story_path.write_text("other text")
    prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "c", overwrite=True)
    assert (tmp_path / "c.old" / "precious.txt").read_text() == "mine"


def test_damaged_corpus_is_prepared_again(story_path, wordpiece_tokenizer, tmp_path):
    corpus = prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "c")
    intact = folder_contents(corpus.folder)
    (tmp_path / "c" / "ids.npy").unlink()
    prepare_corpus(story_path, wordpiece_tokenizer, to=tmp_path / "c")
    assert folder_contents(tmp_path / "c") == intact


def test_tokenizer_trained_while_text_changed_is_not_cached(tmp_path, monkeypatch):
    text = tmp_path / "t.txt"
    text.write_text("alpha beta")
    with monkeypatch.context() as patch:
        patch.setattr(source, "fingerprint_sources", fingerprint_then_change(text, "gamma delta"))
        tokenizer_for("words", [text], TextFormat())
    text.write_text("alpha beta")
    assert set(tokenizer_for("words", [text], TextFormat()).vocabulary()[5:]) == {"alpha", "beta"}


def test_pickled_corpus_is_only_its_folder(story_path, wordpiece_tokenizer):
    corpus = prepare_corpus([story_path], wordpiece_tokenizer)
    assert len(pickle.dumps(corpus)) < 500
    assert pickle.loads(pickle.dumps(corpus)).key == corpus.key


def test_damaged_corpora_are_refused(story_path, wordpiece_tokenizer, tmp_path):
    corpus = prepare_corpus([story_path], wordpiece_tokenizer, to=tmp_path / "c")
    corpus.verify()
    ids = corpus.folder / "ids.npy"
    intact = ids.read_bytes()
    ids.write_bytes(intact[:-3] + bytes([intact[-3] ^ 1]) + intact[-2:])
    with pytest.raises(ForebearError, match=r"ids\.npy: is not what was written"):
        Corpus.open(corpus.folder).verify()
    ids.write_bytes(ids.read_bytes()[:-3])
    with pytest.raises(ForebearError, match=r"ids\.npy.*missing or damaged"):
        Corpus.open(corpus.folder)
    (corpus.folder / "corpus.json").write_text(json.dumps({"format": "forebear-corpus/99"}))
    with pytest.raises(InputError, match="forebear-corpus/99"):
        Corpus.open(corpus.folder)
    with pytest.raises(InputError, match="not a prepared corpus"):
        Corpus.open(tmp_path)
