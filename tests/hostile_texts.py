"""Strings that break tokenizers: combining marks, controls, odd spaces, emoji, special tokens, lone surrogates."""

import random

from hypothesis import strategies as st

FRAGMENTS = (
    *"aZ09_ .,'\"-#[]<|>=\t\n\r\v\f",
    *"\x00\x01\x1b\x1c\x1d\x1e\x1f\x7f\x85\xa0\xad",
    *"\u0301\u0308\u0338\u0345\u0327\u3099\u1ab0\u20dd",  # marks; U+0338 joins with < = >
    *"\u1680\u180e\u2000\u2003\u200a\u200b\u200c\u200d\u200e\u2028\u2029\u202f\u205f\u2060\u3000\ufeff\ufffd\uffff",
    *"éÉßıİſΣςẞǅﬁ½²①㍿Å한각ᄀ",
    *"中文漢々〇𠀀𪛖㐀豈丽，。！？「」“”……—·",
    *"かなカナ가나ไทยहिन्दी",
    "😀", "👩‍👩‍👧‍👦", "🇨🇳", "👍🏽", "❤️", "\U000e0067", "\U0010ffff", "\U0002b820", "\U0002b920", "\U0002f800",
    "[MASK]", "[CLS]", "[UNK]", "[unused1]", "<|endoftext|>", "<unk>", "##ing", "\x1f [MASK]",
    " the", " The", "hello", "don't", "'s", " 's", "ing", "internationalisation", "  ", "   ", "\r\n", "3.14",
    "自然语言处理", "我爱北京", "a" * 101,
)  # fmt: skip


def hostile_strings(*, surrogates: bool = True) -> st.SearchStrategy[str]:
    """Any string, above all hostile ones."""
    fragments = FRAGMENTS + (("\ud800", "\udfff", "\ud83d\ude00") if surrogates else ())
    anything = st.text(st.characters(codec=None if surrogates else "utf-8"), max_size=6)
    joined = st.lists(st.sampled_from(fragments) | anything, max_size=24).map("".join)
    return joined | st.text(st.characters(codec=None if surrogates else "utf-8"))


def hostile_lines(number: int, seed: int = 0) -> list[str]:
    """The same mixed lines each time: Chinese, English, emoji, marks, controls, and any assigned character."""
    draw = random.Random(seed)
    lines = []
    for _ in range(number):
        parts = []
        for _ in range(draw.randint(1, 30)):
            kind = draw.random()
            if kind < 0.55:
                parts.append(draw.choice(FRAGMENTS))
            elif kind < 0.7:
                parts.append(" " + "".join(draw.choices("etaoinshrdluETA", k=draw.randint(1, 9))))
            elif kind < 0.85:
                parts.append("".join(chr(draw.randint(0x4E00, 0x9FA5)) for _ in range(draw.randint(1, 6))))
            else:
                code = draw.randint(0, 0x1FFFF)
                parts.append(" " if 0xD800 <= code < 0xE000 else chr(code))
        lines.append("".join(parts))
    return lines
