"""Sentence splitting: a table of cases, a partition for any text, and linear time."""

import time
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data import sentences
from forebear.data.sentences import SentenceMode, sentence_ends, split_sentences

# A bar marks a sentence boundary; no case contains a bar itself.
CHINESE = """
今天天气很好。|我们去公园吧！|你去吗？|我去。
你好！！！|真的吗？！|太好了。。。|走吧
他说：“我来了。”|然后坐下。
“你好。|我来了。”|他说。
「真的嗎？」|他問。|「是的！」|她答。
他問：『誰說「不行」？』|沒有人回答。
（他没有来。）|会议照常举行。
【通知：明天放假！】|请互相转告。
我不知道……|也许吧……，谁知道呢。
他走了…|门还开着。
这、那……、以及别的，都带走；快！
“太好了！”，他说，“走吧。”|大家笑了。
你真的要去？——他问我。
他读过《你好吗？》这本书。|书很薄。
《艾琳的挑战！我会说日语。》是一个节目。|它播了三年。
〈你好嗎？〉是一首歌。
问号“？”和叹号（！）都是标点。|句号也是。
圆周率约为3.14，不是3.2。|記住了嗎？
占比为３．１４％。|其余不计。
喬治．華盛頓是美國人。|他當過總統。
第一，准备；第二，开始：走。|第三、结束
　　段落开头有全角空格。|　第二句也有。
他说:"你好。|我来了。"|然后走了。
他说"好!"|然后走了。
有人问:"为什么?"|没有人说话。
1. 首先，打开门。|2. 然后，进去。
1.首先，打开门。|2.然后，进去。
一. 总则。|二. 分则。
𠮷野家开门了。|𠀀字很少见！|走
今日はいい天気です。|散歩に行きましょう！|はい
半角句号｡|后面一句
欢腾“。|在接下来的两年
这是注释。[1]|这是正文。[2][13]|完
"""

MIXED = """
你好!|我是小明.|你是谁?|我是小红
你好!|我是小明。
他走了.|她来了.|门开着
我爱Python!|你呢?|Java也行
真的吗?|Yes!|我不信
苹果公司（Apple Inc.）发布了iPhone 3.5。|它很贵。
Apple Inc.是一家公司。|Google也是。
Apple Inc. 是一家公司。|Google也是。
他用iPhone。|iPad也有。
版本2.0.1发布了。|请访问www.example.com查看。
网址是http://zh.example.org/中文?action=raw。|请看
I love you!|我也是。
J. K. 罗琳写了《哈利·波特》。|她是英国人。
他说OK...|我们走吧
完成率98.5%!|太棒了
"""

ENGLISH = """
Hello world.| How are you?| Fine!| Thanks
Mr. Smith met Dr. Jones and Prof. Lee.| They talked.
She lives on St. Mark's Place.| It is quiet.
He bought apples, pears, etc. at the market.| Then he left.
He bought apples, pears, etc.| The market closed.
He bought apples, pears, etc.| Bob stayed.
Some animals, e.g. The Black Cat, i.e. Felix, are famous.| Others are not.
Apple Inc. announced a phone.| It sold well.
He works for Apple Inc.| He likes it.
The U.S. Navy sailed.| It left the U.S.| The crew was tired.
We met at 5 p.m.| Nobody came before 6 p.m. on Friday.
J. R. R. Tolkien wrote it.| C. S. Lewis read it.
J.R.R. Tolkien wrote it.| She has a Ph.D.| The rest do not.
It needs vitamin C.| The dose is small.
J. A. Smith and J. I. Case met.| A crowd came.
See Fig. 3 and No. 5, pp. 10 ff. for more.| No.| I will not.
He said no.| We left.
Pi is 3.14 and v2.0.1 is out.| Prices rose 0.5.| Then fell.
Visit https://example.com/a?b=1.2&c=3.| Or www.example.org!| Now
Wait... what?| I am not sure...| Perhaps.
Really?!| No way!!!| Yes.
"Really?" he said.| "Yes!" she cried.| Then silence.
"I see."| He left.| "Good," she said.| 'Fine.'| Done.
He said, "Go away."| She went.
“Go away!”| She went.| ‘Why?’| Because.
“Really?”, he asked.| Nobody knew.
(He was late.)| She was not.| [So it goes.]| Indeed.
He was born in 1450(?) in Rome.| He died there.
It happened in Jan. 1990 and Feb. 5.| In Sept.| The rest followed.
Smith et al. (2010) found it.| Others did not.
1. First point.| 2. Second point.
(a). First point.| II. Method here.| 1.2. Scope here.
In 1945.| The war ended.
It was c. 1500 and ca. 1600.| Nobody knows.
The end came.[1]| Another began.[2][3]| Nothing else.
Yes.| .NET is fine.| He left.| ...and came back.
Yahoo! is a company.| It was sold.
MR. SMITH AND DR. JONES MET.| THEY TALKED.
He is Martin Luther King Jr.| He spoke.| John Jr. Smith did not.
The match was Smith vs. Jones.| Jones won.
P. Smith and Roe v. Wade met in the U.S.| Today.| Bob saw.
Émile left.| Été came.| Österreich too.
He paid $5.| $6 was too much.| (So he said.)
What is it?| 42 is it.
"""

