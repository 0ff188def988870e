"""The HTML report of a text comparison: valid, self-contained, escaped, with the numbers of the comparison."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from text_comparisons import COUNTS, NETWORK, TWO_MODELS, comparison, row, trial

from forebear.experiments.comparison.cost_plot import plot_text_comparison, text_plot_scale
from forebear.experiments.comparison.report import TEXT_COLUMNS, text_comparison_page
from forebear.experiments.comparison.results import CompressionBaseline, TextComparisonRow, TextTrial

HOSTILE_TEXT = "<script>alert('x')</script>&\"'>"
VOID_TAGS = {"meta", "br", "!doctype"}


class TagBalanceParser(HTMLParser):
    """Collects tags and text, and fails on a tag that is closed out of order."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse_page(html: str) -> TagBalanceParser:
    parser = TagBalanceParser()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser


def table_body_cells(html: str) -> list[list[str]]:
    """The visible text of each cell of the table body."""
    body = re.search(r"<tbody>(.*?)</tbody>", html, re.DOTALL)[1]
    rows = re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    return [[re.sub(r"<[^>]+>", " ", cell).strip() for cell in re.findall(r"<t[dh].*?</t[dh]>", row)] for row in rows]


def test_report_shows_headline_best_row_and_columns():
    html = text_comparison_page(TWO_MODELS)
    parser = parse_page(html)
    words = " ".join(parser.text)
    for phrase in (
        "Network describes this text best",
        "1 MB of text",
        "Up to 40 s of learning",
        "no model can go below",
    ):
        assert phrase in words
    first, second = table_body_cells(html)
    assert first[0] == "1948"
    assert first[2].split()[0] == "2.500"
    assert second[1].startswith("Network")
    assert "best" in second[1]
    assert "best" not in first[1].split()
    assert len(first) == len(second) == len(TEXT_COLUMNS)


def test_report_table_is_accessible():
    tags = parse_page(text_comparison_page(TWO_MODELS)).tags
    headers = [attributes for tag, attributes in tags if tag == "th"]
    assert all(attributes.get("scope") in ("col", "row") for attributes in headers)
    assert {"caption", "thead", "tbody", "tfoot", "figcaption"} <= {tag for tag, _ in tags}
    assert ("html", {"lang": "en"}) in tags


def test_report_loads_nothing_from_the_network():
    html = text_comparison_page(TWO_MODELS)
    assert "default-src 'none'" in html
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)|\ssrc=|\shref=", html)


def test_report_escapes_all_values():
    hostile_row = TextComparisonRow(
        HOSTILE_TEXT,
        HOSTILE_TEXT,
        2000,
        HOSTILE_TEXT,
        HOSTILE_TEXT,
        (trial(1, 2.0, tokenizer=HOSTILE_TEXT, sample=HOSTILE_TEXT, error=HOSTILE_TEXT, size=HOSTILE_TEXT),),
    )
    failed_row = TextComparisonRow(
        "b" + HOSTILE_TEXT, HOSTILE_TEXT, 2001, HOSTILE_TEXT, HOSTILE_TEXT, (TextTrial(0, error=HOSTILE_TEXT),)
    )
    metadata = {
        "machine": HOSTILE_TEXT,
        "command": HOSTILE_TEXT,
        "note": HOSTILE_TEXT,
        "forebear": HOSTILE_TEXT,
        "when": HOSTILE_TEXT,
    }
    html = text_comparison_page(
        replace(
            comparison(
                hostile_row,
                failed_row,
                yardsticks=(CompressionBaseline(HOSTILE_TEXT, 2.1, HOSTILE_TEXT),),
                prompt=HOSTILE_TEXT,
                limit=1.0,
                facts=metadata,
            ),
            texts=(HOSTILE_TEXT,),
            settings={"budget": HOSTILE_TEXT, "seeds": [0, 1]},
        )
    )
    parse_page(html)
    assert html.count("<script>") == 1
    assert "alert('x')</script>" not in html


def test_report_accepts_file_names_that_are_not_unicode():
    assert text_comparison_page(replace(TWO_MODELS, texts=("b\udcffok.txt",))).encode()


def test_report_shows_failed_trials_with_their_error():
    failed = row("broken", 2000, TextTrial(0, error="out of memory"))
    year, name, error = table_body_cells(text_comparison_page(comparison(COUNTS, failed)))[1]
    assert (year, name.split()[0], error) == ("2000", "Broken", "out of memory")
    half_failed = row("half", 2001, trial(1, 2.0), TextTrial(1, error="killed by SIGKILL"))
    (cells,) = table_body_cells(text_comparison_page(comparison(half_failed)))
    assert cells[2].split()[0] == "2.000"
    assert "killed by SIGKILL" in cells[2]


def test_report_shows_infinite_bits_for_impossible_tokens():
    (cells,) = table_body_cells(text_comparison_page(comparison(row("ml", 1948, trial(1, None, impossible=17)))))
    assert cells[2].startswith("∞")
    assert "17 tokens" in cells[2]


@pytest.mark.parametrize(
    "rows", [(), (COUNTS,), (row("x", 1, TextTrial(0, error="no")),), (row("x", 1, trial(0.0, 2.0)),)]
)
def test_report_of_empty_or_failed_comparisons_is_valid(rows):
    parse_page(text_comparison_page(comparison(*rows, finished=False)))


def test_cost_plot_is_valid_svg_with_all_rows_in_order():
    root = ElementTree.fromstring(plot_text_comparison(TWO_MODELS))
    names = [element.text for element in root.iter("text")]
    assert {"Counts", "Network", "xz"} <= set(names)
    assert "byte frequencies" not in names  # far above all results: it would flatten the plot
    assert [element.tag for element in root][:2] == ["title", "desc"]
    assert "2.500 bits per byte after 2 s" in root.find("desc").text
    assert len(list(root.iter("polyline"))) == 1
    means = [element for element in root.iter("circle") if element.get("class") == "mean"]
    assert len(means) == 2
    assert float(means[0].get("cx")) < float(means[1].get("cx"))
    assert float(means[0].get("cy")) < float(means[1].get("cy"))  # more bits are higher


def test_cost_plot_draws_every_seed():
    root = ElementTree.fromstring(
        plot_text_comparison(comparison(row("x", 2000, trial(5, 2.0), trial(6, 2.2, seed=1))))
    )
    assert len([element for element in root.iter("circle") if element.get("class") == "seed"]) == 2


def test_cost_plot_scale_contains_results_and_entropy_bound():
    scale = text_plot_scale(TWO_MODELS)
    for seconds, bits in ((2.0, 2.5), (100.0, 2.0)):
        assert 52 < scale.x(seconds) < 832
        assert 20 < scale.y(bits) < 474
    assert scale.y(1.75) < 474
    assert scale.x(20) - scale.x(2) == pytest.approx(scale.x(100) - scale.x(10))  # logarithmic


def test_report_script_and_style_close_once():
    html = text_comparison_page(comparison(NETWORK))
    assert html.count("</script>") == html.count("</style>") == 1
