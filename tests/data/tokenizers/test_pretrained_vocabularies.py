"""Published vocabularies load and give the ids that transformers gives; damaged ones are refused with a hint."""

import json
import random

import pytest

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from hostile_texts import hostile_lines

transformers = pytest.importorskip("transformers")

VOCABULARIES = {
    "bert-base-uncased-vocab.txt": (30522, True),
    "bert-base-cased-vocab.txt": (28996, False),
    "bert-base-chinese-vocab.txt": (21128, True),
    "ernie-1.0-zh-vocab.txt": (12089, True),
}
BERT_ROLES = ("padding", "unknown", "start", "end", "mask")


@pytest.fixture(scope="module")
def mixed_lines(data) -> list[str]:
    """10,000 lines: hostile ones, and real Chinese and English ones with hostile characters inserted."""
    draw = random.Random(7)
    hostile = hostile_lines(6000, seed=11)
    real = []
    for name in ("zhwiki.txt", "wikitext2/wiki.valid.raw"):
        text = (data / "corpora" / name).read_text(encoding="utf-8").split("\n")
        real += draw.sample([line for line in text if line.strip()], 2000)
    for i in range(0, len(real), 2):
        at = draw.randrange(len(real[i]) + 1)
        real[i] = real[i][:at] + draw.choice(hostile) + real[i][at:]
    assert len(hostile + real) == 10_000
    return hostile + real


def transformers_tokenizer(file, tmp_path, lower):
    """transformers' tokenizer over the same tokens; it does not read ERNIE's two columns."""
    tokens = [line.split("\t")[0] for line in file.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return transformers.BertTokenizer(vocab=str(vocab), do_lower_case=lower), tokens


def texts_with_other_ids(encoded, hf_tokenizer, texts, **options):
    expected_ids = hf_tokenizer(texts, add_special_tokens=False, **options)["input_ids"]
    ids, counts = encoded
    offset, different = 0, []
    for text, expected, count in zip(texts, expected_ids, counts.tolist(), strict=True):
        if expected != ids[offset : offset + count].tolist():
            different.append(text)
        offset += count
    return different


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", VOCABULARIES)
def test_bert_and_ernie_ids_equal_those_of_transformers(data, mixed_lines, name, tmp_path):
    size, lower = VOCABULARIES[name]
    tokenizer = Tokenizer.load(data / "weights/vocabs" / name)
    assert (tokenizer.kind, tokenizer.vocab_size, set(tokenizer.special_roles)) == ("wordpiece", size, set(BERT_ROLES))
    assert tokenizer.describe()["lower"] is lower
    hf_tokenizer, tokens = transformers_tokenizer(data / "weights/vocabs" / name, tmp_path, lower)
    assert tokenizer.vocabulary() == tokens
    assert (
        texts_with_other_ids(tokenizer.encode_many(mixed_lines), hf_tokenizer, mixed_lines, split_special_tokens=True)
        == []
    )
    assert (
        texts_with_other_ids(
            tokenizer.encode_many_reference(mixed_lines), hf_tokenizer, mixed_lines, split_special_tokens=True
        )
        == []
    )
    for text in mixed_lines[:2000]:
        expected = hf_tokenizer(text, add_special_tokens=False, return_offsets_mapping=False)["input_ids"]
        assert tokenizer.encode(text, specials=True).ids.tolist() == expected, text


def test_bert_pieces_equal_those_of_the_original_python_code(data, mixed_lines, tmp_path):
    """The old tokenizer, all Python; it differs from all fast ones where Unicode itself has changed since."""
    legacy = pytest.importorskip("transformers.models.bert.tokenization_bert_legacy")
    file = data / "weights/vocabs/bert-base-chinese-vocab.txt"
    tokenizer, legacy_tokenizer = Tokenizer.load(file), legacy.BertTokenizerLegacy(str(file))
    real = mixed_lines[6001::4]  # every other real line, those without hostile characters
    for text in real:
        tokens = legacy_tokenizer.basic_tokenizer.tokenize(text)
        pieces = [piece for token in tokens for piece in legacy_tokenizer.wordpiece_tokenizer.tokenize(token)]
        assert tokenizer.encode(text).texts == pieces, text


@pytest.mark.slow
def test_gpt2_ids_equal_those_of_transformers(data, mixed_lines):
    folder = data / "weights/gpt2_bpe"
    tokenizer = Tokenizer.load(folder)
    assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.special_roles) == (
        "bytepair",
        50257,
        {"start": 50256, "end": 50256},
    )
    hf_tokenizer = transformers.GPT2Tokenizer(vocab=str(folder / "encoder.json"), merges=str(folder / "vocab.bpe"))
    assert (
        texts_with_other_ids(tokenizer.encode_many(mixed_lines), hf_tokenizer, mixed_lines, split_special_tokens=True)
        == []
    )
    assert (
        texts_with_other_ids(
            tokenizer.encode_many_reference(mixed_lines), hf_tokenizer, mixed_lines, split_special_tokens=True
        )
        == []
    )
    for text in mixed_lines[:2000]:
        assert tokenizer.encode(text, specials=True).ids.tolist() == hf_tokenizer(text)["input_ids"], text
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    for name in ("encoder.json", "vocab.bpe"):
        assert Tokenizer.load(folder / name).digest == tokenizer.digest
    assert tokenizer.encode("Hello world, 你好").texts[:3] == ["Hello", "Ġworld", ","]