PRETOKENIZED = """
 The word .| The next one .
 He left ( at last . )| She did not .
 He asked , " Why ? " and left .| " Because , " she said .| The end .
 " It is late . "| He slept .
 It cost 3 @.@ 5 dollars .| Dr. No and the U.S. Army met .
 " ... Thirteen Years Later " is an episode .| It aired .
 I like it .| [ … ] But not much . . .| Well ! !| Good .
 What ? !| Never .
"""


CASES = [line.split("|") for table in (CHINESE, MIXED, ENGLISH, PRETOKENIZED) for line in table.strip("\n").split("\n")]

# Text, then the pieces of `split`, of `lines` and of `flow`.
LINES = [
    ("", [], [], []),
    (" \n\t ", [" \n\t "], [" \n\t "], [" \n\t "]),
    ("one\ntwo", ["one", "\ntwo"], ["one", "\ntwo"], ["one\ntwo"]),
    ("one.\ntwo. Three.", ["one.", "\ntwo.", " Three."], ["one.", "\ntwo. Three."], ["one.\ntwo.", " Three."]),
    ("One.\nTwo", ["One.", "\nTwo"], ["One.", "\nTwo"], ["One.", "\nTwo"]),
    ("one \n\n  two\n", ["one", " \n\n  two\n"], ["one", " \n\n  two\n"], ["one", " \n\n  two\n"]),
    ("one\r\ntwo", ["one", "\r\ntwo"], ["one", "\r\ntwo"], ["one\r\ntwo"]),
    ("one\r\n\r\ntwo", ["one", "\r\n\r\ntwo"], ["one", "\r\n\r\ntwo"], ["one", "\r\n\r\ntwo"]),
    ("one\n \t\ntwo", ["one", "\n \t\ntwo"], ["one", "\n \t\ntwo"], ["one", "\n \t\ntwo"]),
    ("one\u2028two", ["one", "\u2028two"], ["one", "\u2028two"], ["one\u2028two"]),
    ("one\u2029two", ["one", "\u2029two"], ["one", "\u2029two"], ["one", "\u2029two"]),
    ("\n\n one", ["\n\n one"], ["\n\n one"], ["\n\n one"]),
    ("好。\n坏。走", ["好。", "\n坏。", "走"], ["好。", "\n坏。走"], ["好。", "\n坏。", "走"]),
    (
        "他走\n了。她\n\n来了",
        ["他走", "\n了。", "她", "\n\n来了"],
        ["他走", "\n了。她", "\n\n来了"],
        ["他走\n了。", "她", "\n\n来了"],
    ),
    ("Mr.\nSmith left.\n", ["Mr.", "\nSmith left.\n"], ["Mr.", "\nSmith left.\n"], ["Mr.\nSmith left.\n"]),
    ('an open " quote\nA . " Go .', ['an open " quote', "\nA .", ' " Go .'], ['an open " quote', '\nA . " Go .'], None),
]

MODES: list[SentenceMode] = ["split", "lines", "flow", "whole"]
ANY_TEXT = st.text() | st.text(
    st.sampled_from("aA1好 \n\r\u2029\u3000.．。!?？…\"'“”()（）[]《》,，;—-éMr\x00\ud800"), max_size=40
)


@pytest.mark.parametrize("pieces", CASES, ids=lambda pieces: "".join(pieces)[:24])
def test_sentences_match_the_table_of_cases(pieces: list[str]):
    assert split_sentences("".join(pieces)) == pieces
    assert split_sentences("".join(pieces), "flow") == pieces
    assert split_sentences("".join(pieces), "lines") == ["".join(pieces)]


@given(st.text("ab \n\t\r\x85\u3000。", min_size=1, max_size=30))
def test_plain_line_split_agrees_with_the_general_rules(text: str):
    plain_lines = sentences._split_plain_lines(text)
    by_rule = [end for _, end in sentences._line_spans(text, "lines")]
    assert plain_lines is None or list(accumulate(map(len, plain_lines))) == [*by_rule[:-1], len(text)]
    assert plain_lines is None or "".join(plain_lines) == text
    blank = any(not line.strip() for line in text.removesuffix("\n").split("\n"))
    assert (plain_lines is None) == (blank or "\r" in text or "\x85" in text)


