"""Chinese word segmentation: equal to rjieba, close to jieba, dictionary words kept whole, no character lost."""

import logging
import pickle
import time
from itertools import accumulate
from pathlib import Path

import pytest
import rjieba
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data import segmentation
from forebear.data.segmentation import Segmenter, has_han
from forebear.errors import InputError

ANY_TEXT = st.text() | st.text(
    st.sampled_from("中国人民大学和服务aAi1 \n\r\t\u3000.。，…+#%-·é\x00\ud800\udfff𠀀"), max_size=40
)
WORDS = ("中国人", "人民大学", "和服", "C++", "iPhone 15", "史蒂夫·乔布斯", "AI", "大学", "国人民", "a\ud800")


def corpus_lines(data: Path, num_characters: int) -> list[str]:
    return (data / "corpora/zhwiki.txt").read_text(encoding="utf-8")[:num_characters].split("\n")


def cumulative_ends(words: list[str]) -> list[int]:
    return list(accumulate(map(len, words)))


def test_plain_text_is_segmented():
    assert Segmenter().split("我来到北京清华大学, hello world。") == [
        *("我", "来到", "北京", "清华大学", ",", " ", "hello", " ", "world", "。"),
    ]
    assert Segmenter().word_ends("") == []
    assert Segmenter().split("") == []


@settings(deadline=None)
@given(ANY_TEXT, st.sampled_from([(), WORDS]))
def test_words_partition_any_text(text: str, dictionary: tuple[str, ...]):
    segmenter = Segmenter(dictionary)
    cuts = segmenter.word_ends(text)
    assert cuts == sorted(set(cuts))
    assert not text or (cuts[0] > 0 and cuts[-1] == len(text))
    assert "".join(segmenter.split(text)) == text


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_words_are_exactly_those_of_rjieba(text: str):
    assert Segmenter().split(text) == segmentation._jieba().cut(text)


def test_real_lines_are_segmented_as_by_rjieba(data):
    bare, segmenter = rjieba.Jieba(), Segmenter()
    for line in corpus_lines(data, 300_000):
        assert segmenter.word_ends(line) == cumulative_ends(bare.cut(line))


def test_real_lines_are_segmented_nearly_as_by_jieba(data):
    jieba = pytest.importorskip("jieba")
    jieba.setLogLevel(logging.WARNING)
    segmenter = Segmenter()
    ours, theirs, same = 0, 0, 0
    for line in corpus_lines(data, 60_000):
        spans = [
            set(zip([0, *ends], ends, strict=False))
            for ends in (segmenter.word_ends(line), cumulative_ends(jieba.lcut(line)))
        ]
        ours, theirs, same = ours + len(spans[0]), theirs + len(spans[1]), same + len(spans[0] & spans[1])
    assert 2 * same / (ours + theirs) >= 0.99


def test_segmentation_does_not_depend_on_chunk_size(data, monkeypatch):
    text = "\n".join(corpus_lines(data, 200_000))
    expected = rjieba.Jieba().cut(text)
    assert len(text) > 2 * segmentation._CHUNK_CHARACTERS
    assert Segmenter().split(text) == expected
    monkeypatch.setattr(segmentation, "_CHUNK_CHARACTERS", 1000)
    assert Segmenter().split(text) == expected


@pytest.mark.sample(10)
@pytest.mark.parametrize("unit", ["中", "a", " ", "\n", "。", "中国", "a中", "\ud800", "中\ud800", "人民大学"])
def test_segmentation_takes_linear_time_on_hostile_text(unit: str):
    seconds, segmenter = [], Segmenter(WORDS)
    segmenter.word_ends("好")  # rjieba is loaded before the clock runs
    for size in (1_000_000 // 16, 1_000_000):
        text = (unit * size)[:size]
        start = time.process_time()
        assert segmenter.word_ends(text)[-1] == size
        seconds.append(time.process_time() - start)
    assert seconds[1] < 16 * 4 * seconds[0] + 0.2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("产品和服务", ["产品", "和服", "务"]),  # always whole, also where it reads badly: that is the promise
        ("中国人民大学", ["中国人", "民", "大学"]),  # the one that begins first
        ("的人民大学生", ["的", "人民大学", "生"]),  # the longest at a place
        ("买，iPhone 15和C++。", ["买", "，", "iPhone 15", "和", "C++", "。"]),
        ("iPhone 155", ["iPhone", " ", "155"]),
        ("AI和AIDS及MAIL", ["AI", "和", "AIDS", "及", "MAIL"]),
        ("史蒂夫·乔布斯来了", ["史蒂夫·乔布斯", "来", "了"]),
        ("史蒂夫·乔", ["史蒂夫", "·", "乔"]),
    ],
)
def test_dictionary_words_are_kept_whole(text: str, words: list[str]):
    assert Segmenter(WORDS).split(text) == words


