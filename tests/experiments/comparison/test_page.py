"""The page: whole, closed to the network, escaped, and saying what the comparison says."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from comparisons import BOTH, COUNTS, NETWORK, comparison, row, trial

from forebear.experiments.comparison.cost_plot import plot_text_comparison, text_plot_scale
from forebear.experiments.comparison.report import TEXT_COLUMNS, text_comparison_page
from forebear.experiments.comparison.results import CompressionBaseline, TextComparisonRow, TextTrial

EVIL = "<script>alert('x')</script>&\"'>"
ALONE = {"meta", "br", "!doctype"}


class Balanced(HTMLParser):
    """Counts tags, and complains of one that is closed out of turn."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(made: str) -> Balanced:
    reader = Balanced()
    reader.feed(made)
    reader.close()
    assert reader.open == []
    return reader


def cells(made: str) -> list[list[str]]:
    """The table's rows as a reader sees them."""
    body = re.search(r"<tbody>(.*?)</tbody>", made, re.DOTALL)[1]
    rows = re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    return [[re.sub(r"<[^>]+>", " ", cell).strip() for cell in re.findall(r"<t[dh].*?</t[dh]>", one)] for one in rows]


def test_the_page_says_what_the_comparison_says():
    made = text_comparison_page(BOTH)
    reader = parsed(made)
    words = " ".join(reader.text)
    for told in ("Network describes this text best", "1 MB of text", "Up to 40 s of learning", "no model can go below"):
        assert told in words
    first, second = cells(made)
    assert first[0] == "1948"
    assert first[2].split()[0] == "2.500"
    assert second[1].startswith("Network")
    assert "best" in second[1]
    assert "best" not in first[1].split()
    assert len(first) == len(second) == len(TEXT_COLUMNS)


def test_the_table_is_accessible():
    tags = parsed(text_comparison_page(BOTH)).tags
    heads = [attributes for tag, attributes in tags if tag == "th"]
    assert all(attributes.get("scope") in ("col", "row") for attributes in heads)
    assert {"caption", "thead", "tbody", "tfoot", "figcaption"} <= {tag for tag, _ in tags}
    assert ("html", {"lang": "en"}) in tags


def test_the_page_needs_nothing_from_elsewhere():
    made = text_comparison_page(BOTH)
    assert "default-src 'none'" in made
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)|\ssrc=|\shref=", made)


def test_everything_is_escaped():
    wild = TextComparisonRow(
        EVIL, EVIL, 2000, EVIL, EVIL, (trial(1, 2.0, tokenizer=EVIL, sample=EVIL, error=EVIL, size=EVIL),)
    )
    broken = TextComparisonRow("b" + EVIL, EVIL, 2001, EVIL, EVIL, (TextTrial(0, error=EVIL),))
    facts = {"machine": EVIL, "command": EVIL, "note": EVIL, "forebear": EVIL, "when": EVIL}
    made = text_comparison_page(
        replace(
            comparison(
                wild, broken, yardsticks=(CompressionBaseline(EVIL, 2.1, EVIL),), prompt=EVIL, limit=1.0, facts=facts
            ),
            texts=(EVIL,),
            settings={"budget": EVIL, "seeds": [0, 1]},
        )
    )
    parsed(made)
    assert made.count("<script>") == 1
    assert "alert('x')</script>" not in made


def test_names_that_are_no_unicode_do_not_break_the_page():
    assert text_comparison_page(replace(BOTH, texts=("b\udcffok.txt",))).encode()


def test_a_failing_milestone_is_a_row_with_its_error():
    broken = row("broken", 2000, TextTrial(0, error="out of memory"))
    year, name, error = cells(text_comparison_page(comparison(COUNTS, broken)))[1]
    assert (year, name.split()[0], error) == ("2000", "Broken", "out of memory")
    half = row("half", 2001, trial(1, 2.0), TextTrial(1, error="killed by SIGKILL"))
    (only,) = cells(text_comparison_page(comparison(half)))
    assert only[2].split()[0] == "2.000"
    assert "killed by SIGKILL" in only[2]


def test_what_is_impossible_to_a_model_is_infinite_and_said():
    (only,) = cells(text_comparison_page(comparison(row("ml", 1948, trial(1, None, impossible=17)))))
    assert only[2].startswith("∞")
    assert "17 tokens" in only[2]


@pytest.mark.parametrize(
    "rows", [(), (COUNTS,), (row("x", 1, TextTrial(0, error="no")),), (row("x", 1, trial(0.0, 2.0)),)]
)
def test_pages_of_little_are_whole(rows):
    parsed(text_comparison_page(comparison(*rows, finished=False)))


def test_the_plot_is_sound_and_holds_everything():
    root = ElementTree.fromstring(plot_text_comparison(BOTH))
    names = [element.text for element in root.iter("text")]
    assert {"Counts", "Network", "xz"} <= set(names)
    assert "byte frequencies" not in names  # far above all results: it would flatten the picture
    assert [element.tag for element in root][:2] == ["title", "desc"]
    assert "2.500 bits per byte after 2 s" in root.find("desc").text
    assert len(list(root.iter("polyline"))) == 1
    means = [element for element in root.iter("circle") if element.get("class") == "mean"]
    assert len(means) == 2
    assert float(means[0].get("cx")) < float(means[1].get("cx"))
    assert float(means[0].get("cy")) < float(means[1].get("cy"))  # more bits stand higher


def test_seeds_are_rings_around_their_mean():
    root = ElementTree.fromstring(
        plot_text_comparison(comparison(row("x", 2000, trial(5, 2.0), trial(6, 2.2, seed=1))))
    )
    assert len([element for element in root.iter("circle") if element.get("class") == "seed"]) == 2


def test_the_scale_holds_all_results_and_the_limit():
    scale = text_plot_scale(BOTH)
    for seconds, bits in ((2.0, 2.5), (100.0, 2.0)):
        assert 52 < scale.x(seconds) < 832
        assert 20 < scale.y(bits) < 474
    assert scale.y(1.75) < 474
    assert scale.x(20) - scale.x(2) == pytest.approx(scale.x(100) - scale.x(10))  # logarithmic


def test_the_script_and_the_style_cannot_end_their_element_early():
    made = text_comparison_page(comparison(NETWORK))
    assert made.count("</script>") == made.count("</style>") == 1