@pytest.mark.parametrize(("text", "split", "lines", "flow"), LINES)
def test_line_breaks_by_sentence_mode(text: str, split: list[str], lines: list[str], flow: list[str] | None):
    assert split_sentences(text) == split
    assert split_sentences(text, "lines") == lines
    assert flow is None or split_sentences(text, "flow") == flow
    assert split_sentences(text, "whole") == ([text] if text else [])


@settings(deadline=None)
@given(ANY_TEXT, st.sampled_from(MODES))
def test_sentences_partition_any_text(text: str, mode: SentenceMode):
    pieces = split_sentences(text, mode)
    assert "".join(pieces) == text
    assert all(pieces)
    assert not text.strip() or all(piece.strip() for piece in pieces)
    assert not any(piece[-1].isspace() for piece in pieces[:-1])
    ends = sentence_ends(text, mode)
    assert [len(piece) for piece in pieces] == [end - start for start, end in zip([0, *ends], ends, strict=False)]


@settings(deadline=None)
@given(ANY_TEXT)
def test_split_mode_also_ends_sentences_at_line_ends(text: str):
    assert set(sentence_ends(text, "lines")) <= set(sentence_ends(text, "split"))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["今天很好。", "你好吗？", "走吧！", "我不知道……", "“好。”", "「嗎？」"])))
def test_joined_chinese_sentences_are_split_again(sentences: list[str]):
    assert split_sentences("".join(sentences)) == sentences


@given(
    st.lists(st.sampled_from(["He left.", "Why not?", "Go!", '"Yes."', "Mr. Smith saw 3.5 of them.", "(It rained.)"]))
)
def test_joined_english_sentences_are_split_again(sentences: list[str]):
    assert [piece.strip() for piece in split_sentences(" ".join(sentences))] == sentences


UNITS = [
    ".",
    '"',
    "'",
    " ",
    "\n",
    " \n",
    "\r\n",
    "a.",
    "a. ",
    "A. ",
    'A. "',
    '. "',
    '." ',
    "。",
    '。"',
    "。，",
    "《？",
    "？》",
    "…",
]
UNITS += [".[1]", ".[", ".[12", "( . ", ". .", ".a", "Mr. ", "一. ", "1.", "！　", "a.b", "\u2029", "。」。"]


HOSTILE = [(unit, mode) for unit in UNITS for mode in MODES[: 3 : 1 if unit.endswith((" ", "\n", "\u2029")) else 3]]


@pytest.mark.sample(10)
@pytest.mark.parametrize(("unit", "mode"), HOSTILE)
def test_sentence_splitting_takes_linear_time_on_hostile_text(unit: str, mode: SentenceMode):
    """Quadratic time would take minutes on a million characters; the slowest of these takes seconds under any load."""
    seconds = []
    for size in (1_000_000 // 16, 1_000_000):
        text = (unit * size)[:size]
        start = time.process_time()
        pieces = split_sentences(text, mode)
        seconds.append(time.process_time() - start)
        assert "".join(pieces) == text
    assert seconds[1] < 10
    assert seconds[1] < 16 * 4 * seconds[0] + 0.2


def test_real_text_has_sentences_of_usual_length(data):
    for name, shortest, longest in (("corpora/zhwiki.txt", 25, 60), ("corpora/wikitext2/wiki.valid.raw", 90, 140)):
        lines = (data / name).read_text(encoding="utf-8")[:1_000_000].split("\n")
        pieces = [split_sentences(line) for line in lines]
        assert ["".join(line_pieces) for line_pieces in pieces] == lines
        assert shortest < sum(map(len, lines)) / sum(map(len, pieces)) < longest


def test_long_text_without_punctuation_is_split_at_spaces():
    for mode in ("split", "flow"):
        text = "one two three " * 5000
        pieces = split_sentences(text, mode)
        assert "".join(pieces) == text
        assert len(pieces) > 5
        assert max(map(len, pieces)) <= 8192
        assert all(piece.startswith(" ") for piece in pieces[1:])
    assert split_sentences("字" * 20000) == ["字" * 20000], "where there is no space nothing says where words end"
    assert split_sentences(text, "lines") == split_sentences(text, "whole") == [text]
    for edge_case in (" " + "x" * 20000, "x " + " " * 20000 + "y", "word " * 3000 + " " * 20000):
        assert "".join(split_sentences(edge_case)) == edge_case
        assert all(piece.strip() for piece in split_sentences(edge_case)), "no sentence is white space only"
    long_word_first = "x" * 20000 + " one two three" * 5000
    assert len(split_sentences(long_word_first)) > 5, "one endless word keeps none of the others"
    assert "".join(split_sentences(long_word_first)) == long_word_first