@pytest.mark.parametrize("many", [False, True])
@settings(deadline=None)
@given(pieces=st.lists(st.sampled_from(["云雀鸟", "甲乙丙丁", "的", "人民", "，", "a1", " ", "C++"])))
def test_dictionary_word_is_whole_in_any_context(many: bool, pieces: list[str]):
    """No two of these words can overlap, so each one must be found, by either way of looking for them."""
    first, count = 0xAC00, 2 * segmentation._MAX_REGEX_PREFIXES if many else 0
    others = [chr(at) + chr(at + 7) for at in range(first, first + count)]
    segmenter = Segmenter(("云雀鸟", "甲乙丙丁", *others))
    words = segmenter.split("".join(pieces))
    for word in ("云雀鸟", "甲乙丙丁"):
        assert words.count(word) == pieces.count(word)


def test_dictionaries_do_not_affect_other_segmenters():
    before = Segmenter().split("他用iPhone 15买和服务"), rjieba.cut("产品和服务")
    assert Segmenter(WORDS).split("他用iPhone 15买和服务") != before[0]
    assert (Segmenter().split("他用iPhone 15买和服务"), rjieba.cut("产品和服务")) == before


def test_pickled_segmenter_keeps_its_dictionary():
    segmenter = Segmenter(WORDS)
    segmenter.split("产品和服务")
    pickled = pickle.dumps(segmenter)
    assert len(pickled) < 1000
    assert pickle.loads(pickled) == segmenter
    assert pickle.loads(pickled).split("产品和服务") == ["产品", "和服", "务"]


def test_segmenter_description_depends_only_on_the_dictionary():
    plain, with_words, same = Segmenter(), Segmenter(("甲乙", "丙丁")), Segmenter(("丙丁", "甲乙", "甲乙"))
    assert plain.describe()["segmenter"] == "rjieba"
    assert plain.describe()["version"]
    assert plain.describe()["dictionary"] is None
    assert plain.describe()["words"] == 0
    assert with_words == same
    assert with_words.describe() == same.describe()
    assert with_words.describe()["words"] == 2
    assert len(str(with_words.describe()["dictionary"])) == 64
    assert with_words.describe() != Segmenter(("甲乙", "丙丁戊")).describe()


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_dictionary_in_jieba_format_is_read(tmp_path, bom: bytes, end: str):
    lines = [
        "云计算 5",
        "李小福 2 nr",
        "台中",
        "凱特琳 nz",
        "",
        "# 注释",
        "Edu Trust认证 2000",
        "easy_install 3 eng",
        "C#",
    ]
    lines += ["iPhone 15\t", "machine learning", "机器学习\t10\tn", "\t", "韩玉赏鉴  3  nz", "new york"]
    path = tmp_path / "我的 词典.txt"
    path.write_bytes(bom + end.join(lines).encode())
    words = ("云计算", "李小福", "台中", "凱特琳", "Edu Trust认证", "easy_install", "C#", "iPhone 15")
    words += ("machine learning", "机器学习", "韩玉赏鉴", "new york")
    assert Segmenter.from_file(path) == Segmenter(words)
    assert Segmenter.from_file(None) == Segmenter()


@pytest.mark.parametrize(
    "line", ["云计算 -3", "云计算 1.5", "词" * 65, "字" * 100_000, "甲\t乙", "甲\t5\tn\tx y", "甲\x00乙", "\t5"]
)
def test_bad_dictionary_line_is_named(tmp_path, line: str):
    path = tmp_path / "words.txt"
    path.write_text(f"云计算\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Segmenter.from_file(path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    assert caught.value.hint
    assert len(str(caught.value)) < 1000


def test_unreadable_dictionary_is_refused(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes("云计算\n".encode() + "云计算".encode("gb18030"))
    with pytest.raises(InputError, match="UTF-8") as caught:
        Segmenter.from_file(path)
    assert caught.value.line == 2
    with pytest.raises(InputError, match="cannot read"):
        Segmenter.from_file(tmp_path / "absent.txt")


def test_has_han_is_true_for_han_characters_only():
    assert all(map(has_han, ["中", "a中", "𠀀", "㐀", "豈", "〇"]))
    assert not any(map(has_han, ["", "abc", "ひらカナ", "한글", "。，", "１Ａ", "\ud800"]))
