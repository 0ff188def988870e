"""Character classes, languages and mojibake: tables agree with Unicode, and correct text is not taken for mojibake."""

from __future__ import annotations

import time
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forebear.data import unicode
from forebear.data.unicode import CLASS_IDS, CLASSES, LETTERS


def class_of(character: str) -> str:
    return CLASSES[unicode.class_table()[ord(character)]]


@pytest.mark.parametrize(
    ("characters", "name"),
    [
        ("中國〇々\u3400\U00020000豈", "Han"),
        ("aÉßıẾＡﬁ", "Latin"),
        ("あん", "Hiragana"),
        ("アーｱ", "Katakana"),
        ("한ㄱ", "Hangul"),
        ("ㄅ", "Bopomofo"),
        ("ЖёЇ", "Cyrillic"),
        ("Ωά", "Greek"),
        ("عپ", "Arabic"),
        ("9９٣²", "digits"),
        ("，。!“—", "punctuation"),
        (" \t\n\u3000\u00a0", "white space"),
        ("\x00\x07\r\f\x85\u2028", "control"),
        ("\u200b\ufeff\u00ad\u202e\u2066", "invisible"),
        ("\u200d\u200c\ufe0f\u0301", "marks"),
        ("\ufffd", "replacement"),
        ("\ue000\U000f0000", "private use"),
        ("\ufffe\U000e1000", "unassigned"),
        ("€😀+", "symbols"),
    ],
)
def test_characters_have_their_class(characters: str, name: str) -> None:
    assert {class_of(character) for character in characters} == {name}


@given(st.characters())
def test_letter_classes_agree_with_unicode_categories(character: str) -> None:
    category = unicodedata.category(character)
    assume(category != "Cn")  # blocks are wider than what a version of Unicode has given out of them
    assert (class_of(character) in LETTERS) == (category[0] == "L" or category == "Nl")


def test_class_table_is_built_within_half_a_second() -> None:
    unicode.class_table.cache_clear()
    start = time.process_time()
    unicode.class_table()
    assert time.process_time() - start < 0.5


@given(st.lists(st.text(), min_size=1))
def test_class_counts_of_a_batch_equal_those_of_each_text(texts: list[str]) -> None:
    codes = unicode.code_points("".join(texts), surrogates="keep")
    _, rows = unicode.count_classes(codes, [len(text) for text in texts])
    for text, row in zip(texts, rows, strict=True):
        expected = np.bincount([CLASS_IDS[class_of(character)] for character in text], minlength=len(CLASSES))
        assert (row == expected).all()


def test_simplified_and_traditional_characters_are_counted() -> None:
    assert len(unicode.SIMPLIFIED) == len(unicode.TRADITIONAL)
    assert not set(unicode.SIMPLIFIED) & set(unicode.TRADITIONAL)
    assert unicode.count_simplified_traditional(unicode.code_points("这个国家的人民")) == (3, 0)
    assert unicode.count_simplified_traditional(unicode.code_points("這個國家的人民𠀀")) == (0, 3)
    assert [unicode.chinese_script(*counts) for counts in ((99, 1), (1, 99), (80, 20), (0, 0))] == [
        "simplified", "traditional", "mixed", "unknown",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("机器学习是人工智能的一个分支，英文叫 machine learning。", "Chinese"),
        ("The cat sat on the mat, and it was happy.", "English"),
        ("Python", "English"),
        ("Der Hund und die Katze sind nicht im Haus, das ist klar.", "other Latin"),
        ("Le chat est dans la maison et les enfants jouent pour une fois.", "other Latin"),
        ("これは日本語の文章です。東京は大きい。", "Japanese"),
        ("이것은 한국어 문장입니다.", "Korean"),
        ("Это предложение на русском языке.", "other"),
        ("中文字符 and then quite a lot of English words go on", "mixed"),
        ("12, 34!", "no letters"),
        ("", "no letters"),
    ],
)
def test_language_is_detected(text: str, language: str) -> None:
    _, rows = unicode.count_classes(unicode.code_points(text, surrogates="keep"), [len(text)])
    assert unicode.detect_language(rows[0], text) == language


