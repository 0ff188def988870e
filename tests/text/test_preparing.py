"""Text becomes a corpus: right to the last token, the same from any number of workers, any change noticed."""

import gzip
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.errors import BadInput, ForebearError
from forebear.text import preparing, shards, surveying
from forebear.text.corpus import Corpus, smallest_type
from forebear.text.encoding import content_hash
from forebear.text.preparing import prepare
from forebear.text.reading import Reading
from forebear.text.segmentation import Segmenter
from forebear.text.tokenizer import Tokenizer
from forebear.text.training import train

STORY = "The cat sat. It was warm!\nA dog came.\n\n他走了。她也走了！\n\nThe end"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def pieces() -> Tokenizer:
    return train("wordpiece", [STORY] * 3, size=200, min_count=1)


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def said(corpus: Corpus, number: int) -> list[str]:
    first, last = corpus.documents[number], corpus.documents[number + 1]
    return [corpus.tokenizer.decode(corpus.sentence(s)) for s in range(first, last)]


def test_documents_sentences_and_tokens_by_hand(story, pieces):
    corpus = prepare([story], pieces)
    assert len(corpus.documents) == 4
    assert said(corpus, 0) == ["the cat sat.", "it was warm!", "a dog came."]
    assert said(corpus, 1) == ["他走了。", "她也走了！"]
    assert said(corpus, 2) == ["the end"]
    assert corpus.ids.dtype == np.uint8
    assert corpus.sentences[-1] == len(corpus) == len(corpus.ids)
    assert np.array_equal(corpus.ids[corpus.starts[1] : corpus.starts[2]], corpus.document(1))
    assert corpus.sizes.tolist() == [len(part.encode()) for part in STORY.split("\n\n")]
    assert corpus.hashes[1] == content_hash("他走了。她也走了！")
    ledger = corpus.ledger
    ledger.check()
    assert ledger.stage("tokens").given["documents"] == 3
    assert ledger.stage("tokens").given["sentences"] == 6
    assert ledger.stage("tokens").given["tokens"] == len(corpus)
    whole = [pieces.encode(sentence).ids for document in STORY.split("\n\n") for sentence in [document]]
    assert np.array_equal(np.concatenate(whole), corpus.ids)


