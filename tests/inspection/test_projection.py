"""Looking at words: planes by sklearn's truth, lengths and frequency by hand, labels that lie on no other."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import Captured, refused, said, told
from forebear.embeddings.lexicon import ONEHOT_NOTE, Lexicon
from forebear.embeddings.word_table import IdentityMatrix, WordVectors
from forebear.errors import InputError
from forebear.inspection import embedding_plots
from forebear.inspection.embedding_space import lexicon_norms, pca_plane, project_lexicon, project_words, vector_norms
from forebear.reports import plotting
from forebear.reports.plotting import DOTS_PER_INCH, figure_bytes, place_point_labels
from small_runs import opened

NAMES = ["king", "queen", "北京", "苹果", "$10", "<b>", "a & b", "naïve"]
DRAWN = [name for name in NAMES if name not in plotting.undrawable_texts(NAMES)]  # by the fonts that are installed here


def lexicon(words: int = 60, width: int = 10) -> Lexicon:
    rng = np.random.default_rng(1)
    names = [*NAMES, *(f"word{number}" for number in range(words - len(NAMES)))]
    counts = np.sort(rng.zipf(1.5, words).clip(max=10**5))[::-1].copy()
    rows = rng.normal(size=(words, width)) * np.log(counts + 2)[:, None]
    return Lexicon(WordVectors(names, rows.astype(np.float32), counts))


def test_a_plane_is_that_of_sklearn():
    decomposition = pytest.importorskip("sklearn.decomposition")
    rows = np.random.default_rng(0).normal(size=(40, 12)) * np.arange(1, 13)
    points, shares = pca_plane(rows)
    theirs = decomposition.PCA(2).fit(rows)
    expected = theirs.transform(rows)
    assert shares == pytest.approx(theirs.explained_variance_ratio_)
    for ours, other in zip(points.T, expected.T, strict=True):
        assert np.abs(ours) == pytest.approx(np.abs(other))
        assert ours[np.abs(ours).argmax()] > 0
    flat, (first, second) = pca_plane(np.array([[0.0, 0], [1, 1], [3, 3]]))
    assert (first, second) == (pytest.approx(1), pytest.approx(0, abs=1e-12))
    assert flat[:, 1] == pytest.approx(0, abs=1e-9)
    alike, none = pca_plane(np.ones((4, 3)))
    assert (alike.any(), none) == (False, (0, 0))


def test_words_of_a_projection_are_those_asked_for_with_their_neighbours():
    found = project_lexicon(lexicon(), ["king", "北京", "king"], 100, near=3)
    assert found.words[:2] == ("king", "北京")
    assert sorted(set(found.groups)) == [0, 1]
    assert found.query_words == (True, True, *[False] * (len(found.words) - 2))
    near = {one.word for answer in lexicon().neighbors(["king", "北京"], 3) for one in answer.nearest}
    assert set(found.words) == near | {"king", "北京"}
    assert len(set(found.words)) == len(found.words)
    frequent = project_lexicon(lexicon(), [], 5, 0)
    assert frequent.words == tuple(lexicon().table.words[:5])
    assert all(frequent.query_words)
    facts = found.to_dict()
    assert len(facts["words"]) == len(found.words)
    assert facts["words"][0]["count"] == int(lexicon().table.counts[0])  # pyright: ignore[reportOptionalSubscript]
    with pytest.raises(InputError, match="2 words do not make a picture"):
        project_lexicon(lexicon(), ["king", "queen"], 100, 0)


def test_lengths_by_frequency_by_hand():
    words = [f"w{number}" for number in range(6)]
    rows = np.array([(4, 0), (0, 3), (2, 0), (0, -2), (1, 0), (1, 0)], np.float32)
    found = lexicon_norms(Lexicon(WordVectors(words, rows, np.array([1000, 500, 20, 15, 2, 1]))))
    assert found.lengths.tolist() == [4, 3, 2, 2, 1, 1]
    assert found.spearman == pytest.approx(0.9710083)  # scipy.stats.spearmanr([6, 5, 4, 3, 2, 1], [4, 3, 2, 2, 1, 1])
    assert [(band.min_count, band.max_count, band.words, band.median) for band in found.bands] == [
        (1, 2, 2, 1), (10, 29, 2, 2), (300, 999, 1, 3), (1000, 1000, 1, 4),
    ]  # fmt: skip
    assert [band.cosine for band in found.bands] == [pytest.approx(1), pytest.approx(0, abs=1e-6), None, None]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [units[one] @ units[other] for one in range(6) for other in range(one)]
    assert found.cosine == pytest.approx(np.mean(pairs), abs=1e-6)
    assert [found.words[row] for row in found.extremes[0][:2]] == ["w0", "w1"]
    assert found.to_dict()["longest"][0] == {"word": "w0", "length": 4.0, "count": 1000}


def test_neighbours_that_are_as_frequent_are_seen():
    """Vectors that lie by frequency alone, and such that know nothing of it."""
    counts = np.geomspace(10_000, 1, 300).astype(int)
    angles = np.linspace(0, 3, 300)
    by_rank = np.stack((np.cos(angles), np.sin(angles)), 1).astype(np.float32)
    words = [f"w{number}" for number in range(300)]
    assert lexicon_norms(Lexicon(WordVectors(words, by_rank, counts))).neighbors > 0.95
    chance = np.random.default_rng(0).normal(size=(300, 30)).astype(np.float32)
    assert abs(lexicon_norms(Lexicon(WordVectors(words, chance, counts))).neighbors) < 0.3


def test_one_hot_vectors_are_all_of_length_one():
    size = 500
    table = WordVectors([f"w{row}" for row in range(size)], IdentityMatrix(size), np.arange(size, 0, -1))  # pyright: ignore
    found = lexicon_norms(Lexicon(table))
    assert (found.spearman, found.cosine) == (None, pytest.approx(0, abs=1e-9))
    assert (found.is_varying, found.neighbors, found.notes) == (
        False,
        None,
        (f"all vectors have the length 1; {ONEHOT_NOTE}",),
    )
    single = lexicon_norms(Lexicon(WordVectors(["one"], np.ones((1, 2), np.float32), np.array([7]))))
    assert (single.spearman, single.neighbors) == (None, None)
    assert single.correlations == ("none: all words were seen equally often",) * 2
    for drawn in (embedding_plots.norms_page(single, "one"), embedding_plots.plot_norms(single, "one", "svg").decode()):
        assert "none: all words were seen" in drawn or "<svg" in drawn
    plane = project_lexicon(Lexicon(table), ["w1", "w2", "w3"], 100, 0)
    assert plane.points.shape == (3, 2)
    assert plane.notes == (f"where a word lies here means nothing; {ONEHOT_NOTE}",)


# -- labels


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_no_label_lies_on_another_or_beyond_the_room(seed: int, count: int):
    rng = np.random.default_rng(seed)
    dots = rng.uniform(0, 100, (count, 2))
    sizes = [(float(wide), 5.0) for wide in rng.uniform(3, 40, count)]
    found = place_point_labels(dots, sizes, (0, 0, 100, 100), gap=1)
    there = [(box, size, dot) for box, size, dot in zip(found, sizes, dots, strict=True) if box is not None]
    for number, (box, (wide, high), dot) in enumerate(there):
        left, lower, right, upper = box
        assert (right - left, upper - lower) == (pytest.approx(wide), pytest.approx(high))
        assert left >= 0 and lower >= 0 and right <= 100 and upper <= 100  # noqa: PT018
        assert left - 1.01 <= dot[0] <= right + 1.01
        assert lower - 1.01 <= dot[1] <= upper + 1.01
        for other, *_ in there[:number]:
            apart = other[2] <= left or other[0] >= right or other[3] <= lower or other[1] >= upper
            assert apart
    if count == 1 and 45 < dots[0, 0] < 55 and 10 < dots[0, 1] < 90:
        assert there


def figures_of(monkeypatch: pytest.MonkeyPatch) -> list:
    figures: list = []
    monkeypatch.setattr(
        embedding_plots, "figure_bytes", lambda figure, form: figures.append(figure) or figure_bytes(figure, form)
    )
    return figures


@pytest.mark.parametrize("near", [0, 6])
def test_names_in_the_picture_lie_apart(near: int, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figures = figures_of(monkeypatch)
    words = DRAWN if near == 0 else DRAWN[:4]
    picture = embedding_plots.plot_projection(project_lexicon(lexicon(), words, 100, near), "words", "png")
    assert picture.startswith(b"\x89PNG")
    (figure,) = figures
    (axes,) = figure.axes
    figure.set_dpi(DOTS_PER_INCH)  # as it was saved
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(boxes) >= len(words) - 1
    names = [text.get_text() for text in axes.texts]
    assert [
        (names[number], names[place])
        for number, one in enumerate(boxes)
        for place, other in enumerate(boxes[:number])
        if one.overlaps(other)
    ] == []
    title = figure._suptitle.get_window_extent(renderer)
    assert not any(title.overlaps(box) for box in boxes)


def _drawable(table: WordVectors) -> tuple[list[str], np.ndarray, np.ndarray]:
    rows = [row for row, word in enumerate(table.words) if word not in NAMES or word in DRAWN]
    assert table.counts is not None
    return [table.words[row] for row in rows], table.matrix[rows], table.counts[rows]


def test_a_plane_of_words_that_no_font_has_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedding_plots, "undrawable_texts", list)
    monkeypatch.setattr(plotting, "_choose_fonts", lambda texts: (["none"], set("".join(texts))))
    with pytest.raises(InputError, match="no font installed here has"):
        embedding_plots.plot_projection(project_lexicon(lexicon(), ["king", "queen", "<b>"], 100, 0), "words", "png")


def test_pictures_of_every_kind_and_form(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    figures = figures_of(monkeypatch)
    by = Lexicon(WordVectors(*_drawable(lexicon().table)))
    asked = DRAWN[:4]
    answers = by.neighbors(asked, 4)
    assert embedding_plots.plot_neighbors(answers, "near", "png").startswith(b"\x89PNG")
    lengths = embedding_plots.plot_norms(lexicon_norms(by), "norms", "svg")
    assert lengths.startswith(b"<?xml")
    assert embedding_plots.plot_projection(project_lexicon(by, [], 30, 0), "plane", "svg").startswith(b"<?xml")
    bars = [axes for axes in figures[0].axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in bars] == asked
    assert [label.get_text() for label in bars[0].get_yticklabels()] == [one.word for one in answers[0].nearest]
    ticks = figures[1].axes[0].get_xticklabels()
    assert all("$" not in tick.get_text() for tick in ticks)
    assert embedding_plots.plot_norms(lexicon_norms(by), "norms", "svg") == lengths


class Seen(HTMLParser):
    """The names of dots, and every tag that is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: list[str] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self._within = tag

    def handle_data(self, data: str) -> None:
        if self._within == "text":
            self.names.append(data)
        self._within = ""


