"""Lines split by their bytes equal the sentences of the reference implementation, for any text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.corpus.document_encoder import DocumentEncoder
from forebear.data.io.document import Document
from forebear.data.sentences import MAX_TRAILING_SPACES, document_lines, split_sentences
from forebear.data.tokenizers import pretokens
from forebear.data.tokenizers.train import train_tokenizer
from hostile_texts import hostile_strings

# Words between spaces, with white space of all widths at the ends of lines, and marks that end lines as well.
PIECES = st.sampled_from(
    ["a", "word", "é", "中文。", " ", "  ", "\t", "\x1c", "\xa0", "\u3000", "\u2003", "\n", "\n", "\r", "\u2028"]
)
line_texts = st.lists(PIECES, min_size=1, max_size=14).map("".join)


@settings(max_examples=500, deadline=None)
@given(texts=st.lists(st.one_of(line_texts, hostile_strings()), min_size=1, max_size=4))
def test_byte_lines_equal_reference_sentences(texts: list[str]):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    actual = document_lines([Document(text, "file", 1) for text in texts])
    expected = [split_sentences(text, "lines") for text in texts]
    if actual is None:
        return
    assert actual.line_counts.tolist() == list(map(len, expected))
    assert actual.sizes.tolist() == [len(sentence.encode()) for text in expected for sentence in text]
    starts = np.concatenate(([0], actual.ends[:-1]))
    lines = [actual.data[a:b] for a, b in zip(starts.tolist(), actual.ends.tolist(), strict=True)]
    lasts = set(np.cumsum(actual.line_counts) - 1)
    sentences = [sentence for text in expected for sentence in text]
    for number, (line, sentence) in enumerate(zip(lines, sentences, strict=True)):
        assert line.decode().rstrip("\n") == sentence.rstrip("\n") if number in lasts else line.decode() == sentence


@pytest.mark.parametrize(
    ("text", "count"),
    [("one\ntwo", 2), ("one\ntwo\n", 2), (" one \n two  \n", 2), ("一\u3000二\n三", 2), ("\u3000一。\n二", 2)],
)
def test_plain_text_is_split_by_bytes(text: str, count: int):
    actual = document_lines([Document(text, "file", 1)])
    assert actual is not None
    assert actual.line_counts.tolist() == [count]


@pytest.mark.parametrize(
    "text", ["a\n\nb", "\na", "a\n \nb", "a\u3000\nb", "a\x85b", "a\r\nb", "a" + " " * MAX_TRAILING_SPACES + "\nb"]
)
def test_text_with_unusual_white_space_is_left_to_the_reference(text: str):
    assert document_lines([Document(text, "file", 1)]) is None


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(line_texts.filter(str.strip), min_size=1, max_size=4))
def test_compiled_and_reference_encoding_give_the_same_arrays(texts: list[str]):
    documents = [Document(text, "file", 1) for text in texts]
    tokenizer = train_tokenizer("words", texts, split="spaces", min_count=2)
    encoded = []
    for compiled in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pretokens, "worth_compiling", lambda _, on=compiled: on)
            tokenizer.clear_cache()
            encoded.append(DocumentEncoder(tokenizer, "lines").encode(documents))
    for name in ("ids", "sentences", "sizes", "unknown", "documents", "before", "hashes", "continued"):
        assert getattr(encoded[0], name).tolist() == getattr(encoded[1], name).tolist(), name
    assert encoded[0].ledger.to_dict() == encoded[1].ledger.to_dict()
    assert encoded[0].dropped == encoded[1].dropped
    assert encoded[0].empty_documents == encoded[1].empty_documents
