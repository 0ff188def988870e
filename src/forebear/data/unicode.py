"""Characters and scripts: Chinese characters, character classes, languages, mojibake, word counts and word shapes."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

# --- Code points and Chinese characters ---

# All blocks of Chinese characters, with 々 and 〇 (without kana and Hangul).
HAN_BLOCKS = (
    (0x3005, 0x3005), (0x3007, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
HAN_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in HAN_BLOCKS)  # for the [ ] of a regular expression
SURROGATES = re.compile("[\ud800-\udfff]")
_HAN = re.compile(f"[{HAN_CLASS}]")


def has_han(text: str) -> bool:
    return not text.isascii() and _HAN.search(text) is not None


def is_han(codes: np.ndarray) -> np.ndarray:
    """True for the code points of Chinese characters."""
    edges = np.array([edge for first, last in HAN_BLOCKS for edge in (first, last + 1)], np.uint32)
    return np.searchsorted(edges, codes, side="right") % 2 == 1


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which UTF-8 cannot encode; its length stays the same."""
    try:
        text.encode()  # much faster than searching with a pattern
    except UnicodeEncodeError:
        return SURROGATES.sub("\ufffd", text)
    return text


def code_points(text: str, surrogates: Literal["replace", "keep"] = "replace") -> np.ndarray:
    """The text's code points, (N,) uint32; lone surrogates are U+FFFD, unless they are kept."""
    try:
        data = text.encode("utf-32-le", "surrogatepass" if surrogates == "keep" else "strict")
    except UnicodeEncodeError:
        data = replace_surrogates(text).encode("utf-32-le")
    return np.frombuffer(data, np.uint32)


# --- Character classes ---

LETTERS = (
    "Han", "Latin", "Hiragana", "Katakana", "Hangul", "Bopomofo", "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari",
    "Thai", "other letters",
)  # fmt: skip
SPECIAL_CLASSES = ("control", "replacement", "private use", "invisible", "unassigned")
CLASSES = (*LETTERS, "digits", "punctuation", "symbols", "marks", "white space", *SPECIAL_CLASSES)
CLASS_IDS = {name: number for number, name in enumerate(CLASSES)}
FIRST_SPECIAL = CLASS_IDS[SPECIAL_CLASSES[0]]

