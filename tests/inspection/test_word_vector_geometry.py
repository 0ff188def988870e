"""Word-vector plots: PCA equal to scikit-learn's, norms and frequency from worked examples, labels without overlap."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import Captured, json_output, printed_output, refusal_message
from forebear.embeddings.lexicon import ONEHOT_NOTE, Lexicon
from forebear.embeddings.word_table import IdentityMatrix, WordVectors
from forebear.errors import InputError
from forebear.inspection import embedding_visualization
from forebear.inspection.word_vector_geometry import (
    lexicon_norms,
    pca_plane,
    project_lexicon,
    project_words,
    vector_norms,
)
from forebear.reports import plotting
from forebear.reports.plotting import DOTS_PER_INCH, figure_bytes, place_point_labels
from small_runs import open_small_run

UNUSUAL_WORDS = ["king", "queen", "北京", "苹果", "$10", "<b>", "a & b", "naïve"]
# With the installed fonts
DRAWABLE_WORDS = [name for name in UNUSUAL_WORDS if name not in plotting.undrawable_texts(UNUSUAL_WORDS)]


def random_lexicon(num_words: int = 60, width: int = 10) -> Lexicon:
    rng = np.random.default_rng(1)
    words = [*UNUSUAL_WORDS, *(f"word{number}" for number in range(num_words - len(UNUSUAL_WORDS)))]
    counts = np.sort(rng.zipf(1.5, num_words).clip(max=10**5))[::-1].copy()
    rows = rng.normal(size=(num_words, width)) * np.log(counts + 2)[:, None]
    return Lexicon(WordVectors(words, rows.astype(np.float32), counts))


def test_pca_plane_equals_that_of_scikit_learn():
    decomposition = pytest.importorskip("sklearn.decomposition")
    rows = np.random.default_rng(0).normal(size=(40, 12)) * np.arange(1, 13)
    points, shares = pca_plane(rows)
    reference = decomposition.PCA(2).fit(rows)
    expected = reference.transform(rows)
    assert shares == pytest.approx(reference.explained_variance_ratio_)
    for column, reference_column in zip(points.T, expected.T, strict=True):
        assert np.abs(column) == pytest.approx(np.abs(reference_column))
        assert column[np.abs(column).argmax()] > 0
    line, (first, second) = pca_plane(np.array([[0.0, 0], [1, 1], [3, 3]]))
    assert (first, second) == (pytest.approx(1), pytest.approx(0, abs=1e-12))
    assert line[:, 1] == pytest.approx(0, abs=1e-9)
    identical, no_variance = pca_plane(np.ones((4, 3)))
    assert (identical.any(), no_variance) == (False, (0, 0))


def test_projection_holds_query_words_and_their_neighbors_once():
    projection = project_lexicon(random_lexicon(), ["king", "北京", "king"], 100, near=3)
    assert projection.words[:2] == ("king", "北京")
    assert sorted(set(projection.groups)) == [0, 1]
    assert projection.is_query == (True, True, *[False] * (len(projection.words) - 2))
    neighbors = {
        neighbor.word for answer in random_lexicon().neighbors(["king", "北京"], 3) for neighbor in answer.nearest
    }
    assert set(projection.words) == neighbors | {"king", "北京"}
    assert len(set(projection.words)) == len(projection.words)
    frequent = project_lexicon(random_lexicon(), [], 5, 0)
    assert frequent.words == tuple(random_lexicon().table.words[:5])
    assert all(frequent.is_query)
    data = projection.to_dict()
    assert len(data["words"]) == len(projection.words)
    assert data["words"][0]["count"] == int(random_lexicon().table.counts[0])  # pyright: ignore[reportOptionalSubscript]
    with pytest.raises(InputError, match="2 words do not make a picture"):
        project_lexicon(random_lexicon(), ["king", "queen"], 100, 0)


def test_lexicon_norms_match_worked_example():
    words = [f"w{number}" for number in range(6)]
    rows = np.array([(4, 0), (0, 3), (2, 0), (0, -2), (1, 0), (1, 0)], np.float32)
    norms = lexicon_norms(Lexicon(WordVectors(words, rows, np.array([1000, 500, 20, 15, 2, 1]))))
    assert norms.norms.tolist() == [4, 3, 2, 2, 1, 1]
    assert norms.spearman == pytest.approx(0.9710083)  # scipy.stats.spearmanr([6, 5, 4, 3, 2, 1], [4, 3, 2, 2, 1, 1])
    assert [(band.min_count, band.max_count, band.num_words, band.median) for band in norms.bands] == [
        (1, 2, 2, 1), (10, 29, 2, 2), (300, 999, 1, 3), (1000, 1000, 1, 4),
    ]  # fmt: skip
    assert [band.cosine for band in norms.bands] == [pytest.approx(1), pytest.approx(0, abs=1e-6), None, None]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [units[row] @ units[column] for row in range(6) for column in range(row)]
    assert norms.cosine == pytest.approx(np.mean(pairs), abs=1e-6)
    assert [norms.words[index] for index in norms.extremes[0][:2]] == ["w0", "w1"]
    assert norms.to_dict()["longest"][0] == {"word": "w0", "length": 4.0, "count": 1000}


def test_lexicon_norms_detect_neighbors_of_similar_frequency():
    """Vectors ordered by frequency correlate with it; random vectors do not."""
    counts = np.geomspace(10_000, 1, 300).astype(int)
    angles = np.linspace(0, 3, 300)
    by_rank = np.stack((np.cos(angles), np.sin(angles)), 1).astype(np.float32)
    words = [f"w{number}" for number in range(300)]
    assert lexicon_norms(Lexicon(WordVectors(words, by_rank, counts))).neighbors > 0.95
    random_rows = np.random.default_rng(0).normal(size=(300, 30)).astype(np.float32)
    assert abs(lexicon_norms(Lexicon(WordVectors(words, random_rows, counts))).neighbors) < 0.3


def test_onehot_norms_are_constant_and_correlations_undefined():
    size = 500
    table = WordVectors([f"w{row}" for row in range(size)], IdentityMatrix(size), np.arange(size, 0, -1))  # pyright: ignore
    norms = lexicon_norms(Lexicon(table))
    assert (norms.spearman, norms.cosine) == (None, pytest.approx(0, abs=1e-9))
    assert (norms.is_varying, norms.neighbors, norms.notes) == (
        False,
        None,
        (f"all vectors have the length 1; {ONEHOT_NOTE}",),
    )
    single = lexicon_norms(Lexicon(WordVectors(["one"], np.ones((1, 2), np.float32), np.array([7]))))
    assert (single.spearman, single.neighbors) == (None, None)
    assert single.correlations == ("none: all words were seen equally often",) * 2
    for output in (
        embedding_visualization.norms_page(single, "one"),
        embedding_visualization.plot_norms(single, "one", "svg").decode(),
    ):
        assert "none: all words were seen" in output or "<svg" in output
    projection = project_lexicon(Lexicon(table), ["w1", "w2", "w3"], 100, 0)
    assert projection.points.shape == (3, 2)
    assert projection.notes == (f"where a word lies here means nothing; {ONEHOT_NOTE}",)


# -- labels


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_point_labels_never_overlap_or_leave_the_canvas(seed: int, count: int):
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 100, (count, 2))
    sizes = [(float(width), 5.0) for width in rng.uniform(3, 40, count)]
    boxes = place_point_labels(points, sizes, (0, 0, 100, 100), gap=1)
    placed = [(box, size, point) for box, size, point in zip(boxes, sizes, points, strict=True) if box is not None]
    for number, (box, (width, height), point) in enumerate(placed):
        left, bottom, right, top = box
        assert (right - left, top - bottom) == (pytest.approx(width), pytest.approx(height))
        assert left >= 0 and bottom >= 0 and right <= 100 and top <= 100  # noqa: PT018
        assert left - 1.01 <= point[0] <= right + 1.01
        assert bottom - 1.01 <= point[1] <= top + 1.01
        for other, *_ in placed[:number]:
            disjoint = other[2] <= left or other[0] >= right or other[3] <= bottom or other[1] >= top
            assert disjoint
    if count == 1 and 45 < points[0, 0] < 55 and 10 < points[0, 1] < 90:
        assert placed


def saved_figures(monkeypatch: pytest.MonkeyPatch) -> list:
    figures: list = []
    monkeypatch.setattr(
        embedding_visualization,
        "figure_bytes",
        lambda figure, form: figures.append(figure) or figure_bytes(figure, form),
    )
    return figures


@pytest.mark.parametrize("near", [0, 6])
def test_projection_plot_labels_do_not_overlap(near: int, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figures = saved_figures(monkeypatch)
    words = DRAWABLE_WORDS if near == 0 else DRAWABLE_WORDS[:4]
    png = embedding_visualization.plot_projection(project_lexicon(random_lexicon(), words, 100, near), "words", "png")
    assert png.startswith(b"\x89PNG")
    (figure,) = figures
    (axes,) = figure.axes
    figure.set_dpi(DOTS_PER_INCH)  # the resolution of the saved file
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(boxes) >= len(words) - 1
    labels = [text.get_text() for text in axes.texts]
    assert [
        (labels[first], labels[second])
        for first, box in enumerate(boxes)
        for second, other_box in enumerate(boxes[:first])
        if box.overlaps(other_box)
    ] == []
    title = figure._suptitle.get_window_extent(renderer)
    assert not any(title.overlaps(other_box) for other_box in boxes)


def _drawable_subset(table: WordVectors) -> tuple[list[str], np.ndarray, np.ndarray]:
    rows = [row for row, word in enumerate(table.words) if word not in UNUSUAL_WORDS or word in DRAWABLE_WORDS]
    assert table.counts is not None
    return [table.words[row] for row in rows], table.matrix[rows], table.counts[rows]


def test_projection_plot_is_refused_if_no_font_has_the_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedding_visualization, "undrawable_texts", list)
    monkeypatch.setattr(plotting, "_choose_fonts", lambda texts: (["none"], set("".join(texts))))
    with pytest.raises(InputError, match="no font installed here has"):
        embedding_visualization.plot_projection(
            project_lexicon(random_lexicon(), ["king", "queen", "<b>"], 100, 0), "words", "png"
        )


def test_embedding_plots_of_every_view_are_written_as_png_and_svg(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    figures = saved_figures(monkeypatch)
    drawable = Lexicon(WordVectors(*_drawable_subset(random_lexicon().table)))
    queries = DRAWABLE_WORDS[:4]
    answers = drawable.neighbors(queries, 4)
    assert embedding_visualization.plot_neighbors(answers, "near", "png").startswith(b"\x89PNG")
    norms_svg = embedding_visualization.plot_norms(lexicon_norms(drawable), "norms", "svg")
    assert norms_svg.startswith(b"<?xml")
    assert embedding_visualization.plot_projection(project_lexicon(drawable, [], 30, 0), "plane", "svg").startswith(
        b"<?xml"
    )
    bar_axes = [axes for axes in figures[0].axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in bar_axes] == queries
    assert [label.get_text() for label in bar_axes[0].get_yticklabels()] == [
        neighbor.word for neighbor in answers[0].nearest
    ]
    ticks = figures[1].axes[0].get_xticklabels()
    assert all("$" not in tick.get_text() for tick in ticks)
    assert embedding_visualization.plot_norms(lexicon_norms(drawable), "norms", "svg") == norms_svg


class PageParser(HTMLParser):
    """Collects the tags and the text labels of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.labels: list[str] = []
        self._tag = ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self._tag = tag

    def handle_data(self, data: str) -> None:
        if self._tag == "text":
            self.labels.append(data)
        self._tag = ""


