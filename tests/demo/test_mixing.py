"""The demo's text: both sources, the size that was asked, and nothing that changes when more is asked."""

from __future__ import annotations

from forebear.demo import demo_text
from forebear.demo.demo_text import mixed_documents


def size(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def test_more_text_begins_with_less_text():
    few, many = list(mixed_documents(60_000, 1)), list(mixed_documents(200_000, 1))
    assert many[: len(few)] == few
    assert list(mixed_documents(60_000, 2)) != few


def test_half_is_manual_and_half_is_of_the_world_in_both_languages():
    texts = list(mixed_documents(400_000, 3))
    assert size(texts[:-1]) < 400_000 <= size(texts)
    pages = set(demo_text.manual_documents())
    ours = [text for text in texts if text not in pages]
    assert 0.4 < size(ours) / size(texts) < 0.6
    chinese = [text for text in ours if any("\u4e00" <= sign <= "\u9fff" for sign in text)]
    assert 0.3 < size(chinese) / size(ours) < 0.7


def test_when_the_manual_is_read_the_world_goes_on(monkeypatch):
    monkeypatch.setattr(demo_text, "manual_documents", lambda: ("One page only, and that is all there is to it.",))
    texts = list(mixed_documents(20_000, 0))
    assert size(texts) >= 20_000
    assert sum(text.startswith("One page only") for text in texts) == 1
    monkeypatch.setattr(demo_text, "manual_documents", lambda: ())
    assert size(list(mixed_documents(5_000, 0))) >= 5_000
