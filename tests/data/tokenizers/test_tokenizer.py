"""All tokenizers share one interface: spans into the original text, special tokens only on request, one JSON file."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from forebear.data.segmentation import Segmenter
from forebear.data.tokenizers.build_vocabulary import coverage, order_vocabulary
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from hostile_texts import hostile_lines, hostile_strings
from story_corpus import encode_segmented

ENGLISH = ["The cat sat on the mat; the cats aren't running.", "Playing, played, plays: the player replayed it."] * 5
CHINESE = ["我爱北京天安门，天安门上太阳升。", "自然语言处理是人工智能的一个方向。"] * 5
TEXTS = [*ENGLISH, *CHINESE, *hostile_lines(100, seed=3)]
KINDS = ("words", "characters", "wordpiece", "bytepair")


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    sizes = {"wordpiece": 700, "bytepair": 500}
    by_kind = {kind: train_tokenizer(kind, TEXTS, size=sizes.get(kind)) for kind in KINDS}
    by_kind["spaces"] = train_tokenizer("words", TEXTS, split="spaces")
    by_kind["nfkc"] = train_tokenizer("characters", TEXTS, normalise=("nfkc", "lower", "accents"))
    return by_kind


ALL_KINDS = (*KINDS, "spaces", "nfkc")


@pytest.mark.parametrize("kind", ALL_KINDS)
@settings(max_examples=150, deadline=None)
@given(text=hostile_strings())
def test_spans_are_ordered_disjoint_and_inside_the_text(tokenizers, kind, text):
    for specials in (False, True):
        pieces = tokenizers[kind].encode(text, specials=specials)
        assert len(pieces.ids) == len(pieces.spans) == len(pieces.texts)
        previous_end = 0
        for start, end in pieces.spans:
            assert previous_end <= start <= end <= len(text)
            previous_end = end
        assert pieces.ids.dtype == np.int32
        assert all(0 <= i < tokenizers[kind].vocab_size for i in pieces.ids.tolist())


@pytest.mark.parametrize("kind", ["bytepair", "characters"])
@settings(max_examples=150, deadline=None)
@given(text=hostile_strings())
def test_spans_cover_the_whole_text(tokenizers, kind, text):
    spans = tokenizers[kind].encode(text).spans
    assert [p for begin, end in spans for p in range(begin, end)] == list(range(len(text)))


@settings(max_examples=150, deadline=None)
@given(text=hostile_strings())
def test_words_are_the_text_at_their_spans(tokenizers, text):
    pieces = tokenizers["words"].encode(text)
    valid_text = "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)
    for (start, end), token, i in zip(pieces.spans, pieces.texts, pieces.ids.tolist(), strict=True):
        assert end > start
        assert i == tokenizers["words"].unk_id or valid_text[start:end] == token


@settings(max_examples=400, deadline=None)
@given(text=hostile_strings(surrogates=False))
def test_byte_level_bpe_decodes_to_the_same_text(tokenizers, text):
    tokenizer = tokenizers["bytepair"]
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.unk_id is None


@pytest.mark.parametrize("kind", ALL_KINDS)
@settings(max_examples=150, deadline=None)
@given(text=hostile_strings())
def test_plain_encoding_gives_no_special_token_for_any_text(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    control = tokenizer.special_ids - {tokenizer.unk_id}
    assert not control & set(tokenizer.encode(text).ids.tolist())
    assert not control & set(tokenizer.encode_many([text])[0].tolist())


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_special_tokens_are_encoded_on_request(tokenizers, kind):
    tokenizer = tokenizers[kind]
    token, role = ("<|endoftext|>", "end") if kind == "bytepair" else ("[MASK]", "mask")
    encoded = tokenizer.encode(f"the {token} sat 我{token}你", specials=True)
    assert encoded.ids.tolist().count(tokenizer.special_roles[role]) == 2
    spans = [span for span, name in zip(encoded.spans, encoded.texts, strict=True) if name == token]
    assert spans[0] == (4, 4 + len(token))
    assert tokenizer.special_roles[role] not in tokenizer.encode(f"the {token} sat").ids.tolist()
    assert token in tokenizer.decode(encoded.ids, specials=True)
    assert token not in tokenizer.decode(encoded.ids)


def test_special_token_in_the_training_text_is_unknown():
    texts = ["[MASK] it", "the <unk> sat"]
    tokenizer = train_tokenizer("words", texts, split="spaces")
    assert tokenizer.encode("[MASK] <unk> the").texts == ["[UNK]", "<unk>", "the"]
    assert tokenizer.special_roles == {"padding": 0, "unknown": 1, "start": 2, "end": 3, "mask": 4}


def test_chinese_words_have_their_spans(tokenizers):
    text = "x我爱 北京天安门!"
    pieces = tokenizers["words"].encode(text)
    assert [text[a:b] for a, b in pieces.spans] == ["x", "我", "爱", "北京", "天安门", "!"]
    unsegmented = train_tokenizer("words", CHINESE, segmenter=None).encode("我爱北京天安门，天安门上太阳升。")
    assert unsegmented.texts == ["我爱北京天安门", "，", "天安门上太阳升", "。"]


def test_tokens_of_one_character_share_its_span():
    tokenizer = train_tokenizer("characters", ["株式会社あ"], normalise=("nfkc",))
    pieces = tokenizer.encode("あ㍿あ")
    assert pieces.texts == ["あ", "株", "式", "会", "社", "あ"]
    assert pieces.spans == [(0, 1), (1, 2), (2, 2), (2, 2), (2, 2), (2, 3)]
    emoji = train_tokenizer("bytepair", ["abc"], size=300).encode("a😀b")
    assert emoji.spans == [(0, 1), (1, 2), (2, 2), (2, 2), (2, 2), (2, 3)]


def test_word_starts_follow_the_segmenter(tokenizers):
    texts = ["the replayed 自然语言处理!", "", "aren't 天安门"]
    ends = [Segmenter().word_ends(text) for text in texts]
    ids, counts, starts = encode_segmented(tokenizers["wordpiece"], texts)
    assert ids.tolist() == tokenizers["wordpiece"].encode_many(texts)[0].tolist()
    offset = 0
    for text, cuts, count in zip(texts, ends, counts.tolist(), strict=True):
        pieces = tokenizers["wordpiece"].encode(text)
        word = [sum(cut <= begin for cut in cuts) for begin, _ in pieces.spans]
        for k in range(count):
            expected = k == 0 or (word[k] != word[k - 1] and not pieces.texts[k].startswith("##"))
            assert starts[offset + k] == expected, (text, k)
        offset += count
    for kind in ("bytepair", "characters"):  # bytes of one character stay with its word
        ids, counts, starts = encode_segmented(tokenizers[kind], ["他去上海😀"])
        spans = tokenizers[kind].encode("他去上海😀").spans
        begins = [spans[k][0] for k in np.flatnonzero(starts)]
        assert begins == [0, 1, 2, 4]
        assert len(ids) == counts.sum() == len(starts)


@pytest.mark.parametrize("kind", ALL_KINDS)
@settings(max_examples=50, deadline=None)
@given(text=hostile_strings())
def test_texts_begin_words_and_continuations_never_do(tokenizers, kind, text):
    ids, counts, starts = encode_segmented(tokenizers[kind], [text, text])
    assert len(ids) == len(starts) == counts.sum()
    if counts[0]:
        assert starts[0]
        assert starts[counts[0]]
    assert starts[: counts[0]].tolist() == starts[counts[0] :].tolist()
    inner = np.ones(len(ids), bool)
    inner[[0, counts[0]] if counts[0] else []] = False
    assert not (starts & inner & tokenizers[kind].continuation_mask[ids]).any()


def test_decoding_restores_readable_spaces(tokenizers):
    for kind, text, expected in (
        ("wordpiece", "The cat sat on the mat; the player.", "the cat sat on the mat; the player."),
        ("wordpiece", "我爱北京，the 天安门。", "我爱北京，the天安门。"),
        ("words", "The cat sat on the mat. 天安门 上太阳升。", "The cat sat on the mat.天安门上太阳升。"),
        ("spaces", "The cat sat on the mat; the cats aren't running.", None),
        ("characters", "The cat sat on the mat，我爱\n北京", None),
    ):
        assert tokenizers[kind].decode(tokenizers[kind].encode(text).ids) == (expected or text)
    assert tokenizers["words"].decode([tokenizers["words"].unk_id or 0]) == "[UNK]"
    with pytest.raises(InputError, match="no token has id 99999"):
        tokenizers["words"].decode([99999])


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_saved_tokenizer_loads_unchanged(tokenizers, kind, tmp_path):
    before = tokenizers[kind]
    before.save(tmp_path / "tokenizer.json")
    after = Tokenizer.load(tmp_path / "tokenizer.json")
    folder = Tokenizer.load(tmp_path)
    unpickled = pickle.loads(pickle.dumps(before))
    for other in (after, folder, unpickled):
        assert other.describe() == before.describe()
        assert other.digest == before.digest
        assert other.vocabulary() == before.vocabulary()
        assert (other.special_roles, other.kind, other.vocab_size) == (
            before.special_roles,
            before.kind,
            before.vocab_size,
        )
        assert other.encode_many(TEXTS)[0].tolist() == before.encode_many(TEXTS)[0].tolist()
    after.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
    assert [before.token_to_id(token) for token in before.vocabulary()] == list(range(before.vocab_size))
    assert before.token_to_id("no such token \x1f") is None
    assert before.id_to_token(0) == before.vocabulary()[0]


@pytest.mark.parametrize("kind", ["wordpiece", "bytepair", "characters", "spaces"])
def test_transformers_gives_the_same_ids_from_the_saved_file(tokenizers, kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizers[kind].save(tmp_path / "tokenizer.json")
    hf_tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        assert (
            hf_tokenizer(text, add_special_tokens=False)["input_ids"]
            == tokenizers[kind].encode(text, specials=True).ids.tolist()
        )
    assert len(hf_tokenizer) == tokenizers[kind].vocab_size


def test_user_dictionary_is_saved_with_the_tokenizer(tmp_path):
    dictionary = ("爱北京",)
    tokenizer = train_tokenizer("words", CHINESE, segmenter=Segmenter(dictionary))
    assert "爱北京" in tokenizer.encode("我爱北京天安门").texts
    tokenizer.save(tmp_path / "t.json")
    reloaded = Tokenizer.load(tmp_path / "t.json")
    assert reloaded.encode("我爱北京天安门").texts == tokenizer.encode("我爱北京天安门").texts
    assert "warning" not in reloaded.describe()
    document = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    document["model"]["forebear"]["segmenter"]["made_with"]["version"] = "0.0.1"
    (tmp_path / "old.json").write_text(json.dumps(document), encoding="utf-8")
    assert "0.0.1" in Tokenizer.load(tmp_path / "old.json").describe()["warning"]


def test_digest_depends_only_on_what_decides_ids(tokenizers):
    same_words = train_tokenizer("words", [*TEXTS, ""], size=None)
    assert same_words.describe()["trained"] != tokenizers["words"].describe()["trained"]
    assert same_words.digest == tokenizers["words"].digest
    assert train_tokenizer("words", TEXTS, normalise=("lower",)).digest != tokenizers["words"].digest
    assert train_tokenizer("words", TEXTS, segmenter=None).digest != tokenizers["words"].digest


def test_continuation_mask_marks_wordpiece_continuations_only(tokenizers):
    tokens = tokenizers["wordpiece"].vocabulary()
    assert tokenizers["wordpiece"].continuation_mask.tolist() == [t.startswith("##") and len(t) > 2 for t in tokens]
    assert tokenizers["wordpiece"].continuation_mask.any()
    assert not tokenizers["bytepair"].continuation_mask.any()


def test_failed_save_keeps_the_old_file(tokenizers, tmp_path, monkeypatch):
    target = tmp_path / "tokenizer.json"
    tokenizers["words"].save(target)
    before = target.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        tokenizers["bytepair"].save(target)
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


def test_vocabulary_is_ordered_by_frequency_and_its_coverage_counted():
    counts = {"b": 3, "a": 3, "c": 9, "d": 1, "[PAD]": 50}
    assert order_vocabulary(counts, specials=["[PAD]", "[UNK]"], size=None, min_count=1) == ["[PAD]", "[UNK]", *"cabd"]
    assert order_vocabulary(counts, specials=["[PAD]", "[UNK]"], size=4, min_count=2) == ["[PAD]", "[UNK]", *"ca"]
    assert coverage({"a": 3, "b": 1}, ["a", "x"]) == 0.75
    with pytest.raises(InputError, match="no room"):
        order_vocabulary(counts, specials=["[PAD]"], size=1, min_count=1)


@pytest.mark.slow
def test_long_texts_take_linear_time(tokenizers):
    """A megabyte without a space each; anything quadratic would take hours."""
    for text in ("a" * 1_000_000, "中" * 1_000_000, "\u0301" * 300_000, "'" * 300_000):
        for tokenizer in tokenizers.values():
            ids, counts = tokenizer.encode_many([text])
            assert len(ids) == counts[0]


@pytest.mark.parametrize(
    ("kind", "options", "lossy"),
    [
        ("characters", {}, ()),
        ("bytepair", {}, ()),
        ("words", {}, ("white space",)),
        (
            "words",
            {"normalise": ("lower", "accents", "nfkc")},
            ("white space", "case", "accents", "compatibility forms"),
        ),
        ("wordpiece", {}, ("white space", "case", "accents")),
        ("wordpiece", {"lower": False}, ("white space",)),
        ("characters", {"normalise": ("lower",)}, ("case",)),
    ],
)
def test_lossy_features_are_listed(kind, options, lossy):
    assert train_tokenizer(kind, ["The Café of 北京 ① A a" * 3], **options).lossy_features == lossy