def test_pages_name_every_dot_and_run_nothing():
    by = lexicon()
    plane_page = embedding_plots.projection_page(project_lexicon(by, NAMES, 100, 0), "words & more")
    seen = Seen()
    seen.feed(plane_page)
    assert sorted(seen.names) == sorted(NAMES)
    assert "<title>words &amp; more</title>" in plane_page
    for page in (
        plane_page,
        embedding_plots.norms_page(lexicon_norms(by), "norms"),
        embedding_plots.neighbors_page(by.neighbors(["king", "<b>"], 5), "near"),
    ):
        assert "default-src 'none'" in page
        assert "<script" not in page
        assert "http" not in page.replace("http-equiv", "")
        assert not re.search(r"<b>(?!r)", page)
    scales = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', plane_page)
    assert all(
        0 <= float(x) <= embedding_plots.PLANE_WIDTH and 0 <= float(y) <= embedding_plots.PLANE_HEIGHT
        for x, y in scales
    )


# -- the commands


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return opened("word2vec", tmp_path_factory.mktemp("looking"), steps=15).folder.path


def test_looking_at_words(run: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "120")
    facts = told(capsys, "inspect", "neighbours", run, "cat", "--top", 3)
    assert (facts["what"], len(facts["texts"][0]["nearest"])) == ("neighbours", 3)
    assert "█" in said(capsys, "inspect", "neighbours", run, "cat")
    facts = told(capsys, "inspect", "projection", run, "cat", "dog", "--near", 2)
    assert [one["word"] for one in facts["words"] if one["asked"]] == ["cat", "dog"]
    drawn = said(capsys, "inspect", "projection", run, "cat", "dog", "Number")
    assert all(word in drawn for word in ("cat", "dog", "Number", "of the variance"))
    assert len(told(capsys, "inspect", "projection", run)["words"]) == 60  # all there are
    facts = told(capsys, "inspect", "norms", run)
    assert facts["words"] == 60
    assert "Spearman" in said(capsys, "inspect", "norms", run)
    for what, words in (("neighbours", ["cat"]), ("projection", []), ("norms", [])):
        file = tmp_path / f"{what}.html"
        assert told(capsys, "inspect", what, run, *words, "--to", file)["to"] == str(file)
        assert file.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_looking_at_words_in_pictures(run: Path, tmp_path: Path, capsys: Captured):
    pytest.importorskip("matplotlib")
    for what, words in (("neighbours", ["cat"]), ("projection", ["cat", "dog", "mat"]), ("norms", [])):
        assert "written" in said(capsys, "inspect", what, run, *words, "--to", tmp_path / f"{what}.png")
        assert (tmp_path / f"{what}.png").read_bytes().startswith(b"\x89PNG")