def test_lowercase_is_guessed_and_can_be_given(data):
    file = data / "weights/vocabs/bert-base-uncased-vocab.txt"
    assert Tokenizer.load(file).encode("Hello").texts == ["hello"]
    assert Tokenizer.load(file).describe()["lower_guessed"] is True
    cased = Tokenizer.load(file, lower=False)
    assert cased.encode("Hello").texts == ["[UNK]"]
    assert cased.describe()["lower_guessed"] is False
    assert cased.digest != Tokenizer.load(file).digest


def test_foreign_tokenizer_json_loses_truncation_padding_and_template(data, tmp_path):
    """Without our facts; with truncation and padding, which would lose text, and a template that adds tokens."""
    from tokenizers import Tokenizer as Rust
    from tokenizers import processors

    tokenizer = Tokenizer.load(data / "weights/vocabs/bert-base-uncased-vocab.txt")
    tokenizer.save(tmp_path / "ours.json")
    document = json.loads((tmp_path / "ours.json").read_text(encoding="utf-8"))
    del document["model"]["forebear"]
    rust = Rust.from_str(json.dumps(document))
    rust.enable_truncation(3)
    rust.enable_padding(length=8)
    rust.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    rust.save(str(tmp_path / "tokenizer.json"))
    foreign = Tokenizer.load(tmp_path)
    text = "one two three four five six"
    assert foreign.encode(text).ids.tolist() == tokenizer.encode(text).ids.tolist()
    assert foreign.encode_many([text])[1].tolist() == [6]
    assert (foreign.kind, foreign.special_roles) == ("wordpiece", tokenizer.special_roles)
    foreign.save(tmp_path / "again.json")
    assert Tokenizer.load(tmp_path / "again.json").describe() == foreign.describe()


def test_foreign_added_tokens_keep_their_ids(tmp_path):
    from tokenizers import Tokenizer as Rust
    from tokenizers import models, pre_tokenizers

    rust = Rust(models.WordLevel({"a": 0, "[UNK]": 1, "[MASK]": 2}, unk_token="[UNK]"))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(["[MASK]", "[LATE]"])
    rust.add_tokens(["new word"])
    rust.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.vocabulary() == ["a", "[UNK]", "[MASK]", "[LATE]", "new word"]
    text = "a [MASK] [LATE] new word"
    assert tokenizer.encode(text, specials=True).ids.tolist() == [0, 2, 3, 4]
    assert tokenizer.encode(text).ids.tolist() == tokenizer.encode_many([text])[0].tolist() == [0, 1, 1, 4]


