"""Small labelled files for the tests of comparing: what people said of places, in both languages."""

from pathlib import Path

PLACES = "garden market library station harbour 花园 市场 图书馆 车站 港口".split()
GOOD, BAD = ("lovely", "fine", "好"), ("awful", "dull", "差")


def lines(count: int, seed: int = 0) -> list[str]:
    """So many texts with what they are; one word decides, which a linear model finds."""
    made = []
    for number in range(count):
        good = number * 7 % 3 != 0
        word = (GOOD if good else BAD)[(number // 3 + seed) % 3]
        place = PLACES[(number * 3 + seed) % len(PLACES)]
        made.append(f"Day {number + 1000 * seed} in the {place} was {word}.\t{'good' if good else 'bad'}\n")
    return made


def write(file: Path, count: int, seed: int = 0) -> Path:
    file.write_text("text\tlabel\n" + "".join(lines(count, seed)), encoding="utf-8")
    return file