def test_embedding_pages_label_every_point_and_contain_no_script():
    words = random_lexicon()
    plane_page = embedding_visualization.projection_page(project_lexicon(words, UNUSUAL_WORDS, 100, 0), "words & more")
    parser = PageParser()
    parser.feed(plane_page)
    assert sorted(parser.labels) == sorted(UNUSUAL_WORDS)
    assert "<title>words &amp; more</title>" in plane_page
    for page in (
        plane_page,
        embedding_visualization.norms_page(lexicon_norms(words), "norms"),
        embedding_visualization.neighbors_page(words.neighbors(["king", "<b>"], 5), "near"),
    ):
        assert "default-src 'none'" in page
        assert "<script" not in page
        assert "http" not in page.replace("http-equiv", "")
        assert not re.search(r"<b>(?!r)", page)
    circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', plane_page)
    assert all(
        0 <= float(x) <= embedding_visualization.PLANE_WIDTH and 0 <= float(y) <= embedding_visualization.PLANE_HEIGHT
        for x, y in circles
    )


# -- the commands


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_small_run("word2vec", tmp_path_factory.mktemp("looking"), steps=15).folder.path


def test_inspect_commands_print_neighbors_projection_and_norms(
    run: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "120")
    data = json_output(capsys, "inspect", "neighbours", run, "cat", "--top", 3)
    assert (data["what"], len(data["texts"][0]["nearest"])) == ("neighbours", 3)
    assert "█" in printed_output(capsys, "inspect", "neighbours", run, "cat")
    data = json_output(capsys, "inspect", "projection", run, "cat", "dog", "--near", 2)
    assert [word["word"] for word in data["words"] if word["asked"]] == ["cat", "dog"]
    printed = printed_output(capsys, "inspect", "projection", run, "cat", "dog", "Number")
    assert all(name in printed for name in ("cat", "dog", "Number", "of the variance"))
    assert len(json_output(capsys, "inspect", "projection", run)["words"]) == 60  # the whole vocabulary
    data = json_output(capsys, "inspect", "norms", run)
    assert data["words"] == 60
    assert "Spearman" in printed_output(capsys, "inspect", "norms", run)
    for view, words in (("neighbours", ["cat"]), ("projection", []), ("norms", [])):
        file = tmp_path / f"{view}.html"
        assert json_output(capsys, "inspect", view, run, *words, "--to", file)["to"] == str(file)
        assert file.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_inspect_commands_write_embedding_plots(run: Path, tmp_path: Path, capsys: Captured):
    pytest.importorskip("matplotlib")
    for view, words in (("neighbours", ["cat"]), ("projection", ["cat", "dog", "mat"]), ("norms", [])):
        assert "written" in printed_output(capsys, "inspect", view, run, *words, "--to", tmp_path / f"{view}.png")
        assert (tmp_path / f"{view}.png").read_bytes().startswith(b"\x89PNG")


