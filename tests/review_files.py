"""Small labeled files for the tests of comparisons: reviews of places, in both languages."""

from pathlib import Path

PLACES = "garden market library station harbour 花园 市场 图书馆 车站 港口".split()
GOOD, BAD = ("lovely", "fine", "好"), ("awful", "dull", "差")


def review_lines(count: int, seed: int = 0) -> list[str]:
    """Rows of text and label; one word decides the label, which a linear model can learn."""
    rows = []
    for number in range(count):
        good = number * 7 % 3 != 0
        word = (GOOD if good else BAD)[(number // 3 + seed) % 3]
        place = PLACES[(number * 3 + seed) % len(PLACES)]
        rows.append(f"Day {number + 1000 * seed} in the {place} was {word}.\t{'good' if good else 'bad'}\n")
    return rows


def write_reviews(file: Path, count: int, seed: int = 0) -> Path:
    file.write_text("text\tlabel\n" + "".join(review_lines(count, seed)), encoding="utf-8")
    return file