# Only letters (and letter-like numbers such as 〇) of these ranges count for a script.
SCRIPT_RANGES = {
    "Latin": ((0x41, 0x24F), (0x250, 0x2AF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA720, 0xA7FF),
              (0xFB00, 0xFB06), (0xFF21, 0xFF5A)),
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Hebrew": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0x8A0, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)),
    "Devanagari": ((0x900, 0x97F),),
    "Thai": ((0xE00, 0xE7F),),
    "Hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xFFA0, 0xFFDC)),
    "Hiragana": ((0x3041, 0x309F), (0x1B001, 0x1B11E)),
    "Katakana": ((0x30A0, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "Bopomofo": ((0x3105, 0x312F), (0x31A0, 0x31BF)),
    "Han": ((0x3005, 0x3007), (0x3021, 0x3029), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
            (0x20000, 0x323AF)),
}  # fmt: skip
# Characters without a glyph or a meaning beyond layout. The joiners U+200C and U+200D are not among them: Persian, the
# scripts of India and emoji need them.
INVISIBLE = "\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
INVISIBLES = re.compile(f"[{INVISIBLE}]")
CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
CLASS_OF_CATEGORY = {
    "L": "other letters", "Nl": "other letters", "N": "digits", "P": "punctuation", "S": "symbols", "M": "marks",
    "Z": "white space", "Cc": "control", "Cf": "marks", "Co": "private use", "C": "unassigned",
}  # fmt: skip


@cache
def class_table() -> np.ndarray:
    """The class of every code point, (0x110000,) uint8. Only code points of planes 0 and 1 are looked up one by one."""
    categories = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
    numbers = {name: CLASS_IDS[CLASS_OF_CATEGORY.get(name) or CLASS_OF_CATEGORY[name[0]]] for name in categories}
    classes = np.full(0x110000, CLASS_IDS["unassigned"], np.uint8)
    classes[:0x20000] = [numbers[unicodedata.category(chr(point))] for point in range(0x20000)]
    classes[0x20000:0x323B0] = CLASS_IDS["other letters"]
    classes[0xE0000:0xE01F0] = CLASS_IDS["marks"]  # tags of flags, variants of characters
    classes[0xF0000:] = CLASS_IDS["private use"]
    for script, ranges in SCRIPT_RANGES.items():
        for first, last in ranges:
            block = classes[first : last + 1]
            block[block == CLASS_IDS["other letters"]] = CLASS_IDS[script]
    classes[[ord(char) for char in "\t\n"]] = CLASS_IDS["white space"]
    classes[0x2028:0x202A] = CLASS_IDS["control"]  # separators of lines and paragraphs
    classes[0xFFFD] = CLASS_IDS["replacement"]
    invisible = [point for point in range(0x10000) if INVISIBLES.match(chr(point))]
    classes[invisible] = CLASS_IDS["invisible"]
    return classes


def count_classes(codes: np.ndarray, lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The class of each character of concatenated texts, and (texts, classes) counts."""
    classes = class_table()[codes]
    rows = np.repeat(np.arange(len(lengths), dtype=np.int32) * len(CLASSES), lengths)
    counts = np.bincount(rows + classes, minlength=len(lengths) * len(CLASSES))
    return classes, counts.reshape(len(lengths), len(CLASSES))


def special_characters(codes: np.ndarray, classes: np.ndarray) -> Iterator[tuple[str, int, int, int]]:
    """(class, code point, first position, count) of the characters of SPECIAL_CLASSES."""
    positions = np.flatnonzero(classes >= FIRST_SPECIAL)
    points, first, counts = np.unique(codes[positions], return_index=True, return_counts=True)
    for point, position, count in zip(points.tolist(), positions[first].tolist(), counts.tolist(), strict=True):
        yield CLASSES[classes[position]], point, position, count


# --- Simplified and traditional Chinese ---

# Frequent characters with different forms, except those whose simplified form also occurs in traditional text (后, 里).
SIMPLIFIED = (
    "国这个们来时说会为学对发过动还经开进样问产种现关长见实从两党员总战门东车马鸟鱼龙书电话语请读写议论证许记设访计认识让"
    "该谁调谈课试诗词历纪红级纸线组织终绍给统续维编网罗义习乡乐买卖亚严丧临举乌亲亿仅仓传伤伟优儿兰兴养内军农决况净减凤击"
    "刘则刚创剧劳势区医华协单卢卫厂厅压县变启响园围图团圆场块坚坛声处备复头夺奋妇妈孙宁宝审宫宽宾寻导将尔尘层岁岛师帅带帮"
    "庆庙应庄异张弹强归录彻径忆怀态怜恶惊惯愿戏户执扩扫扬抢护报担拥择损换据摄数断无旧显术机杀权条杨极构枪标树桥档检欢毕气"
    "汉汤沟泽"
)
TRADITIONAL = (
    "國這個們來時說會為學對發過動還經開進樣問產種現關長見實從兩黨員總戰門東車馬鳥魚龍書電話語請讀寫議論證許記設訪計認識讓"
    "該誰調談課試詩詞歷紀紅級紙線組織終紹給統續維編網羅義習鄉樂買賣亞嚴喪臨舉烏親億僅倉傳傷偉優兒蘭興養內軍農決況淨減鳳擊"
    "劉則剛創劇勞勢區醫華協單盧衛廠廳壓縣變啟響園圍圖團圓場塊堅壇聲處備復頭奪奮婦媽孫寧寶審宮寬賓尋導將爾塵層歲島師帥帶幫"
    "慶廟應莊異張彈強歸錄徹徑憶懷態憐惡驚慣願戲戶執擴掃揚搶護報擔擁擇損換據攝數斷無舊顯術機殺權條楊極構槍標樹橋檔檢歡畢氣"
    "漢湯溝澤"
)
MIN_MIXED_FRACTION = 0.1


@cache
def _chinese_variants() -> np.ndarray:
    variants = np.zeros(0x10000, np.uint8)
    variants[[ord(character) for character in SIMPLIFIED]] = 1
    variants[[ord(character) for character in TRADITIONAL]] = 2
    return variants


def count_simplified_traditional(codes: np.ndarray) -> tuple[int, int]:
    """The numbers of simplified and of traditional characters, among those with different forms."""
    variants = _chinese_variants()[codes[codes < 0x10000]]
    return int(np.count_nonzero(variants == 1)), int(np.count_nonzero(variants == 2))


def chinese_script(simplified: int, traditional: int) -> str:
    total = simplified + traditional
    if not total:
        return "unknown"
    if min(simplified, traditional) > MIN_MIXED_FRACTION * total:
        return "mixed"
    return "simplified" if simplified > traditional else "traditional"


# --- Languages of documents ---

LANGUAGES = ("Chinese", "English", "Japanese", "Korean", "other Latin", "other", "mixed", "no letters")
ENGLISH_WORDS = frozenset(
    "the of and to is that for with was it are by this from or be he his which have not you she had".split()
)
# The most frequent words of German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Polish, Turkish, Indonesian
# and Vietnamese that are not English words as well.
OTHER_LATIN_WORDS = frozenset(
    "der die das und ist nicht den von mit ein eine le la les des et est une dans pour que qui el los las del por"
    " con una il di che della sono per é os do da em não uma het een van dat niet och att det som på"
    " się nie jest na ve bir bu yang dan untuk và của là".split()
)
MEAN_WORD_LENGTH = 5  # letters that count as much as one Chinese character
MIN_MAIN_FRACTION = 0.7
LANGUAGE_PREFIX_CHARS = 4000  # first characters of a document, in which function words are counted


def detect_language(counts: np.ndarray, start: str) -> str:
    """A document's language, by its scripts (`counts` by class) and by function words in its first characters."""
    by_script = dict(zip(LETTERS, counts.tolist(), strict=False))
    kana = by_script["Hiragana"] + by_script["Katakana"]
    weights = {
        "CJ": by_script["Han"] + kana + by_script["Bopomofo"],
        "Korean": by_script["Hangul"],
        "Latin": by_script["Latin"] / MEAN_WORD_LENGTH,
    }
    others = by_script.keys() - {"Han", "Hiragana", "Katakana", "Bopomofo", "Hangul", "Latin"}
    weights["other"] = sum(by_script[script] for script in others) / MEAN_WORD_LENGTH
    total = sum(weights.values())
    if not total:
        return "no letters"
    main_script = max(weights, key=lambda name: weights[name])
    if weights[main_script] < MIN_MAIN_FRACTION * total:
        return "mixed"
    if main_script == "CJ":
        return "Japanese" if kana > 0.2 * weights["CJ"] else "Chinese"
    if main_script != "Latin":
        return main_script
    words = start[:LANGUAGE_PREFIX_CHARS].lower().split()
    num_english = sum(map(ENGLISH_WORDS.__contains__, words))
    num_other = sum(map(OTHER_LATIN_WORDS.__contains__, words))
    if num_english == num_other == 0:  # a title or a name: ASCII counts as English
        return "English" if start[:LANGUAGE_PREFIX_CHARS].isascii() else "other Latin"
    return "English" if num_english >= num_other else "other Latin"


@dataclass(frozen=True)
class MojibakePattern:
    """A kind of wrong decoding: how to recognize it, and the encodings that undo it."""

    name: str
    markers: str
    pattern: re.Pattern[str]
    hint: str
    decoded_as: str = ""
    encoding: str = ""

    def decode(self, garbled: str) -> str:
        """The original text, if the wrong decoding can be undone."""
        if not self.encoding:
            return ""
        raw = bytearray()
        for character in garbled:
            try:
                raw += character.encode(self.decoded_as)
            except UnicodeEncodeError:
                if ord(character) > 0xFF:
                    return ""
                raw.append(ord(character))  # undefined in cp1252: programs use Latin-1
        return raw.decode(self.encoding, "ignore")


_CP1252 = bytes(range(0x80, 0xA0)).decode("cp1252", "ignore")
_CONT = f"[\x80-\xbf{re.escape(_CP1252)}]"  # a continuation byte of UTF-8, read as Latin-1 or cp1252
_UTF8_AS_LATIN = (
    f"[ÂÃ]{_CONT}|â[€\x80]{_CONT}|ð[Ÿ\x9f]{_CONT}{_CONT}|(?:[ÎÏÐÑ]{_CONT}){{2,}}+|(?:[à-ï]{_CONT}{_CONT}){{2,}}+"
)
# 的 ， 。 、 不 我 在 了 有 before any Chinese character: three bytes and the next lead byte, read as two characters.
_UTF8_AS_GBK = (
    "鐨[勪勫勬勭勮勯]|锛[屼岀屽屾岃岄]|銆[備傚傛傜傝傞佷佸佹佺佽侀]|涓[嶄嶅嶆嶇嶈嶉]|鎴[戜戝戞戠戣戦]|鍦[ㄤㄥㄦㄧㄨㄩ]"
    "|浜[嗕嗗嗘嗙嗚嗛]|鏈[変夊夋夌夎夐]"
)
ENCODE_AGAIN = "the file was converted wrongly before; get the original, or convert it back (iconv -f utf-8 -t {})"
MOJIBAKE_PATTERNS = (
    MojibakePattern(
        "UTF-8 read as Latin-1 or cp1252", "ÂÃâðÎÏÐÑàáâãäåæçèéêëìíîï", re.compile(_UTF8_AS_LATIN),
        "read the original with --encoding utf-8; if only this file exists, " + ENCODE_AGAIN.format("cp1252"),
        "cp1252", "utf-8",
    ),
    MojibakePattern(
        "GBK read as Latin-1", "".join(map(chr, range(0xB0, 0xD8))),
        re.compile("(?:[\xb0-\xd7][\xa1-\xfe]){4,}+"),  # characters of GB 2312's first level
        "read the original with --encoding gb18030; if only this file exists, " + ENCODE_AGAIN.format("latin1"),
        "latin-1", "gb18030",
    ),
    MojibakePattern(
        "UTF-8 read as GBK", "鐨锛銆涓鎴鍦浜鏈", re.compile(_UTF8_AS_GBK),
        "read the original with --encoding utf-8; if only this file exists, " + ENCODE_AGAIN.format("gb18030"),
        "gb18030", "utf-8",
    ),
    MojibakePattern(
        "lost for good (锟斤拷, 烫烫烫)", "锟斤烫屯", re.compile("锟斤拷?|斤拷锟|锟{2,}+|烫{3,}+|屯{3,}+"),
        "these characters are gone from the file: get the original, or leave such documents out (--drop-mojibake 0.01)",
    ),
    MojibakePattern(
        "replacement characters in a row", "\ufffd", re.compile("\ufffd{2,}+"),
        "bytes were lost when the file was made: read the original with its --encoding, or --drop-replaced 0.01",
    ),
)  # fmt: skip


@cache
def _mojibake_starts() -> np.ndarray:
    """Whether mojibake can start with each character of the first plane."""
    is_start = np.zeros(0x10000, bool)
    is_start[[ord(character) for pattern in MOJIBAKE_PATTERNS for character in pattern.markers]] = True
    return is_start


def find_mojibake(text: str, codes: np.ndarray | None = None) -> Iterator[tuple[MojibakePattern, re.Match[str]]]:
    """Every span that looks wrongly decoded; where two patterns match, the longer match."""
    if text.isascii():
        return
    codes = code_points(text, surrogates="keep") if codes is None else codes
    end = 0
    for position in np.flatnonzero(_mojibake_starts()[np.minimum(codes, 0xFFFF)]).tolist():
        if position < end:
            continue
        candidates = ((mojibake, mojibake.pattern.match(text, position)) for mojibake in MOJIBAKE_PATTERNS)
        matches = [(mojibake, match) for mojibake, match in candidates if match is not None]
        if matches:
            longest = max(matches, key=lambda pair: pair[1].end())
            end = longest[1].end()
            yield longest


# --- Vocabulary growth ---

# Each Chinese character, else runs of letters and digits.
_WORDS = re.compile(f"[{HAN_CLASS}]|[^\\W{HAN_CLASS}]{{1,64}}")
MAX_TYPES = 5_000_000
COVERAGE_RANKS = (1_000, 10_000, 30_000)


class WordCounter:
    """Counts words; with `max_types` distinct ones, no new ones are added."""

    def __init__(self, max_types: int = MAX_TYPES) -> None:
        self.counts: Counter[str] = Counter()
        self.total, self.max_types, self.is_full = 0, max_types, False
        self.curve: list[tuple[int, int]] = []

    def add(self, text: str) -> None:
        words = _WORDS.findall(text)
        for start in range(0, len(words), 10_000):  # so that a long text adds many points to the curve
            chunk = words[start : start + 10_000]
            if len(self.counts) >= self.max_types:
                self.is_full = True
                self.counts.update(word for word in chunk if word in self.counts)
                continue
            self.counts.update(chunk)
            self.total += len(chunk)
            if self.total >= 1000 and (not self.curve or self.total >= 1.4 * self.curve[-1][0]):
                self.curve.append((self.total, len(self.counts)))

    def to_dict(self) -> dict[str, Any]:
        """Counts, Heaps' law V = K · N^β fitted to the curve, and the coverage of the most frequent words."""
        counts = np.sort(np.fromiter(self.counts.values(), np.int64, len(self.counts)))[::-1]
        total = int(counts.sum())
        stats: dict[str, Any] = {
            "words": total, "types": len(counts), "once": int((counts == 1).sum()), "full": self.is_full,
            "covered": {top: int(counts[:top].sum()) / total for top in COVERAGE_RANKS} if total else {},
            "curve": self.curve,
        }  # fmt: skip
        if len(self.curve) >= 3:
            lengths, types = np.log(np.array(self.curve, float)).T
            slope, intercept = np.polyfit(lengths, types, 1)
            stats |= {"beta": float(slope), "k": float(np.exp(intercept))}
        return stats


# --- Word shapes: capitals and digits, which help to recognize names that are not in the training data ---

SHAPES = (
    "other", "outside", "within a word", "small", "Capital", "CAPITALS", "mIXED", "digits", "l3tt3rs", "mark", "stop",
)  # fmt: skip
SENTENCE_END_MARKS = frozenset("。！？!?.…")  # punctuation that ends a sentence
CONTINUATION_PREFIX = "##"  # prefix of continuation pieces (WordPiece)
BYTE_SPACE = "\u0120"  # prefix of byte-level pieces that start a word


def word_shapes(tokens: Iterable[str]) -> np.ndarray:
    """(V + 1,) the shape of each token as an index into SHAPES; the last is for positions outside of a sequence."""
    shapes = [_shape_name(token.removeprefix(BYTE_SPACE)) for token in tokens]
    return np.array([*map(SHAPES.index, shapes), SHAPES.index("outside")], np.int64)


def _shape_name(token: str) -> str:
    if token.startswith(CONTINUATION_PREFIX) and len(token) > len(CONTINUATION_PREFIX):
        return "within a word"
    if token.isdigit():
        return "digits"
    if not any(character.isalnum() for character in token):
        return "stop" if token and SENTENCE_END_MARKS.issuperset(token) else "mark"
    if not token.isalpha():
        return "l3tt3rs" if any(character.isdigit() for character in token) else "other"
    if token == token.lower():  # scripts without case have no capitals
        return "other" if token == token.upper() else "small"
    if token[0].isupper() and token[1:] == token[1:].lower():
        return "Capital"
    return "CAPITALS" if token == token.upper() else "mIXED"
