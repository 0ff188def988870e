"""Text becomes a prepared corpus: exact tokens, the same files with any number of workers, failures named by line."""

import gzip
import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.corpus import prepare as prepare_module
from forebear.data.corpus import shards
from forebear.data.corpus.corpus import Corpus, id_dtype
from forebear.data.corpus.document_encoder import content_hash
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.text_formats import TextFormat
from forebear.data.segmentation import Segmenter
from forebear.data.source import tokenizer_for
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import ForebearError, InputError
from story_corpus import STORY, folder_contents


def document_sentences(corpus: Corpus, number: int) -> list[str]:
    first, last = corpus.documents[number], corpus.documents[number + 1]
    return [corpus.tokenizer.decode(corpus.sentence_ids(s)) for s in range(first, last)]


def test_documents_sentences_and_tokens_match_a_worked_example(story_path, wordpiece_tokenizer):
    corpus = prepare_corpus([story_path], wordpiece_tokenizer)
    assert len(corpus.documents) == 4
    assert document_sentences(corpus, 0) == ["the cat sat.", "it was warm!", "a dog came."]
    assert document_sentences(corpus, 1) == ["他走了。", "她也走了！"]
    assert document_sentences(corpus, 2) == ["the end"]
    assert corpus.ids.dtype == np.uint8
    assert corpus.sentences[-1] == len(corpus) == len(corpus.ids)
    assert np.array_equal(corpus.ids[corpus.document_starts[1] : corpus.document_starts[2]], corpus.document_ids(1))
    assert corpus.sizes.tolist() == [12, 13, 12, 12, 15, 7]
    assert corpus.all_documents().unit_bytes.tolist() == [len(part.encode()) for part in STORY.split("\n\n")]
    assert corpus.unknown.tolist() == [0] * 6
    assert corpus.sizes.dtype == corpus.unknown.dtype == np.uint32
    assert corpus.hashes[1] == content_hash("他走了。她也走了！")
    ledger = corpus.ledger
    ledger.verify()
    assert ledger.stage("tokens").outputs["documents"] == 3
    assert ledger.stage("tokens").outputs["sentences"] == 6
    assert ledger.stage("tokens").outputs["tokens"] == len(corpus)
    document_ids = [
        wordpiece_tokenizer.encode(sentence).ids for document in STORY.split("\n\n") for sentence in [document]
    ]
    assert np.array_equal(np.concatenate(document_ids), corpus.ids)


