"""Lines found by their bytes are the sentences that the readable twin finds, whatever the text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.corpus.encode import DocumentEncoder
from forebear.data.io.documents import Document
from forebear.data.sentences import MAX_TRAILING_SPACES, document_lines, split_sentences
from forebear.data.tokenizers import pretokens
from forebear.data.tokenizers.train import train_tokenizer
from nasty import strings

# Words between gaps, with white space of all widths at the ends of lines, and marks that end lines as well.
PIECES = st.sampled_from(
    ["a", "word", "é", "中文。", " ", "  ", "\t", "\x1c", "\xa0", "\u3000", "\u2003", "\n", "\n", "\r", "\u2028"]
)
lines = st.lists(PIECES, min_size=1, max_size=14).map("".join)


@settings(max_examples=500, deadline=None)
@given(texts=st.lists(st.one_of(lines, strings()), min_size=1, max_size=4))
def test_lines_are_sentences(texts: list[str]):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    found = document_lines([Document(text, "file", 1) for text in texts])
    told = [split_sentences(text, "lines") for text in texts]
    if found is None:
        return
    assert found.line_counts.tolist() == list(map(len, told))
    assert found.sizes.tolist() == [len(sentence.encode()) for text in told for sentence in text]
    begins = np.concatenate(([0], found.ends[:-1]))
    cut = [found.data[a:b] for a, b in zip(begins.tolist(), found.ends.tolist(), strict=True)]
    lasts = set(np.cumsum(found.line_counts) - 1)
    whole = [sentence for text in told for sentence in text]
    for number, (mine, sentence) in enumerate(zip(cut, whole, strict=True)):
        assert mine.decode().rstrip("\n") == sentence.rstrip("\n") if number in lasts else mine.decode() == sentence


@pytest.mark.parametrize(
    ("text", "many"),
    [("one\ntwo", 2), ("one\ntwo\n", 2), (" one \n two  \n", 2), ("一\u3000二\n三", 2), ("\u3000一。\n二", 2)],
)
def test_plain_text_is_taken(text: str, many: int):
    found = document_lines([Document(text, "file", 1)])
    assert found is not None
    assert found.line_counts.tolist() == [many]


@pytest.mark.parametrize(
    "text", ["a\n\nb", "\na", "a\n \nb", "a\u3000\nb", "a\x85b", "a\r\nb", "a" + " " * MAX_TRAILING_SPACES + "\nb"]
)
def test_what_is_not_plain_is_left_to_the_twin(text: str):
    assert document_lines([Document(text, "file", 1)]) is None


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(lines.filter(str.strip), min_size=1, max_size=4))
def test_documents_become_the_same_arrays(texts: list[str]):
    documents = [Document(text, "file", 1) for text in texts]
    tokenizer = train_tokenizer("words", texts, split="spaces", min_count=2)
    made = []
    for compiled in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pretokens, "worth_compiling", lambda _, on=compiled: on)
            tokenizer.clear_cache()
            made.append(DocumentEncoder(tokenizer, "lines").encode(documents))
    for name in ("ids", "sentences", "sizes", "unknown", "documents", "before", "hashes", "continued"):
        assert getattr(made[0], name).tolist() == getattr(made[1], name).tolist(), name
    assert made[0].ledger.to_dict() == made[1].ledger.to_dict()
    assert made[0].dropped == made[1].dropped
    assert made[0].empty_documents == made[1].empty_documents
