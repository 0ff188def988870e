"""One interface for all kinds: spans into the original text, special tokens that no text can smuggle in, one file."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from corpora import segmented
from forebear.data.segmentation import Segmenter
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.data.tokenizers.vocabulary import coverage, order_vocabulary
from forebear.errors import InputError
from nasty import lines, strings

ENGLISH = ["The cat sat on the mat; the cats aren't running.", "Playing, played, plays: the player replayed it."] * 5
CHINESE = ["我爱北京天安门，天安门上太阳升。", "自然语言处理是人工智能的一个方向。"] * 5
TEXTS = [*ENGLISH, *CHINESE, *lines(100, seed=3)]
KINDS = ("words", "characters", "wordpiece", "bytepair")


@pytest.fixture(scope="module")
def made() -> dict[str, Tokenizer]:
    sizes = {"wordpiece": 700, "bytepair": 500}
    ways = {kind: train_tokenizer(kind, TEXTS, size=sizes.get(kind)) for kind in KINDS}
    ways["spaces"] = train_tokenizer("words", TEXTS, split="spaces")
    ways["nfkc"] = train_tokenizer("characters", TEXTS, normalise=("nfkc", "lower", "accents"))
    return ways


ALL = (*KINDS, "spaces", "nfkc")


@pytest.mark.parametrize("way", ALL)
@settings(max_examples=150, deadline=None)
@given(text=strings())
def test_spans_rise_never_overlap_and_stay_inside(made, way, text):
    for specials in (False, True):
        pieces = made[way].encode(text, specials=specials)
        assert len(pieces.ids) == len(pieces.spans) == len(pieces.texts)
        before = 0
        for begin, end in pieces.spans:
            assert before <= begin <= end <= len(text)
            before = end
        assert pieces.ids.dtype == np.int32
        assert all(0 <= i < made[way].vocab_size for i in pieces.ids.tolist())


@pytest.mark.parametrize("way", ["bytepair", "characters"])
@settings(max_examples=150, deadline=None)
@given(text=strings())
def test_spans_cover_the_whole_text(made, way, text):
    spans = made[way].encode(text).spans
    assert [p for begin, end in spans for p in range(begin, end)] == list(range(len(text)))


@settings(max_examples=150, deadline=None)
@given(text=strings())
def test_words_are_the_text_at_their_spans(made, text):
    pieces = made["words"].encode(text)
    sound = "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)
    for (begin, end), token, i in zip(pieces.spans, pieces.texts, pieces.ids.tolist(), strict=True):
        assert end > begin
        assert i == made["words"].unk_id or sound[begin:end] == token


@settings(max_examples=400, deadline=None)
@given(text=strings(surrogates=False))
def test_bytes_decode_to_the_same_text(made, text):
    tokenizer = made["bytepair"]
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.unk_id is None


@pytest.mark.parametrize("way", ALL)
@settings(max_examples=150, deadline=None)
@given(text=strings())
def test_no_text_smuggles_in_a_special_token(made, way, text):
    tokenizer = made[way]
    control = tokenizer.special_ids - {tokenizer.unk_id}
    assert not control & set(tokenizer.encode(text).ids.tolist())
    assert not control & set(tokenizer.encode_many([text])[0].tolist())


@pytest.mark.parametrize("way", ALL)
def test_special_tokens_where_asked_for(made, way):
    tokenizer = made[way]
    token, role = ("<|endoftext|>", "end") if way == "bytepair" else ("[MASK]", "mask")
    asked = tokenizer.encode(f"the {token} sat 我{token}你", specials=True)
    assert asked.ids.tolist().count(tokenizer.special_roles[role]) == 2
    places = [span for span, name in zip(asked.spans, asked.texts, strict=True) if name == token]
    assert places[0] == (4, 4 + len(token))
    assert tokenizer.special_roles[role] not in tokenizer.encode(f"the {token} sat").ids.tolist()
    assert token in tokenizer.decode(asked.ids, specials=True)
    assert token not in tokenizer.decode(asked.ids)


def test_a_special_word_in_the_training_text_is_unknown_not_special():
    texts = ["[MASK] it", "the <unk> sat"]
    tokenizer = train_tokenizer("words", texts, split="spaces")
    assert tokenizer.encode("[MASK] <unk> the").texts == ["[UNK]", "<unk>", "the"]
    assert tokenizer.special_roles == {"padding": 0, "unknown": 1, "start": 2, "end": 3, "mask": 4}


def test_chinese_words_and_their_spans(made):
    text = "x我爱 北京天安门!"
    pieces = made["words"].encode(text)
    assert [text[a:b] for a, b in pieces.spans] == ["x", "我", "爱", "北京", "天安门", "!"]
    whole = train_tokenizer("words", CHINESE, segmenter=None).encode("我爱北京天安门，天安门上太阳升。")
    assert whole.texts == ["我爱北京天安门", "，", "天安门上太阳升", "。"]


def test_several_tokens_of_one_character():
    tokenizer = train_tokenizer("characters", ["株式会社あ"], normalise=("nfkc",))
    pieces = tokenizer.encode("あ㍿あ")
    assert pieces.texts == ["あ", "株", "式", "会", "社", "あ"]
    assert pieces.spans == [(0, 1), (1, 2), (2, 2), (2, 2), (2, 2), (2, 3)]
    emoji = train_tokenizer("bytepair", ["abc"], size=300).encode("a😀b")
    assert emoji.spans == [(0, 1), (1, 2), (2, 2), (2, 2), (2, 2), (2, 3)]


def test_word_starts(made):
    texts = ["the replayed 自然语言处理!", "", "aren't 天安门"]
    ends = [Segmenter().word_ends(text) for text in texts]
    ids, counts, starts = segmented(made["wordpiece"], texts)
    assert ids.tolist() == made["wordpiece"].encode_many(texts)[0].tolist()
    at = 0
    for text, cuts, count in zip(texts, ends, counts.tolist(), strict=True):
        pieces = made["wordpiece"].encode(text)
        word = [sum(cut <= begin for cut in cuts) for begin, _ in pieces.spans]
        for k in range(count):
            fresh = k == 0 or (word[k] != word[k - 1] and not pieces.texts[k].startswith("##"))
            assert starts[at + k] == fresh, (text, k)
        at += count
    for way in ("bytepair", "characters"):  # bytes of one character stay with its word
        ids, counts, starts = segmented(made[way], ["他去上海😀"])
        spans = made[way].encode("他去上海😀").spans
        begun = [spans[k][0] for k in np.flatnonzero(starts)]
        assert begun == [0, 1, 2, 4]
        assert len(ids) == counts.sum() == len(starts)


@pytest.mark.parametrize("way", ALL)
@settings(max_examples=50, deadline=None)
@given(text=strings())
def test_every_text_begins_a_word_and_continuations_never_do(made, way, text):
    ids, counts, starts = segmented(made[way], [text, text])
    assert len(ids) == len(starts) == counts.sum()
    if counts[0]:
        assert starts[0]
        assert starts[counts[0]]
    assert starts[: counts[0]].tolist() == starts[counts[0] :].tolist()
    inner = np.ones(len(ids), bool)
    inner[[0, counts[0]] if counts[0] else []] = False
    assert not (starts & inner & made[way].continuation_mask[ids]).any()


def test_readable_decoding(made):
    for way, text, expected in (
        ("wordpiece", "The cat sat on the mat; the player.", "the cat sat on the mat; the player."),
        ("wordpiece", "我爱北京，the 天安门。", "我爱北京，the天安门。"),
        ("words", "The cat sat on the mat. 天安门 上太阳升。", "The cat sat on the mat.天安门上太阳升。"),
        ("spaces", "The cat sat on the mat; the cats aren't running.", None),
        ("characters", "The cat sat on the mat，我爱\n北京", None),
    ):
        assert made[way].decode(made[way].encode(text).ids) == (expected or text)
    assert made["words"].decode([made["words"].unk_id or 0]) == "[UNK]"
    with pytest.raises(InputError, match="no token has id 99999"):
        made["words"].decode([99999])


@pytest.mark.parametrize("way", ALL)
def test_saved_and_loaded_it_is_the_same(made, way, tmp_path):
    before = made[way]
    before.save(tmp_path / "tokenizer.json")
    after = Tokenizer.load(tmp_path / "tokenizer.json")
    folder = Tokenizer.load(tmp_path)
    passed = pickle.loads(pickle.dumps(before))
    for other in (after, folder, passed):
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


@pytest.mark.parametrize("way", ["wordpiece", "bytepair", "characters", "spaces"])
def test_transformers_opens_the_file_and_agrees(made, way, tmp_path):
    transformers = pytest.importorskip("transformers")
    made[way].save(tmp_path / "tokenizer.json")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        assert theirs(text, add_special_tokens=False)["input_ids"] == made[way].encode(text, specials=True).ids.tolist()
    assert len(theirs) == made[way].vocab_size


def test_own_dictionary_is_in_the_file(tmp_path):
    dictionary = ("爱北京",)
    tokenizer = train_tokenizer("words", CHINESE, segmenter=Segmenter(dictionary))
    assert "爱北京" in tokenizer.encode("我爱北京天安门").texts
    tokenizer.save(tmp_path / "t.json")
    again = Tokenizer.load(tmp_path / "t.json")
    assert again.encode("我爱北京天安门").texts == tokenizer.encode("我爱北京天安门").texts
    assert "warning" not in again.describe()
    document = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    document["model"]["forebear"]["segmenter"]["made_with"]["version"] = "0.0.1"
    (tmp_path / "old.json").write_text(json.dumps(document), encoding="utf-8")
    assert "0.0.1" in Tokenizer.load(tmp_path / "old.json").describe()["warning"]


def test_digest_is_of_what_decides_ids(made):
    same_words = train_tokenizer("words", [*TEXTS, ""], size=None)
    assert same_words.describe()["trained"] != made["words"].describe()["trained"]
    assert same_words.digest == made["words"].digest
    assert train_tokenizer("words", TEXTS, normalise=("lower",)).digest != made["words"].digest
    assert train_tokenizer("words", TEXTS, segmenter=None).digest != made["words"].digest


def test_continuing_pieces(made):
    tokens = made["wordpiece"].vocabulary()
    assert made["wordpiece"].continuation_mask.tolist() == [t.startswith("##") and len(t) > 2 for t in tokens]
    assert made["wordpiece"].continuation_mask.any()
    assert not made["bytepair"].continuation_mask.any()


def test_a_failed_save_leaves_the_old_file(made, tmp_path, monkeypatch):
    target = tmp_path / "tokenizer.json"
    made["words"].save(target)
    before = target.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        made["bytepair"].save(target)
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


def test_vocabulary_order_and_coverage():
    counts = {"b": 3, "a": 3, "c": 9, "d": 1, "[PAD]": 50}
    assert order_vocabulary(counts, specials=["[PAD]", "[UNK]"], size=None, min_count=1) == ["[PAD]", "[UNK]", *"cabd"]
    assert order_vocabulary(counts, specials=["[PAD]", "[UNK]"], size=4, min_count=2) == ["[PAD]", "[UNK]", *"ca"]
    assert coverage({"a": 3, "b": 1}, ["a", "x"]) == 0.75
    with pytest.raises(InputError, match="no room"):
        order_vocabulary(counts, specials=["[PAD]"], size=1, min_count=1)


@pytest.mark.slow
def test_long_texts_take_linear_time(made):
    """A megabyte without a space each; anything quadratic would take hours."""
    for text in ("a" * 1_000_000, "中" * 1_000_000, "\u0301" * 300_000, "'" * 300_000):
        for tokenizer in made.values():
            ids, counts = tokenizer.encode_many([text])
            assert len(ids) == counts[0]


@pytest.mark.parametrize(
    ("kind", "how", "forgotten"),
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
def test_what_a_tokenizer_forgets(kind, how, forgotten):
    assert train_tokenizer(kind, ["The Café of 北京 ① A a" * 3], **how).lossy_features == forgotten