@pytest.mark.parametrize(("size", "kind"), [(1, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")])
def test_ids_use_the_smallest_integer_type(size, kind):
    assert id_dtype(size) == np.dtype(kind)


@pytest.mark.slow
def test_corpus_is_the_same_with_any_number_of_workers(tmp_path, wordpiece_tokenizer, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 100)
    text = tmp_path / "many.txt"
    text.write_text("\n\n".join(f"document {n} 第{n}篇。 It has two sentences." for n in range(200)))
    folders = {}
    for workers in (1, 2, 8, 40):
        corpus = prepare_corpus([text], wordpiece_tokenizer, to=tmp_path / f"with {workers}", workers=workers)
        assert len(corpus.documents) == 201
        assert corpus.ledger.stage("read").inputs["documents"] == 200
        folders[workers] = folder_contents(corpus.folder)
    assert folders[1] == folders[2] == folders[8] == folders[40]
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 1 << 20)
    one_shard = prepare_corpus([text], wordpiece_tokenizer, to=tmp_path / "one shard", workers=1)
    assert np.array_equal(one_shard.ids, np.load(tmp_path / "with 1" / "ids.npy"))
    assert np.array_equal(one_shard.documents, np.load(tmp_path / "with 1" / "documents.npy"))


def test_long_document_read_in_parts_stays_one_document(tmp_path, wordpiece_tokenizer, monkeypatch):
    text = tmp_path / "long.txt"
    text.write_text("short one.\n\n" + "\n".join(f"line {n} of a long text。" for n in range(300)) + "\n\nlast.")
    unsplit = prepare_corpus([text], wordpiece_tokenizer, to=tmp_path / "whole")
    monkeypatch.setattr("forebear.data.io.document.PART_CHARACTERS", 500)
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 700)
    in_parts = prepare_corpus([text], wordpiece_tokenizer, to=tmp_path / "cut", workers=2)
    for name in ("ids", "sentences", "documents", "unknown"):
        assert np.array_equal(getattr(unsplit, name), getattr(in_parts, name)), name
    assert np.array_equal(unsplit.all_documents().unit_bytes, in_parts.all_documents().unit_bytes)
    assert len(in_parts.documents) == 4
    assert in_parts.ledger.stage("tokens").outputs["documents"] == 3


def test_sentences_without_tokens_are_dropped_into_the_ledger(tmp_path, wordpiece_tokenizer):
    text = tmp_path / "t.txt"
    text.write_text("fine\n\n\u200d\u200e\n\nalso fine\n\x07\ngood")
    corpus = prepare_corpus([text], wordpiece_tokenizer)
    corpus.ledger.verify()
    assert len(corpus.documents) == 3
    dropped = [json.loads(line) for line in (corpus.folder / "dropped.jsonl").read_text().splitlines()]
    assert [(item["line"], item.get("documents", 0)) for item in dropped] == [(3, 0), (6, 0), (3, 1)]
    assert corpus.ledger.drops["no tokens in it"].count == 3
    assert corpus.sizes.tolist() == [4, 9 + 2, 5]  # "also fine" has the bell after it


def test_text_without_any_token_is_refused(tmp_path, wordpiece_tokenizer):
    (tmp_path / "t.txt").write_text("\u200d\u200e")
    with pytest.raises(InputError, match="no token in this text"):
        prepare_corpus([tmp_path / "t.txt"], wordpiece_tokenizer, to=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    (tmp_path / "t.txt").write_text("")
    with pytest.raises(InputError, match="no token in this text"):
        prepare_corpus([tmp_path / "t.txt"], wordpiece_tokenizer)


def test_word_starts_come_from_segmenter_tags_or_wordpieces(tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("我们研究语言模型。unbelievable")
    pieces = train_tokenizer("wordpiece", ["我 们 研 究 语 言 模 型 。 unbelievably believable"], size=200, min_count=1)

    def word_texts(corpus):
        starts = np.flatnonzero(corpus.word_starts(0, len(corpus)))
        return [
            "".join(corpus.tokenizer.id_to_token(int(i)).removeprefix("##") for i in run)
            for run in np.split(corpus.ids, starts[1:])
        ]

    segmented = prepare_corpus([text], pieces, segmenter=Segmenter())
    assert word_texts(segmented) == ["我们", "研究", "语言", "模型", "。", "unbelievable"]
    with_dictionary = prepare_corpus([text], pieces, segmenter=Segmenter(("语言模型",)))
    assert word_texts(with_dictionary) == ["我们", "研究", "语言模型", "。", "unbelievable"]
    assert with_dictionary.key != segmented.key
    unsegmented = prepare_corpus([text], pieces)
    assert unsegmented.words is None
    assert word_texts(unsegmented) == [*"我们研究语言模型。", "unbelievable"]
    tagged = tmp_path / "tagged.txt"
    tagged.write_text("我/r 们/k  研究语言/n 模型/n 。/w")
    from_tags = prepare_corpus([tagged], pieces, text_format=TextFormat(format="tagged"))
    assert word_texts(from_tags) == ["我", "们", "研究语言", "模型", "。"]


def test_tagged_words_are_the_tokens_of_a_word_tokenizer(tmp_path):
    tagged = tmp_path / "tagged.txt"
    tagged.write_text("今天天气/n 很/d 好/a 。/w\n今天天气/n 好/a")
    text_format = TextFormat(format="tagged")
    tokenizer = tokenizer_for("words", [tagged], text_format)
    assert set(tokenizer.vocabulary()[5:]) == {"今天天气", "很", "好", "。"}
    corpus = prepare_corpus([tagged], tokenizer, text_format=text_format)
    assert [tokenizer.id_to_token(i) for i in corpus.ids.tolist()] == ["今天天气", "很", "好", "。", "今天天气", "好"]


@pytest.mark.parametrize("shard", [10, 1 << 20])
def test_word_starts_when_only_some_records_mark_words(tmp_path, wordpiece_tokenizer, monkeypatch, shard):
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", shard)
    records = [{"text": "plain warmth 她也"}, {"text": "他走了", "words": [1, 3]}, {"text": "and the end"}]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    corpus = prepare_corpus([tmp_path / "r.jsonl"], wordpiece_tokenizer)
    assert corpus.words is not None
    assert len(corpus.words) == len(corpus.ids)
    start = int(corpus.document_starts[1])
    assert corpus.words[start : start + 3].tolist() == [True, True, False]
    other_tokens = np.r_[0:start, start + 3 : len(corpus)]
    assert np.array_equal(corpus.words[other_tokens], ~wordpiece_tokenizer.continuation_mask[corpus.ids[other_tokens]])
    assert wordpiece_tokenizer.continuation_mask[corpus.ids[other_tokens]].any()


def test_word_tokenizer_follows_words_marked_in_some_records(tmp_path):
    records = [{"text": "the cat sat"}, {"text": "今天天气好", "words": [4, 5]}]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    tokenizer = train_tokenizer("words", ["the cat sat 今天天气 好"], split="spaces")
    corpus = prepare_corpus([tmp_path / "r.jsonl"], tokenizer)
    assert [tokenizer.id_to_token(i) for i in corpus.ids.tolist()] == ["the", "cat", "sat", "今天天气", "好"]


def test_many_sentences_without_tokens_take_linear_time(tmp_path, wordpiece_tokenizer):
    (tmp_path / "t.txt").write_text("x\n" + "\x01\n" * 40_000)
    start = time.monotonic()
    corpus = prepare_corpus([tmp_path / "t.txt"], wordpiece_tokenizer)
    assert time.monotonic() - start < 20
    assert corpus.ledger.drops["no tokens in it"].count == 40_000
    last = (corpus.folder / "dropped.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["line"] == 40_001


class FailingTokenizer(Tokenizer):
    """Raises an error on one word, in any process."""

    def encode_batch(self, texts, ends=None):
        if any("boom" in text for text in texts):
            raise ValueError("will not encode this")
        return super().encode_batch(texts, ends)


@pytest.mark.parametrize("workers", [1, 3])
def test_worker_failure_names_file_and_line(tmp_path, wordpiece_tokenizer, workers, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 50)
    text = tmp_path / "t.txt"
    text.write_text("\n\n".join(["fine text here"] * 20 + ["this goes boom"] + ["fine"] * 20))
    tokenizer = FailingTokenizer(wordpiece_tokenizer._spec)
    with pytest.raises(ForebearError, match="ValueError: will not encode this") as caught:
        prepare_corpus([text], tokenizer, to=tmp_path / "c", workers=workers)
    assert (caught.value.file, caught.value.line) == (str(text), 41)
    assert not (tmp_path / "c").exists()


def test_compressed_files_with_unusual_names_are_prepared(tmp_path, wordpiece_tokenizer):
    folder = tmp_path / "my texts 中文\nnew line"
    folder.mkdir()
    (folder / "一 二.txt.gz").write_bytes(gzip.compress(STORY.encode()))
    (folder / "b.jsonl").write_text(json.dumps({"text": "他走了。"}))
    corpus = prepare_corpus([folder], wordpiece_tokenizer, to=tmp_path / "to here 这里\n", workers=2)
    assert len(corpus.documents) == 5
    assert Corpus.open(corpus.folder).key == corpus.key


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(
        st.text(alphabet=st.sampled_from("ab. 中。！\n\x00\u200d😀\t"), max_size=30), min_size=1, max_size=8
    ),
    division=st.sampled_from(["blank", "files", "lines"]),
    mode=st.sampled_from(["split", "lines", "flow", "whole"]),
    shard=st.integers(1, 40),
)
def test_ledger_of_prepared_corpus_balances_for_any_text(
    tmp_path_factory, wordpiece_tokenizer, parts, division, mode, shard
):
    folder = tmp_path_factory.mktemp("any")
    (folder / "t.txt").write_text("x\n" + "\n\n".join(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD_CHARACTERS", shard)
        corpus = prepare_corpus(
            [folder / "t.txt"],
            wordpiece_tokenizer,
            text_format=TextFormat(documents=division),
            sentences=mode,
            to=folder / "c",
        )
    corpus.ledger.verify()
    counts = corpus.ledger.stage("tokens").outputs
    assert counts["documents"] == len(corpus.documents) - 1 == len(corpus.hashes)
    assert counts["sentences"] == len(corpus.sentences) - 1 == len(corpus.sizes) == len(corpus.unknown)
    assert counts["tokens"] == len(corpus)
    assert (np.diff(corpus.sentences) > 0).all()
    assert (np.diff(corpus.documents) > 0).all()
    assert (corpus.unknown <= corpus.sizes).all()
    assert counts["bytes"] <= corpus.all_documents().num_bytes <= corpus.ledger.stage("sentences").outputs["bytes"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "text_format"),
    [
        ("zhwiki.txt", TextFormat()),
        ("wikitext2/train.txt", TextFormat()),
        ("peoples-daily-1998-tagged.txt", TextFormat(format="tagged", documents="lines")),
    ],
)
def test_ledger_balances_for_real_corpora(data, tmp_path, name, text_format):
    characters = train_tokenizer("characters", [STORY])
    corpus = prepare_corpus(
        [data / "corpora" / name], characters, text_format=text_format, to=tmp_path / "c", workers=2
    )
    corpus.ledger.verify()
    read = corpus.ledger.stage("read")
    assert read.inputs["bytes"] == (data / "corpora" / name).stat().st_size
    assert corpus.ledger.stage("tokens").outputs["documents"] == read.outputs["documents"] == len(corpus.documents) - 1
    assert (corpus.words is not None) == (text_format.format == "tagged")
    assert corpus.all_documents().num_bytes == corpus.ledger.stage("sentences").outputs["bytes"]
    corpus.verify()


def test_whitespace_words_prepared_in_memory_equal_those_of_shards(tmp_path, monkeypatch):
    """All files of both corpora are equal, except for the order of dropped.jsonl."""
    text = "\n\n".join(
        f"{'a word and another é 中文 ' * (number % 7)}{number}\n x y\u3000z \n" for number in range(300)
    )
    (tmp_path / "text.txt").write_text(text + "\n\n \u200b\n\n")
    tokenizer = train_tokenizer("words", [text], split="spaces", min_count=2)
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 500)
    folders = []
    for in_memory in (True, False):
        monkeypatch.setattr(prepare_module, "MAX_IN_MEMORY_BYTES", 1 << 20 if in_memory else 0)
        folders.append(tmp_path / f"corpus {in_memory}")
        progress_bytes = []
        corpus = prepare_corpus(
            tmp_path / "text.txt", Tokenizer(tokenizer.spec), to=folders[-1], workers=1,
            progress=lambda at, total, progress_bytes=progress_bytes: progress_bytes.append(at),
        )  # fmt: skip
        assert progress_bytes
        assert progress_bytes[-1] == (tmp_path / "text.txt").stat().st_size
        assert corpus.metadata["counts"]["unknown"] > 0
    assert len(sorted(folders[0].iterdir())) == len(sorted(folders[1].iterdir()))
    for file in folders[0].iterdir():
        if file.name != "dropped.jsonl":
            assert file.read_bytes() == (folders[1] / file.name).read_bytes(), file.name
    lines = [sorted((folder / "dropped.jsonl").read_text().splitlines()) for folder in folders]
    assert lines[0] == lines[1]