@pytest.mark.parametrize(("size", "kind"), [(1, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")])
def test_the_smallest_integers_are_used(size, kind):
    assert smallest_type(size) == np.dtype(kind)


def test_two_hundred_documents_survive_any_number_of_workers(tmp_path, pieces, monkeypatch):
    monkeypatch.setattr(shards, "SHARD", 100)
    text = tmp_path / "many.txt"
    text.write_text("\n\n".join(f"document {n} 第{n}篇。 It has two sentences." for n in range(200)))
    folders = {}
    for workers in (1, 2, 8, 40):
        corpus = prepare([text], pieces, to=tmp_path / f"with {workers}", workers=workers)
        assert len(corpus.documents) == 201
        assert corpus.ledger.stage("read").taken["documents"] == 200
        folders[workers] = contents(corpus.folder)
    assert folders[1] == folders[2] == folders[8] == folders[40]
    monkeypatch.setattr(shards, "SHARD", 1 << 20)
    whole = prepare([text], pieces, to=tmp_path / "one shard", workers=1)
    assert np.array_equal(whole.ids, np.load(tmp_path / "with 1" / "ids.npy"))
    assert np.array_equal(whole.documents, np.load(tmp_path / "with 1" / "documents.npy"))


def test_a_second_use_starts_at_once_and_any_change_is_noticed(story, pieces, tmp_path, monkeypatch):
    first = prepare([story], pieces)
    monkeypatch.setattr(preparing, "assemble", lambda *_, **__: pytest.fail("it was made again"))
    assert prepare([story], pieces).folder == first.folder
    os.utime(story, ns=(1, 1))  # touched, not changed
    assert prepare([story], pieces).folder == first.folder
    renamed = story.rename(tmp_path / "other name.txt")
    assert prepare([renamed], pieces).folder == first.folder
    monkeypatch.undo()
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    others = [
        prepare([renamed], pieces, sentences="lines"),
        prepare([renamed], pieces, reading=Reading(documents="lines")),
        prepare([renamed], pieces, segmenter=Segmenter()),
        prepare([renamed], train("characters", [STORY])),
    ]
    renamed.write_text(STORY + "!")
    others.append(prepare([renamed], pieces))
    assert len({corpus.key for corpus in [first, *others]}) == 6


def test_a_name_that_changes_how_a_file_is_read_is_noticed(tmp_path, pieces):
    (tmp_path / "a.txt").write_text('{"text": "the cat"}')
    as_text = prepare([tmp_path / "a.txt"], pieces)
    (tmp_path / "a.txt").rename(tmp_path / "a.jsonl")
    as_records = prepare([tmp_path / "a.jsonl"], pieces)
    assert as_text.key != as_records.key
    assert as_records.sizes.tolist() == [7]


def test_unchanged_files_are_not_even_read_again(story, pieces, monkeypatch):
    os.utime(story, ns=(10**18, 10**18))
    monkeypatch.setattr(surveying, "SETTLED", -(10**18))  # as if the file had been at rest for long
    prepare([story], pieces)
    monkeypatch.setattr(surveying, "fingerprint", lambda _: pytest.fail("it was read again"))
    prepare([story], pieces)


def test_a_folder_of_ones_own(story, pieces, tmp_path):
    corpus = prepare([story], pieces, to=tmp_path / "my corpus")
    assert corpus.folder == tmp_path / "my corpus"
    assert prepare([story], pieces, to=tmp_path / "my corpus").key == corpus.key
    story.write_text("something else entirely")
    with pytest.raises(BadInput, match="holds a corpus of other text") as caught:
        prepare([story], pieces, to=tmp_path / "my corpus")
    assert "--overwrite" in caught.value.remedy
    assert len(prepare([story], pieces, to=tmp_path / "my corpus", overwrite=True).documents) == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(BadInput, match="is no corpus"):
        prepare([story], pieces, to=tmp_path / "mine", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "my corpus", "story.txt"]


def test_text_that_changes_while_it_is_read_is_refused(story, pieces, tmp_path, monkeypatch):
    real = preparing.survey

    def then_change(paths, reading):
        seen = real(paths, reading)
        story.write_text("changed behind our back")
        return seen

    monkeypatch.setattr(preparing, "survey", then_change)
    with pytest.raises(BadInput, match="changed while it was being read"):
        prepare([story], pieces, to=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / "c.part").exists()


def test_duplicates_share_a_side_and_sides_are_stable(tmp_path, pieces):
    lines = [f"sentence number {n}" for n in range(400)]
    one, more = tmp_path / "one.txt", tmp_path / "more.txt"
    one.write_text("\n".join(lines))
    more.write_text(
        "\n".join(
            ["new at the front", *lines, *lines[::3], "  sentence number 7 ", *("more " * n for n in range(1, 200))]
        )
    )
    by_line = Reading(documents="lines")
    small, large = prepare([one], pieces, reading=by_line), prepare([more], pieces, reading=by_line)
    split = small.split(0.2)
    assert sorted([*split.train, *split.held_out]) == list(range(400))
    assert 40 < len(split.held_out) < 120
    held = {int(small.hashes[n]) for n in split.held_out}
    later = large.split(0.2)
    assert held <= {int(large.hashes[n]) for n in later.held_out}
    assert not {int(large.hashes[n]) for n in later.held_out} & {int(large.hashes[n]) for n in later.train}
    assert large.hashes[8] == large.hashes[-200]  # white space around a document does not make it another


def test_too_few_documents_to_split(story, pieces):
    corpus = prepare([story], pieces)
    with pytest.raises(BadInput, match="too few to hold"):
        corpus.split(1e-9)
    with pytest.raises(BadInput, match="share"):
        corpus.split(1.5)


def test_long_documents_in_parts_are_one_document(tmp_path, pieces, monkeypatch):
    text = tmp_path / "long.txt"
    text.write_text("short one.\n\n" + "\n".join(f"line {n} of a long text。" for n in range(300)) + "\n\nlast.")
    whole = prepare([text], pieces, to=tmp_path / "whole")
    monkeypatch.setattr("forebear.text.documents.PART", 500)
    monkeypatch.setattr(shards, "SHARD", 700)
    cut = prepare([text], pieces, to=tmp_path / "cut", workers=2)
    for name in ("ids", "sentences", "documents", "sizes"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name
    assert len(cut.documents) == 4
    assert cut.ledger.stage("tokens").given["documents"] == 3


def test_what_has_no_tokens_is_dropped_by_name(tmp_path, pieces):
    text = tmp_path / "t.txt"
    text.write_text("fine\n\n\u200d\u200e\n\nalso fine\n\x07\ngood")
    corpus = prepare([text], pieces)
    corpus.ledger.check()
    assert len(corpus.documents) == 3
    dropped = [json.loads(line) for line in (corpus.folder / "dropped.jsonl").read_text().splitlines()]
    assert [(item["line"], item.get("documents", 0)) for item in dropped] == [(3, 0), (6, 0), (3, 1)]
    assert corpus.ledger.drops["no tokens in it"].count == 3


def test_text_without_any_token_is_refused(tmp_path, pieces):
    (tmp_path / "t.txt").write_text("\u200d\u200e")
    with pytest.raises(BadInput, match="nothing to learn from"):
        prepare([tmp_path / "t.txt"], pieces, to=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    (tmp_path / "t.txt").write_text("")
    with pytest.raises(BadInput, match="nothing to learn from"):
        prepare([tmp_path / "t.txt"], pieces)


def test_word_starts_by_segmentation_by_tags_and_by_pieces(tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("我们研究语言模型。unbelievable")
    pieces = train("wordpiece", ["我 们 研 究 语 言 模 型 。 unbelievably believable"], size=200, min_count=1)

    def words(corpus):
        starts = np.flatnonzero(corpus.word_starts(0, len(corpus)))
        return [
            "".join(corpus.tokenizer.token(int(i)).removeprefix("##") for i in run)
            for run in np.split(corpus.ids, starts[1:])
        ]

    segmented = prepare([text], pieces, segmenter=Segmenter())
    assert words(segmented) == ["我们", "研究", "语言", "模型", "。", "unbelievable"]
    own = prepare([text], pieces, segmenter=Segmenter(("语言模型",)))
    assert words(own) == ["我们", "研究", "语言模型", "。", "unbelievable"]
    assert own.key != segmented.key
    bare = prepare([text], pieces)
    assert bare.words is None
    assert words(bare) == [*"我们研究语言模型。", "unbelievable"]
    tagged = tmp_path / "tagged.txt"
    tagged.write_text("我/r 们/k  研究语言/n 模型/n 。/w")
    given_words = prepare([tagged], pieces, reading=Reading(format="tagged"))
    assert words(given_words) == ["我", "们", "研究语言", "模型", "。"]


class Fussy(Tokenizer):
    """Fails on one word, in whatever process it runs."""

    def encode_many(self, texts):
        if any("boom" in text for text in texts):
            raise ValueError("will not encode this")
        return super().encode_many(texts)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_workers_failure_names_file_and_line(tmp_path, pieces, workers, monkeypatch):
    monkeypatch.setattr(shards, "SHARD", 50)
    text = tmp_path / "t.txt"
    text.write_text("\n\n".join(["fine text here"] * 20 + ["this goes boom"] + ["fine"] * 20))
    fussy = Fussy(pieces._blueprint)
    with pytest.raises(ForebearError, match="ValueError: will not encode this") as caught:
        prepare([text], fussy, to=tmp_path / "c", workers=workers)
    assert (caught.value.file, caught.value.line) == (str(text), 41)
    assert not (tmp_path / "c").exists()


def test_compressed_files_and_strange_names(tmp_path, pieces):
    folder = tmp_path / "my texts 中文\nnew line"
    folder.mkdir()
    (folder / "一 二.txt.gz").write_bytes(gzip.compress(STORY.encode()))
    (folder / "b.jsonl").write_text(json.dumps({"text": "他走了。"}))
    corpus = prepare([folder], pieces, to=tmp_path / "to here 这里\n", workers=2)
    assert len(corpus.documents) == 5
    assert Corpus.open(corpus.folder).key == corpus.key


def test_damaged_corpora_are_refused(story, pieces, tmp_path):
    corpus = prepare([story], pieces, to=tmp_path / "c")
    corpus.verify()
    ids = corpus.folder / "ids.npy"
    whole = ids.read_bytes()
    ids.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    with pytest.raises(ForebearError, match=r"ids\.npy: is not what was written"):
        Corpus.open(corpus.folder).verify()
    ids.write_bytes(ids.read_bytes()[:-3])
    with pytest.raises(ForebearError, match=r"ids\.npy.*missing or damaged"):
        Corpus.open(corpus.folder)
    (corpus.folder / "corpus.json").write_text(json.dumps({"format": "forebear-corpus/99"}))
    with pytest.raises(BadInput, match="forebear-corpus/99"):
        Corpus.open(corpus.folder)
    with pytest.raises(BadInput, match="not a prepared corpus"):
        Corpus.open(tmp_path)


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(
        st.text(alphabet=st.sampled_from("ab. 中。！\n\x00\u200d😀\t"), max_size=30), min_size=1, max_size=8
    ),
    division=st.sampled_from(["blank", "files", "lines"]),
    mode=st.sampled_from(["split", "lines", "flow"]),
    shard=st.integers(1, 40),
)
def test_the_ledger_adds_up_for_any_text(tmp_path_factory, pieces, parts, division, mode, shard):
    folder = tmp_path_factory.mktemp("any")
    (folder / "t.txt").write_text("x\n" + "\n\n".join(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD", shard)
        corpus = prepare(
            [folder / "t.txt"], pieces, reading=Reading(documents=division), sentences=mode, to=folder / "c"
        )
    corpus.ledger.check()
    counts = corpus.ledger.stage("tokens").given
    assert counts["documents"] == len(corpus.documents) - 1 == len(corpus.hashes) == len(corpus.sizes)
    assert counts["sentences"] == len(corpus.sentences) - 1
    assert counts["tokens"] == len(corpus)
    assert (np.diff(corpus.sentences) > 0).all()
    assert (np.diff(corpus.documents) > 0).all()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("zhwiki.txt", Reading()),
        ("wikitext2/train.txt", Reading()),
        ("peoples-daily-1998-tagged.txt", Reading(format="tagged", documents="lines")),
    ],
)
def test_real_corpora_add_up(data, tmp_path, name, how):
    characters = train("characters", [STORY])
    corpus = prepare([data / "corpora" / name], characters, reading=how, to=tmp_path / "c", workers=2)
    corpus.ledger.check()
    read = corpus.ledger.stage("read")
    assert read.taken["bytes"] == (data / "corpora" / name).stat().st_size
    assert corpus.ledger.stage("tokens").given["documents"] == read.given["documents"] == len(corpus.documents) - 1
    assert (corpus.words is not None) == (how.format == "tagged")
