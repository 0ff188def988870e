"""Published vocabularies load, and give the ids that transformers gives; damaged ones are named with the remedy."""

import json
import random

import pytest

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from nasty import lines

transformers = pytest.importorskip("transformers")

VOCABULARIES = {
    "bert-base-uncased-vocab.txt": (30522, True),
    "bert-base-cased-vocab.txt": (28996, False),
    "bert-base-chinese-vocab.txt": (21128, True),
    "ernie-1.0-zh-vocab.txt": (12089, True),
}
BERT_ROLES = ("padding", "unknown", "start", "end", "mask")


@pytest.fixture(scope="module")
def mixed(data) -> list[str]:
    """10,000 lines: nasty ones, and real Chinese and English ones with nasty characters sown in."""
    draw = random.Random(7)
    nasty = lines(6000, seed=11)
    real = []
    for name in ("zhwiki.txt", "wikitext2/wiki.valid.raw"):
        text = (data / "corpora" / name).read_text(encoding="utf-8").split("\n")
        real += draw.sample([line for line in text if line.strip()], 2000)
    for i in range(0, len(real), 2):
        at = draw.randrange(len(real[i]) + 1)
        real[i] = real[i][:at] + draw.choice(nasty) + real[i][at:]
    assert len(nasty + real) == 10_000
    return nasty + real


