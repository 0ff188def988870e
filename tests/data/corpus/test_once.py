"""A text that is read once becomes the very files that reading it twice gives."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebear.data.corpus import shards
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import SinglePassText, prepare_corpus
from forebear.data.io.reader import TextFormat
from forebear.data.source import TokenizerTrainingOptions, tokenizer_for
from forebear.data.tokenizers import pretokens
from forebear.data.tokenizers.tokenizer_json import SEPARATOR
from forebear.errors import InputError

WORDS = ["a", "word", "another-word", "[UNK]", "[MASK]", "é", "中文", "x" * 9, "1234567", "\u200b", "\x0b", SEPARATOR]
WHITE = [" ", "  ", "\n", "\n\n", "\n \n", "\t", "\u3000", "\r\n", "\xa0"]
texts = st.lists(st.sampled_from(WORDS + WHITE), min_size=1, max_size=60).map("".join)


def made(
    text: Path, folder: Path, learning: TokenizerTrainingOptions, most: int | None, **how
) -> tuple[Corpus, SinglePassText | None]:
    """The corpus of this text; with `most`, read once if it has no more bytes than that."""
    reading = TextFormat(**how)
    once = None if most is None else SinglePassText(reading, "lines", most)
    tokenizer = tokenizer_for("spaces", [text], reading, learning, single_pass=once)
    return prepare_corpus(
        [text], tokenizer, text_format=reading, sentences="lines", to=folder, workers=1, single_pass=once
    ), once


def compared(text: Path, folder: Path, learning: TokenizerTrainingOptions, **how) -> bool:
    """Both ways give the same files; whether it was read once in truth."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache one"))
        _, once = made(text, folder / "one", learning, 1 << 20, **how)
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache two"))
        made(text, folder / "two", learning, None, **how)
    assert [one.name for one in sorted((folder / "one").iterdir())] == [
        one.name for one in sorted((folder / "two").iterdir())
    ]
    for one in (folder / "one").iterdir():
        mine, other = one.read_bytes(), (folder / "two" / one.name).read_bytes()
        assert sorted(mine.splitlines()) == sorted(other.splitlines()) if one.name == "dropped.jsonl" else mine == other
    assert once is not None
    return once.ids is not None


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=texts,
    size=st.sampled_from([12, 1 << 28]),
    least=st.integers(1, 2),
    documents=st.sampled_from(["blank", "lines", "files"]),
)
def test_both_ways_give_the_same_files(text, size, least, documents, compiled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    (folder / "text.txt").write_text(text, newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokens, "worth_compiling", lambda _: compiled)
        patch.setattr(shards, "SHARD_CHARACTERS", 40)
        learning = TokenizerTrainingOptions(size=size, min_count=least)
        try:
            compared(folder / "text.txt", folder, learning, documents=documents)
        except InputError:  # then the other way refuses it too
            with pytest.raises(InputError, match=r"no text|no token"):
                made(folder / "text.txt", folder / "three", learning, None, documents=documents)


def test_plain_text_is_read_once_and_odd_text_twice(tmp_path):
    for name, text, once in (("plain", "a b a\nc [UNK]\n", True), ("odd", "a b\u3000c\nd\n", False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text.txt").write_text(text)
        assert compared(tmp_path / name / "text.txt", tmp_path / name, TokenizerTrainingOptions(min_count=1)) is once


def test_bad_bytes_and_files_set_aside_are_in_the_books(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "one.txt").write_bytes(b"a b\xff c\n\n\xe4\xb8\xad x\n")
    (tmp_path / "text" / "two.png").write_bytes(b"\x89PNG\x00\x01")
    assert compared(tmp_path / "text", tmp_path, TokenizerTrainingOptions(min_count=1), on_bad_bytes="replace")


def test_too_much_text_is_not_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a b c\n" * 10)
    _, once = made(tmp_path / "text.txt", tmp_path / "corpus", TokenizerTrainingOptions(), most=59)
    assert once is not None
    assert once.ids is None


def test_a_text_that_changes_in_between_is_told(tmp_path, monkeypatch):
    """What was taken of it is not what is there now, so it is read again, with the tokenizer of then."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "text.txt"
    text.write_text("a b c\n")
    once = SinglePassText(TextFormat(), "lines", 1 << 20)
    tokenizer = tokenizer_for("spaces", [text], TextFormat(), TokenizerTrainingOptions(), single_pass=once)
    text.write_text("a b d\nc\n")
    corpus = prepare_corpus([text], tokenizer, sentences="lines", workers=1, single_pass=once)
    assert corpus.metadata["counts"]["tokens"] == 4
    assert corpus.metadata["counts"]["unknown"] == 1
