"""Portions of a corpus: sums as by hand, cut as told, and sides that never share a sentence."""

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
from forebear.data.io.reader import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError


def corpus_of(documents: list[list[tuple[int, int, int]]], hashes: list[int] | None = None) -> Corpus:
    """A corpus from (tokens, bytes, unknown bytes) of each sentence of each document; hashes are high if not told."""
    flat = np.array([sentence for document in documents for sentence in document], np.int64).reshape(-1, 3)
    starts = np.cumsum([0, *map(len, documents)])
    tokens = np.concatenate(([0], np.cumsum(flat[:, 0])))
    said = np.array(hashes or [2**64 - 1] * len(documents), np.uint64)
    sizes, unknown = flat[:, 1].astype(np.uint32), flat[:, 2].astype(np.uint32)
    return Corpus(Path("c"), {}, np.arange(tokens[-1]), tokens, starts, said, sizes, unknown, None)


SENTENCES = st.tuples(st.integers(1, 9), st.integers(1, 50), st.integers(0, 3))
DOCUMENTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=6), min_size=1, max_size=12)


def listed(some: Subset) -> list[int]:
    """The sentences of a portion, one by one."""
    return [sentence for first, last in some.units.tolist() for sentence in range(first, last)]


@given(DOCUMENTS, st.data(), st.sampled_from([1, 2, 3, 1 << 20]))
def test_sums_are_those_of_the_sentences(documents, data, block):
    corpus = corpus_of(documents)
    numbers = data.draw(st.lists(st.integers(0, len(documents) - 1), unique=True))
    some = Subset(corpus, corpus.all_documents().units[numbers].reshape(-1, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subset, "UNITS_PER_BLOCK", block)
        assert some.unit_bytes.tolist() == [sum(size for _, size, _ in documents[n]) for n in numbers]
        assert some.unit_unknown_bytes.tolist() == [sum(lost for _, _, lost in documents[n]) for n in numbers]
    assert (some.num_bytes, some.unknown_bytes) == (
        sum(some.unit_bytes.tolist()),
        sum(some.unit_unknown_bytes.tolist()),
    )
    assert some.num_tokens == sum(count for n in numbers for count, _, _ in documents[n])
    assert [corpus.ids[a:b].tolist() for a, b in some.spans] == [corpus.document_ids(n).tolist() for n in numbers]
    single = some.by_sentence()
    assert single.units.tolist() == [[n, n + 1] for n in listed(some)]
    assert len(single) == sum(len(documents[n]) for n in numbers)
    assert (single.num_tokens, single.num_bytes, single.unknown_bytes) == (
        some.num_tokens,
        some.num_bytes,
        some.unknown_bytes,
    )


@given(DOCUMENTS, st.integers(0, 2000), st.sampled_from([1, 2, 1 << 20]))
def test_the_first_bytes(documents, size, block):
    whole = corpus_of(documents).all_documents()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subset, "UNITS_PER_BLOCK", block)
        some = whole.first(size)
    assert listed(some) == listed(whole)[: len(listed(some))]
    assert some.units[:-1].tolist() == whole.units[: len(some) - 1].tolist()
    assert some.num_bytes >= min(size, whole.num_bytes)
    sizes = whole.corpus.sizes[listed(some)].tolist()
    assert sum(sizes[:-1]) < max(size, 1)  # one sentence less would have been too few


@given(DOCUMENTS, st.floats(0.01, 0.99), st.sampled_from([1, 3, 1 << 20]))
def test_the_end_is_held_out_where_documents_are_too_few(documents, share, block):
    corpus = corpus_of(documents)
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
    assert [*listed(split.train), *listed(split.held_out)] == list(range(len(corpus.sizes)))
    assert {*split.train.units[:, 0].tolist(), *split.held_out.units[:, 1].tolist()} <= set(corpus.documents.tolist())
    wanted = round(corpus.all_documents().num_bytes * (1 - share))
    sizes = corpus.sizes[listed(split.train)].tolist()
    assert sum(sizes) >= wanted or len(split.held_out.by_sentence()) == 1
    assert sum(sizes[:-1]) < wanted or len(sizes) == 1


def test_sides_by_what_documents_say():
    corpus = corpus_of([[(1, 5, 0)], [(2, 6, 1), (3, 7, 0)], [(4, 8, 0)]], hashes=[2**63, 2**62, 2**64 - 1])
    split = corpus.split(0.4)
    assert split.method == "content"
    assert (split.train.units.tolist(), split.held_out.units.tolist()) == ([[0, 1], [3, 4]], [[1, 3]])
    assert (split.held_out.num_tokens, split.held_out.num_bytes, split.held_out.unknown_bytes) == (5, 13, 1)


def test_a_novel_is_split_at_the_same_place_whatever_the_tokenizer(tmp_path):
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


def test_a_portion_travels_light(story, pieces):
    some = prepare_corpus([story], pieces).all_documents()
    assert (some.num_bytes, some.num_tokens, some.unknown_bytes) == (71, len(some.corpus), 0)
    again = pickle.loads(pickle.dumps(some))
    assert len(pickle.dumps(some)) < 1000
    assert (again.corpus.key, again.units.tolist()) == (some.corpus.key, some.units.tolist())
    assert again.spans.tolist() == some.spans.tolist()


@given(DOCUMENTS, st.data())
def test_a_stretch_is_cut_from_all_units_in_a_row(documents, data):
    whole = corpus_of(documents).all_documents()
    kept = data.draw(st.permutations(range(len(whole))).flatmap(lambda all_: st.sampled_from([sorted(all_), all_])))
    some = Subset(whole.corpus, whole.units[kept[: data.draw(st.integers(1, len(kept)))]])
    units = [list(range(first, last)) for first, last in some.spans.tolist()]
    begin = data.draw(st.integers(0, some.num_tokens - 1))
    end = data.draw(st.integers(begin + 1, some.num_tokens))
    tokens, sizes = some.token_slice(begin, end)
    assert tokens.tolist() == [token for unit in units for token in unit][begin:end]
    owners = [number for number, unit in enumerate(units) for _ in unit][begin:end]
    assert sizes.tolist() == [owners.count(number) for number in sorted(set(owners))]


def test_a_stretch_of_units_that_changed_places():
    whole = corpus_of([[(2, 1, 0)]] * 4).all_documents()
    assert Subset(whole.corpus, whole.units[[0, 2, 1, 3]]).token_slice(0, 8)[0].tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