def test_projection_plot_notes_words_without_font_and_draws_unlabeled_points(
    run: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("matplotlib")
    fonts = plotting._fonts
    monkeypatch.setattr(plotting, "_fonts", lambda: ((name, characters - {ord("N")}) for name, characters in fonts()))
    labeled, draw_labels = [], embedding_visualization._draw_labels
    monkeypatch.setattr(
        embedding_visualization,
        "_draw_labels",
        lambda *arguments: (labeled.append(arguments[3]), draw_labels(*arguments))[1],
    )
    file, words = tmp_path / "plane.svg", ["cat", "dog", "Number", "mat"]
    notes = json_output(capsys, "inspect", "projection", run, *words, "--to", file)["notes"]
    assert len(notes) == 1
    assert notes[0].startswith("1 word is a dot without a name")
    assert ": Number; " in notes[0]
    assert "no font here has all characters of 1; " in file.read_text(encoding="utf-8")
    assert labeled == [["cat", "dog", "mat"]]
    assert "1 word is a dot" in printed_output(capsys, "inspect", "projection", run, *words, "--to", file)
    page = json_output(capsys, "inspect", "projection", run, *words, "--to", tmp_path / "plane.html")
    assert page["notes"] == []
    assert "written" in printed_output(capsys, "inspect", "norms", run, "--to", tmp_path / "norms.svg")


def test_inspect_commands_refuse_bad_words_and_options_with_hint(run: Path, tmp_path: Path, capsys: Captured):
    assert "there is no word" in refusal_message(capsys, "inspect", "neighbours", run)
    assert "let it end with" in refusal_message(capsys, "inspect", "norms", run, "--to", tmp_path / "norms.pdf")
    assert "--top is for when" in refusal_message(capsys, "inspect", "projection", run, "cat", "--top", 5)
    assert "--near adds" in refusal_message(capsys, "inspect", "projection", run, "--near", 5)
    assert "do not make a picture" in refusal_message(capsys, "inspect", "projection", run, "--top", 2)
    assert "no vector for 'catt'" in refusal_message(capsys, "inspect", "projection", run, "catt", "dog", "cat")


def test_embedding_space_refuses_runs_without_counts_or_word_vectors(tmp_path: Path):
    network = open_small_run("gpt2", tmp_path, to="network", tokenizer="words", steps=2)
    with pytest.raises(InputError, match="nobody counted"):
        vector_norms(network)
    assert len(project_words(network, ["cat", "dog", "the"]).words) == 3
    counts = open_small_run("ngram", tmp_path, to="counts")
    for command in (vector_norms, project_words):
        with pytest.raises(InputError, match="cannot be asked"):
            command(counts)