CHINESE = "我们在这里学习，不是为了别人。他说的话，我没有听见。"


@pytest.mark.parametrize(
    ("broken", "name", "meant"),
    [
        ("café à la crème".encode().decode("latin-1"), "UTF-8 read as Latin-1 or cp1252", "é"),
        ("it’s".encode().decode("cp1252"), "UTF-8 read as Latin-1 or cp1252", "’"),
        ("привет".encode().decode("latin-1"), "UTF-8 read as Latin-1 or cp1252", "привет"),
        (CHINESE.encode().decode("latin-1"), "UTF-8 read as Latin-1 or cp1252", "我们在这里学习"),
        ("中文我们是".encode("gbk").decode("latin-1"), "GBK read as Latin-1", "中文我们是"),
        (CHINESE.encode().decode("gbk", "replace"), "UTF-8 read as GBK", ""),
        ("数据锟斤拷锟斤拷", "lost for good (锟斤拷, 烫烫烫)", ""),
        ("烫烫烫烫", "lost for good (锟斤拷, 烫烫烫)", ""),
        ("a\ufffd\ufffdb", "replacement characters in a row", ""),
    ],
)
def test_mojibake_is_found_and_decoded(broken: str, name: str, meant: str) -> None:
    matches = [(mistake.name, mistake.decode(match[0])) for mistake, match in unicode.find_mojibake(broken)]
    assert name in [kind for kind, _ in matches]
    assert any(decoded.startswith(meant) for kind, decoded in matches if kind == name)


@pytest.mark.parametrize(
    "text",
    [
        "Été à la forêt, où naïve Zoë mangea « trois » crêpes… café…” voilà\u00a0»",
        "Übermäßig große Äpfel für 5 €, 20 °C · 3×4 — ½ ¿qué? ¡sí!",
        "São Paulo, NÃO, coração, Ângela; ÅÄÖ, ÆØÅ",
        "横浜市は神奈川県の都市。",
        CHINESE,
        "這個國家的語言，不是他們的。陸費逵·1912",
        "水很烫烫的",
        "שלום مرحبا 😀👨‍👩‍👧",
    ],
)
def test_correct_text_is_not_mojibake(text: str) -> None:
    assert list(unicode.find_mojibake(text)) == []


@pytest.mark.parametrize("unit", ["Ã", "é", "Ð°", "°¡", "ä¸", "锟", "鐨", "â€", "\ufffd", "屯"])
def test_mojibake_search_takes_linear_time(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    start = time.process_time()
    sum(1 for _ in unicode.find_mojibake(text))
    assert time.process_time() - start < 5


def test_vocabulary_growth_follows_heaps_law() -> None:
    """Every n-th word is new with the probability that makes V = N^0.5."""
    words = unicode.WordCounter()
    word, text = 0, []
    for n in range(1, 200_001):
        if n >= (word + 1) ** 2:
            word += 1
        text.append(f"w{word}")
    words.add(" ".join(text))
    facts = words.to_dict()
    assert facts["types"] == word
    assert facts["words"] == 200_000
    assert abs(facts["beta"] - 0.5) < 0.01
    assert abs(facts["k"] - 1) < 0.1


def test_words_are_chinese_characters_and_runs_of_letters() -> None:
    words = unicode.WordCounter()
    words.add("我们的GPT-2 isn't 我的" + "x" * 100)
    assert words.counts == {"我": 2, "们": 1, "的": 2, "GPT": 1, "2": 1, "isn": 1, "t": 1, "x" * 64: 1, "x" * 36: 1}
    facts = words.to_dict()
    assert facts["once"] == 7
    assert facts["covered"][1_000] == 1


def test_types_beyond_the_limit_are_not_added() -> None:
    words = unicode.WordCounter(max_types=10)
    for i in range(100):
        words.add(f"a w{i}")
    assert len(words.counts) <= 12
    assert words.counts["a"] == 100
    assert words.to_dict()["full"]
