"""Text that is read in a single pass gives the same corpus files as text that is read twice."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebear.data.corpus import shards
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.single_pass import SinglePassText
from forebear.data.io.text_formats import TextFormat
from forebear.data.source import TokenizerTrainingOptions, tokenizer_for
from forebear.data.tokenizers import pretokens
from forebear.data.tokenizers.tokenizer_json import SEPARATOR
from forebear.errors import InputError

WORDS = ["a", "word", "another-word", "[UNK]", "[MASK]", "é", "中文", "x" * 9, "1234567", "\u200b", "\x0b", SEPARATOR]
WHITE = [" ", "  ", "\n", "\n\n", "\n \n", "\t", "\u3000", "\r\n", "\xa0"]
texts = st.lists(st.sampled_from(WORDS + WHITE), min_size=1, max_size=60).map("".join)


def prepare_text(
    text: Path, folder: Path, training: TokenizerTrainingOptions, max_bytes: int | None, **options
) -> tuple[Corpus, SinglePassText | None]:
    """The corpus of this text; with `max_bytes`, read in a single pass if it has no more bytes than that."""
    reading = TextFormat(**options)
    single_pass = None if max_bytes is None else SinglePassText(reading, "lines", max_bytes)
    tokenizer = tokenizer_for("spaces", [text], reading, training, single_pass=single_pass)
    return prepare_corpus(
        [text], tokenizer, text_format=reading, sentences="lines", to=folder, workers=1, single_pass=single_pass
    ), single_pass


def compare_ways(text: Path, folder: Path, training: TokenizerTrainingOptions, **options) -> bool:
    """Asserts that both ways give the same files; whether the text was read in a single pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache one"))
        _, single_pass = prepare_text(text, folder / "one", training, 1 << 20, **options)
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache two"))
        prepare_text(text, folder / "two", training, None, **options)
    assert [file.name for file in sorted((folder / "one").iterdir())] == [
        file.name for file in sorted((folder / "two").iterdir())
    ]
    for file in (folder / "one").iterdir():
        single_pass_bytes, two_pass_bytes = file.read_bytes(), (folder / "two" / file.name).read_bytes()
        assert (
            sorted(single_pass_bytes.splitlines()) == sorted(two_pass_bytes.splitlines())
            if file.name == "dropped.jsonl"
            else single_pass_bytes == two_pass_bytes
        )
    assert single_pass is not None
    return single_pass.ids is not None


@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=texts,
    size=st.sampled_from([12, 1 << 28]),
    min_count=st.integers(1, 2),
    documents=st.sampled_from(["blank", "lines", "files"]),
)
def test_single_pass_gives_the_same_files_as_two_passes(text, size, min_count, documents, compiled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    (folder / "text.txt").write_text(text, newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokens, "worth_compiling", lambda _: compiled)
        patch.setattr(shards, "SHARD_CHARACTERS", 40)
        training = TokenizerTrainingOptions(size=size, min_count=min_count)
        try:
            compare_ways(folder / "text.txt", folder, training, documents=documents)
        except InputError:  # then the other way refuses it too
            with pytest.raises(InputError, match=r"no text|no token"):
                prepare_text(folder / "text.txt", folder / "three", training, None, documents=documents)


def test_plain_text_is_read_once_and_unusual_white_space_twice(tmp_path):
    for name, text, read_once in (("plain", "a b a\nc [UNK]\n", True), ("odd", "a b\u3000c\nd\n", False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text.txt").write_text(text)
        assert (
            compare_ways(tmp_path / name / "text.txt", tmp_path / name, TokenizerTrainingOptions(min_count=1))
            is read_once
        )


def test_single_pass_enters_bad_bytes_and_skipped_files_in_the_ledger(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "one.txt").write_bytes(b"a b\xff c\n\n\xe4\xb8\xad x\n")
    (tmp_path / "text" / "two.png").write_bytes(b"\x89PNG\x00\x01")
    assert compare_ways(tmp_path / "text", tmp_path, TokenizerTrainingOptions(min_count=1), on_bad_bytes="replace")


def test_text_above_the_limit_is_not_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a b c\n" * 10)
    _, single_pass = prepare_text(tmp_path / "text.txt", tmp_path / "corpus", TokenizerTrainingOptions(), max_bytes=59)
    assert single_pass is not None
    assert single_pass.ids is None


def test_text_changed_between_the_passes_is_read_again(tmp_path, monkeypatch):
    """The text is read again and encoded with the tokenizer trained before the change."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "text.txt"
    text.write_text("a b c\n")
    single_pass = SinglePassText(TextFormat(), "lines", 1 << 20)
    tokenizer = tokenizer_for("spaces", [text], TextFormat(), TokenizerTrainingOptions(), single_pass=single_pass)
    text.write_text("a b d\nc\n")
    corpus = prepare_corpus([text], tokenizer, sentences="lines", workers=1, single_pass=single_pass)
    assert corpus.metadata["counts"]["tokens"] == 4
    assert corpus.metadata["counts"]["unknown"] == 1