def test_a_word_that_no_font_can_write_is_a_dot_and_is_told(
    run: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("matplotlib")
    real = plotting._fonts
    monkeypatch.setattr(plotting, "_fonts", lambda: ((name, has - {ord("N")}) for name, has in real()))
    labelled, label = [], embedding_plots._draw_labels
    monkeypatch.setattr(embedding_plots, "_draw_labels", lambda *of: (labelled.append(of[3]), label(*of))[1])
    file, words = tmp_path / "plane.svg", ["cat", "dog", "Number", "mat"]
    notes = told(capsys, "inspect", "projection", run, *words, "--to", file)["notes"]
    assert len(notes) == 1
    assert notes[0].startswith("1 word is a dot without a name")
    assert ": Number; " in notes[0]
    assert "no font here has all characters of 1; " in file.read_text(encoding="utf-8")
    assert labelled == [["cat", "dog", "mat"]]
    assert "1 word is a dot" in said(capsys, "inspect", "projection", run, *words, "--to", file)
    page = told(capsys, "inspect", "projection", run, *words, "--to", tmp_path / "plane.html")
    assert page["notes"] == []
    assert "written" in said(capsys, "inspect", "norms", run, "--to", tmp_path / "norms.svg")


def test_looking_is_refused_with_a_remedy(run: Path, tmp_path: Path, capsys: Captured):
    assert "there is no word" in refused(capsys, "inspect", "neighbours", run)
    assert "let it end with" in refused(capsys, "inspect", "norms", run, "--to", tmp_path / "norms.pdf")
    assert "--top is for when" in refused(capsys, "inspect", "projection", run, "cat", "--top", 5)
    assert "--near adds" in refused(capsys, "inspect", "projection", run, "--near", 5)
    assert "do not make a picture" in refused(capsys, "inspect", "projection", run, "--top", 2)
    assert "no vector for 'catt'" in refused(capsys, "inspect", "projection", run, "catt", "dog", "cat")


def test_runs_without_counts_or_words_are_refused(tmp_path: Path):
    network = opened("gpt2", tmp_path, to="network", tokenizer="words", steps=2)
    with pytest.raises(InputError, match="nobody counted"):
        vector_norms(network)
    assert len(project_words(network, ["cat", "dog", "the"]).words) == 3
    counts = opened("ngram", tmp_path, to="counts")
    for look in (vector_norms, project_words):
        with pytest.raises(InputError, match="cannot be asked"):
            look(counts)