VALID_VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n"
DAMAGED = {
    "twice": (VALID_VOCABULARY + "the\n", "vocab.txt:8: .*'the' stands twice"),
    "no unknown": ("the\na\n", r"\[UNK\]"),
    "empty": ("", "empty"),
    "blank": (" \n\n", "empty"),
    "pickle": (b"\x80\x04\x95\x10\x00", "pickle.*\n.*accepted are"),
    "sentencepiece": (b"\n\x0e\n\x05<unk>\x15\x00\x00\xff\xff", "accepted are"),
    "nul": (b"[UNK]\n\x00\n", "byte 6.*\n.*accepted are"),
    "hole": ("[UNK]\t0\na\t2\n", "no token has id 1"),
    "id twice": ("[UNK]\t0\na\t0\n", "vocab.txt:2: id 0 is given twice"),
    "no id": ("[UNK]\t0\na\n", "vocab.txt:2: .*token <tab> id"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_vocabulary_is_refused(tmp_path, case):
    content, message = DAMAGED[case]
    (tmp_path / "vocab.txt").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.load(tmp_path)
    assert str(tmp_path / "vocab.txt") in str(caught.value)
    assert caught.value.hint


def test_vocabulary_with_crlf_and_byte_order_mark_is_the_same(tmp_path):
    (tmp_path / "a.txt").write_text(VALID_VOCABULARY, encoding="utf-8")
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbf" + VALID_VOCABULARY.replace("\n", "\r\n").encode())
    (tmp_path / "c.txt").write_text(VALID_VOCABULARY.rstrip(), encoding="utf-8")
    loaded = [Tokenizer.load(tmp_path / name) for name in ("a.txt", "b.txt", "c.txt")]
    assert {tokenizer.vocabulary()[-1] for tokenizer in loaded} == {"##s"}
    assert len({tokenizer.digest for tokenizer in loaded}) == 1


BYTES = json.dumps({"a": 0})
JSON = {
    "not json": ("tokenizer.json", '{"a":\n', "tokenizer.json:2: not JSON"),
    "other json": ("tokenizer.json", "[1, 2]", "not a tokenizer.json"),
    "config": ("tokenizer.json", '{"model": "bert"}', "not a tokenizer.json"),
    "half": ("tokenizer.json", '{"model": {"type": "WordPiece", "vocab": {"a": "x"}}}', "cannot be used"),
    "type": ("tokenizer.json", '{"model": {"type": "Magic", "vocab": {"a": 0}}}', "'Magic'"),
    "holes": (
        "tokenizer.json",
        '{"version": "1.0", "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 7}}}',
        "no token has id 1",
    ),
    "facts": (
        "tokenizer.json",
        '{"version": "1.0", "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}, '
        '"forebear": {"kind": "words", "roles": {"mask": 9}}}}',
        "outside 0 to 0",
    ),
    "deep": ("tokenizer.json", "[" * 100_000, "nested|not JSON"),
    "alone": ("encoder.json", BYTES, "needs vocab.bpe beside it"),
}


@pytest.mark.parametrize("case", JSON)
def test_damaged_tokenizer_json_is_refused(tmp_path, case):
    name, content, message = JSON[case]
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        Tokenizer.load(tmp_path / name)


def test_damaged_bpe_files_are_refused(data, tmp_path):
    folder = data / "weights/gpt2_bpe"
    encoder, merges = (folder / "encoder.json").read_text(encoding="utf-8"), "#version: 0.2\nĠ t\n"
    for vocabulary, merging, message in (
        (encoder, merges + "one two three\n", "merges.txt:3: .*not a merge"),
        (encoder, merges + "zzz yyy\n", "merges.txt:3: .*not a merge"),
        (BYTES, "#version: 0.2\n", "of the 256 bytes are missing"),
        ('{"a": "b"}', merges, "token: id"),
        (encoder.replace('"!": 0', '"!": 1'), merges, "no token has id 0"),
    ):
        (tmp_path / "vocab.json").write_text(vocabulary, encoding="utf-8")
        (tmp_path / "merges.txt").write_text(merging, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            Tokenizer.load(tmp_path)


def test_missing_vocabulary_is_refused(tmp_path):
    with pytest.raises(InputError, match="accepted are"):
        Tokenizer.load(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        Tokenizer.load(tmp_path / "missing.txt")
