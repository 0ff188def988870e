"""Documents become arrays of ids, sentence sizes and document bounds, as computed sentence by sentence."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forebear.data.corpus import shards
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.sentences import split_sentences
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from hostile_texts import hostile_lines
from story_corpus import read_documents, unknown_byte_count


def reference_rows(documents, tokenizer, mode):
    """Bytes and unknown bytes of each sentence with tokens, and how many sentences each document with tokens has."""
    rows, counts, pending_bytes = [], [], 0
    for document in documents:
        if document.part == 0:
            counts.append(0)
            pending_bytes = 0
        for sentence in split_sentences(document.text, mode):
            size = len(sentence.encode())
            if len(tokenizer.encode(sentence).ids):
                rows.append([size + pending_bytes, unknown_byte_count(tokenizer, sentence)])
                counts[-1] += 1
                pending_bytes = 0
            elif counts[-1]:
                rows[-1][0] += size
            else:
                pending_bytes += size
    return rows, [count for count in counts if count]


LINES = ["a b", "dog。", "x", "\x07", "\x07" * 9, "中", "", "\x07 \x01. \x07!"]
TEXTS = st.lists(st.lists(st.sampled_from(LINES), min_size=1, max_size=8).map("\n".join), max_size=6)


@settings(max_examples=40, deadline=None)
@given(texts=TEXTS, mode=st.sampled_from(["split", "lines", "whole"]), part=st.integers(2, 9), shard=st.integers(1, 40))
@example(texts=["\x07", "\x07" * 9 + "x"], mode="lines", part=2, shard=3)
def test_bytes_without_tokens_are_counted_with_a_neighbor_sentence(
    tmp_path_factory, wordpiece_tokenizer, texts, mode, part, shard
):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "r.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in [*texts, "end"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forebear.data.io.document.PART_CHARACTERS", part)
        patch.setattr(shards, "SHARD_CHARACTERS", shard)
        documents, _ = read_documents(folder / "r.jsonl")
        corpus = prepare_corpus([folder / "r.jsonl"], wordpiece_tokenizer, sentences=mode, to=folder / "c", workers=1)
    rows, counts = reference_rows(documents, wordpiece_tokenizer, mode)
    assert np.stack((corpus.sizes, corpus.unknown), axis=1).tolist() == rows
    assert np.diff(corpus.documents).tolist() == counts


def test_whole_documents_have_the_tokens_of_the_unsplit_text(data, tmp_path, monkeypatch):
    gpt2 = Tokenizer.load(data / "weights/gpt2_bpe")
    english = (data / "corpora/wikitext2/wiki.valid.raw").read_text(encoding="utf-8")[:50_000].strip()
    chinese = (data / "corpora/zhwiki.txt").read_text(encoding="utf-8")[:20_000].strip()
    texts = [english, chinese, *hostile_lines(40, seed=3)]
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    corpus = prepare_corpus([tmp_path / "r.jsonl"], gpt2, sentences="whole")
    documents, _ = read_documents(tmp_path / "r.jsonl")
    assert len(documents) == len(corpus.hashes)
    for number, document in enumerate(documents):
        assert np.array_equal(corpus.document_ids(number), gpt2.encode(document.text).ids), document.text[:50]
    assert np.array_equal(corpus.sentences, corpus.document_starts)
    monkeypatch.setattr("forebear.data.io.document.PART_CHARACTERS", 10_000)
    parts, _ = read_documents(tmp_path / "r.jsonl")
    assert len(parts) > len(documents)
    corpus_of_parts = prepare_corpus([tmp_path / "r.jsonl"], gpt2, sentences="whole", to=tmp_path / "parts")
    assert np.array_equal(corpus_of_parts.ids, np.concatenate([gpt2.encode(part.text).ids for part in parts]))
    assert len(corpus_of_parts.sizes) == len(parts)
    assert np.array_equal(corpus_of_parts.all_documents().unit_bytes, corpus.sizes)


def test_tokens_cross_sentences_only_in_whole_documents(tmp_path):
    text = "他走了。“她也走了。”"
    bpe = train_tokenizer("bytepair", [text] * 20, size=300)
    assert "。“" in [bpe.decode([i]) for i in range(bpe.vocab_size)]
    (tmp_path / "t.txt").write_text(text)
    document_ids, sentence_ids = (
        prepare_corpus([tmp_path / "t.txt"], bpe, sentences=mode).ids.tolist() for mode in ("whole", "split")
    )
    assert document_ids == bpe.encode(text).ids.tolist() != sentence_ids
