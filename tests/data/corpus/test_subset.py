"""Subsets of a corpus: counts equal sums over sentences, slices are exact, and sides of a split share no sentence."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.corpus import subset
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset
from forebear.data.io.text_formats import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError


def make_corpus(documents: list[list[tuple[int, int, int]]], hashes: list[int] | None = None) -> Corpus:
    """A corpus from (tokens, bytes, unknown bytes) of each sentence of each document; hashes default to the highest."""
    flat = np.array([sentence for document in documents for sentence in document], np.int64).reshape(-1, 3)
    starts = np.cumsum([0, *map(len, documents)])
    tokens = np.concatenate(([0], np.cumsum(flat[:, 0])))
    content_hashes = np.array(hashes or [2**64 - 1] * len(documents), np.uint64)
    sizes, unknown = flat[:, 1].astype(np.uint32), flat[:, 2].astype(np.uint32)
    return Corpus(Path("c"), {}, np.arange(tokens[-1]), tokens, starts, content_hashes, sizes, unknown, None)


SENTENCES = st.tuples(st.integers(1, 9), st.integers(1, 50), st.integers(0, 3))
DOCUMENTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=6), min_size=1, max_size=12)


def sentence_numbers(selection: Subset) -> list[int]:
    """The numbers of the sentences of a subset."""
    return [sentence for first, last in selection.units.tolist() for sentence in range(first, last)]


@given(DOCUMENTS, st.data(), st.sampled_from([1, 2, 3, 1 << 20]))
def test_subset_counts_equal_sums_over_its_sentences(documents, data, block):
    corpus = make_corpus(documents)
    numbers = data.draw(st.lists(st.integers(0, len(documents) - 1), unique=True))
    selection = Subset(corpus, corpus.all_documents().units[numbers].reshape(-1, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subset, "UNITS_PER_BLOCK", block)
        assert selection.unit_bytes.tolist() == [sum(size for _, size, _ in documents[n]) for n in numbers]
        assert selection.unit_unknown_bytes.tolist() == [
            sum(unknown for _, _, unknown in documents[n]) for n in numbers
        ]
    assert (selection.num_bytes, selection.unknown_bytes) == (
        sum(selection.unit_bytes.tolist()),
        sum(selection.unit_unknown_bytes.tolist()),
    )
    assert selection.num_tokens == sum(count for n in numbers for count, _, _ in documents[n])
    assert [corpus.ids[a:b].tolist() for a, b in selection.spans] == [corpus.document_ids(n).tolist() for n in numbers]
    sentence_units = selection.by_sentence()
    assert sentence_units.units.tolist() == [[n, n + 1] for n in sentence_numbers(selection)]
    assert len(sentence_units) == sum(len(documents[n]) for n in numbers)
    assert (sentence_units.num_tokens, sentence_units.num_bytes, sentence_units.unknown_bytes) == (
        selection.num_tokens,
        selection.num_bytes,
        selection.unknown_bytes,
    )


@given(DOCUMENTS, st.integers(0, 2000), st.sampled_from([1, 2, 1 << 20]))
def test_first_takes_the_fewest_sentences_with_enough_bytes(documents, size, block):
    everything = make_corpus(documents).all_documents()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subset, "UNITS_PER_BLOCK", block)
        selection = everything.first(size)
    assert sentence_numbers(selection) == sentence_numbers(everything)[: len(sentence_numbers(selection))]
    assert selection.units[:-1].tolist() == everything.units[: len(selection) - 1].tolist()
    assert selection.num_bytes >= min(size, everything.num_bytes)
    sizes = everything.corpus.sizes[sentence_numbers(selection)].tolist()
    assert sum(sizes[:-1]) < max(size, 1)  # one sentence less would have been too few


@given(DOCUMENTS, st.floats(0.01, 0.99), st.sampled_from([1, 3, 1 << 20]))
def test_end_of_the_text_is_held_out_where_documents_are_too_few(documents, share, block):
    corpus = make_corpus(documents)
    if len(corpus.sizes) == 1:
        with pytest.raises(InputError, match="single sentence") as caught:
            corpus.split(share)
        assert "--sentences lines" in caught.value.hint
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subset, "UNITS_PER_BLOCK", block)
        split = corpus.split(share)
    assert split.method == "position"
    assert len(split.train) > 0 < len(split.held_out)
    assert [*sentence_numbers(split.train), *sentence_numbers(split.held_out)] == list(range(len(corpus.sizes)))
    assert {*split.train.units[:, 0].tolist(), *split.held_out.units[:, 1].tolist()} <= set(corpus.documents.tolist())
    train_bytes = round(corpus.all_documents().num_bytes * (1 - share))
    sizes = corpus.sizes[sentence_numbers(split.train)].tolist()
    assert sum(sizes) >= train_bytes or len(split.held_out.by_sentence()) == 1
    assert sum(sizes[:-1]) < train_bytes or len(sizes) == 1


def test_split_follows_content_hashes():
    corpus = make_corpus([[(1, 5, 0)], [(2, 6, 1), (3, 7, 0)], [(4, 8, 0)]], hashes=[2**63, 2**62, 2**64 - 1])
    split = corpus.split(0.4)
    assert split.method == "content"
    assert (split.train.units.tolist(), split.held_out.units.tolist()) == ([[0, 1], [3, 4]], [[1, 3]])
    assert (split.held_out.num_tokens, split.held_out.num_bytes, split.held_out.unknown_bytes) == (5, 13, 1)


def test_single_document_is_split_at_the_same_byte_with_any_tokenizer(tmp_path):
    novel = "".join(f"Chapter {n} begins. 第{n}章开始了！Nobody knew why {n * n} birds sang.\n\n" for n in range(50))
    (tmp_path / "novel.txt").write_text(novel)
    train_bytes = set()
    for kind in ("characters", "words", "bytepair"):
        tokenizer = train_tokenizer(kind, [novel])
        corpus = prepare_corpus(
            [tmp_path / "novel.txt"], tokenizer, text_format=TextFormat(documents="files"), to=tmp_path / kind
        )
        split = corpus.split(0.1)
        assert (split.method, len(split.train), len(split.held_out)) == ("position", 1, 1)
        assert 0.09 < split.held_out.num_bytes / len(novel.encode()) <= 0.1
        train_bytes.add(split.train.num_bytes)
    assert len(train_bytes) == 1


def test_pickled_subset_is_small_and_complete(story_path, wordpiece_tokenizer):
    selection = prepare_corpus([story_path], wordpiece_tokenizer).all_documents()
    assert (selection.num_bytes, selection.num_tokens, selection.unknown_bytes) == (71, len(selection.corpus), 0)
    unpickled = pickle.loads(pickle.dumps(selection))
    assert len(pickle.dumps(selection)) < 1000
    assert (unpickled.corpus.key, unpickled.units.tolist()) == (selection.corpus.key, selection.units.tolist())
    assert unpickled.spans.tolist() == selection.spans.tolist()


@given(DOCUMENTS, st.data())
def test_token_slice_reads_units_as_one_sequence(documents, data):
    everything = make_corpus(documents).all_documents()
    kept = data.draw(
        st.permutations(range(len(everything))).flatmap(lambda all_: st.sampled_from([sorted(all_), all_]))
    )
    selection = Subset(everything.corpus, everything.units[kept[: data.draw(st.integers(1, len(kept)))]])
    units = [list(range(first, last)) for first, last in selection.spans.tolist()]
    start = data.draw(st.integers(0, selection.num_tokens - 1))
    end = data.draw(st.integers(start + 1, selection.num_tokens))
    tokens, sizes = selection.token_slice(start, end)
    assert tokens.tolist() == [token for unit in units for token in unit][start:end]
    unit_numbers = [number for number, unit in enumerate(units) for _ in unit][start:end]
    assert sizes.tolist() == [unit_numbers.count(number) for number in sorted(set(unit_numbers))]


def test_token_slice_follows_the_order_of_shuffled_units():
    everything = make_corpus([[(2, 1, 0)]] * 4).all_documents()
    assert Subset(everything.corpus, everything.units[[0, 2, 1, 3]]).token_slice(0, 8)[0].tolist() == [
        0,
        1,
        4,
        5,
        2,
        3,
        6,
        7,
    ]