def theirs_of(file, tmp_path, lower):
    """transformers' tokenizer over the same tokens; it does not read ERNIE's two columns."""
    tokens = [line.split("\t")[0] for line in file.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return transformers.BertTokenizer(vocab=str(vocab), do_lower_case=lower), tokens


def unequal(ours, theirs, texts, **options):
    found = theirs(texts, add_special_tokens=False, **options)["input_ids"]
    ids, counts = ours
    at, wrong = 0, []
    for text, their, count in zip(texts, found, counts.tolist(), strict=True):
        if their != ids[at : at + count].tolist():
            wrong.append(text)
        at += count
    return wrong


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", VOCABULARIES)
def test_bert_and_ernie_as_transformers(data, mixed, name, tmp_path):
    size, lower = VOCABULARIES[name]
    ours = Tokenizer.load(data / "weights/vocabs" / name)
    assert (ours.kind, ours.vocab_size, set(ours.special_roles)) == ("wordpiece", size, set(BERT_ROLES))
    assert ours.describe()["lower"] is lower
    theirs, tokens = theirs_of(data / "weights/vocabs" / name, tmp_path, lower)
    assert ours.vocabulary() == tokens
    assert unequal(ours.encode_many(mixed), theirs, mixed, split_special_tokens=True) == []
    assert unequal(ours.encode_many_reference(mixed), theirs, mixed, split_special_tokens=True) == []
    for text in mixed[:2000]:
        found = theirs(text, add_special_tokens=False, return_offsets_mapping=False)["input_ids"]
        assert ours.encode(text, specials=True).ids.tolist() == found, text


def test_bert_as_the_original_python_code(data, mixed, tmp_path):
    """The old tokenizer, all Python; it differs from all fast ones where Unicode itself has changed since."""
    legacy = pytest.importorskip("transformers.models.bert.tokenization_bert_legacy")
    file = data / "weights/vocabs/bert-base-chinese-vocab.txt"
    ours, theirs = Tokenizer.load(file), legacy.BertTokenizerLegacy(str(file))
    real = mixed[6001::4]  # every other real line, those without nasty characters
    for text in real:
        tokens = theirs.basic_tokenizer.tokenize(text)
        pieces = [piece for token in tokens for piece in theirs.wordpiece_tokenizer.tokenize(token)]
        assert ours.encode(text).texts == pieces, text


@pytest.mark.slow
def test_gpt2_as_transformers(data, mixed):
    folder = data / "weights/gpt2_bpe"
    ours = Tokenizer.load(folder)
    assert (ours.kind, ours.vocab_size, ours.special_roles) == ("bytepair", 50257, {"start": 50256, "end": 50256})
    theirs = transformers.GPT2Tokenizer(vocab=str(folder / "encoder.json"), merges=str(folder / "vocab.bpe"))
    assert unequal(ours.encode_many(mixed), theirs, mixed, split_special_tokens=True) == []
    assert unequal(ours.encode_many_reference(mixed), theirs, mixed, split_special_tokens=True) == []
    for text in mixed[:2000]:
        assert ours.encode(text, specials=True).ids.tolist() == theirs(text)["input_ids"], text
        assert ours.decode(ours.encode(text).ids) == text
    for name in ("encoder.json", "vocab.bpe"):
        assert Tokenizer.load(folder / name).digest == ours.digest
    assert ours.encode("Hello world, 你好").texts[:3] == ["Hello", "Ġworld", ","]


def test_case_can_be_told(data):
    file = data / "weights/vocabs/bert-base-uncased-vocab.txt"
    assert Tokenizer.load(file).encode("Hello").texts == ["hello"]
    assert Tokenizer.load(file).describe()["lower_guessed"] is True
    told = Tokenizer.load(file, lower=False)
    assert told.encode("Hello").texts == ["[UNK]"]
    assert told.describe()["lower_guessed"] is False
    assert told.digest != Tokenizer.load(file).digest


def test_foreign_tokenizer_json(data, tmp_path):
    """Without our facts; with truncation and padding, which would lose text, and a template that adds tokens."""
    from tokenizers import Tokenizer as Rust
    from tokenizers import processors

    ours = Tokenizer.load(data / "weights/vocabs/bert-base-uncased-vocab.txt")
    ours.save(tmp_path / "ours.json")
    document = json.loads((tmp_path / "ours.json").read_text(encoding="utf-8"))
    del document["model"]["forebear"]
    rust = Rust.from_str(json.dumps(document))
    rust.enable_truncation(3)
    rust.enable_padding(length=8)
    rust.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    rust.save(str(tmp_path / "tokenizer.json"))
    foreign = Tokenizer.load(tmp_path)
    text = "one two three four five six"
    assert foreign.encode(text).ids.tolist() == ours.encode(text).ids.tolist()
    assert foreign.encode_many([text])[1].tolist() == [6]
    assert (foreign.kind, foreign.special_roles) == ("wordpiece", ours.special_roles)
    foreign.save(tmp_path / "again.json")
    assert Tokenizer.load(tmp_path / "again.json").describe() == foreign.describe()


def test_foreign_tokens_added_later_keep_their_ids(tmp_path):
    from tokenizers import Tokenizer as Rust
    from tokenizers import models, pre_tokenizers

    rust = Rust(models.WordLevel({"a": 0, "[UNK]": 1, "[MASK]": 2}, unk_token="[UNK]"))
    rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rust.add_special_tokens(["[MASK]", "[LATE]"])
    rust.add_tokens(["new word"])
    rust.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path)
    assert ours.vocabulary() == ["a", "[UNK]", "[MASK]", "[LATE]", "new word"]
    text = "a [MASK] [LATE] new word"
    assert ours.encode(text, specials=True).ids.tolist() == [0, 2, 3, 4]
    assert ours.encode(text).ids.tolist() == ours.encode_many([text])[0].tolist() == [0, 1, 1, 4]


GOOD = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n"
DAMAGED = {
    "twice": (GOOD + "the\n", "vocab.txt:8: .*'the' stands twice"),
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
def test_damaged_vocabularies(tmp_path, case):
    content, message = DAMAGED[case]
    (tmp_path / "vocab.txt").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.load(tmp_path)
    assert str(tmp_path / "vocab.txt") in str(caught.value)
    assert caught.value.hint


def test_line_ends_and_byte_order_mark(tmp_path):
    (tmp_path / "a.txt").write_text(GOOD, encoding="utf-8")
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    (tmp_path / "c.txt").write_text(GOOD.rstrip(), encoding="utf-8")
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
def test_damaged_json(tmp_path, case):
    name, content, message = JSON[case]
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        Tokenizer.load(tmp_path / name)


def test_damaged_pairs(data, tmp_path):
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


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="accepted are"):
        Tokenizer.load(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        Tokenizer.load(tmp_path / "missing.txt")
