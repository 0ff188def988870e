"""The demo's mixed text: both sources, at the requested size, and a prefix of any larger text."""

from __future__ import annotations

from forebear.demo import demo_text, python_manual
from forebear.demo.demo_text import mixed_documents


def num_bytes(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def test_longer_mixed_text_starts_with_the_shorter_one():
    shorter, longer = list(mixed_documents(60_000, 1)), list(mixed_documents(200_000, 1))
    assert longer[: len(shorter)] == shorter
    assert list(mixed_documents(60_000, 2)) != shorter


def test_mixed_text_is_half_manual_and_half_stories_in_both_languages():
    texts = list(mixed_documents(400_000, 3))
    assert num_bytes(texts[:-1]) < 400_000 <= num_bytes(texts)
    manual_pages = set(python_manual.manual_documents())
    stories = [text for text in texts if text not in manual_pages]
    assert 0.4 < num_bytes(stories) / num_bytes(texts) < 0.6
    chinese = [text for text in stories if any("\u4e00" <= character <= "\u9fff" for character in text)]
    assert 0.3 < num_bytes(chinese) / num_bytes(stories) < 0.7


def test_mixed_text_continues_with_stories_when_the_manual_ends(monkeypatch):
    monkeypatch.setattr(demo_text, "manual_documents", lambda: ("One page only, and that is all there is to it.",))
    texts = list(mixed_documents(20_000, 0))
    assert num_bytes(texts) >= 20_000
    assert sum(text.startswith("One page only") for text in texts) == 1
    monkeypatch.setattr(demo_text, "manual_documents", lambda: ())
    assert num_bytes(list(mixed_documents(5_000, 0))) >= 5_000
