"""Labels of the cost plot never cover each other, a point, or the edge."""

from hypothesis import given
from hypothesis import strategies as st

from forebear.experiments.comparison.svg_plot import Box, place_labels, point_box, text_width

PLOT_AREA = Box(50, 20, 900, 450)
POINTS = st.lists(st.tuples(st.floats(60, 820), st.floats(30, 460)), min_size=1, max_size=20)


@given(POINTS, st.data())
def test_placed_labels_overlap_no_label_and_no_point(points, data):
    widths = data.draw(st.lists(st.floats(20, 120), min_size=len(points), max_size=len(points)))
    boxes = place_labels(points, [(width, 17.5) for width in widths], PLOT_AREA)
    assert len(boxes) == len(points)
    for index, box in enumerate(boxes):
        assert PLOT_AREA.contains(box)
        assert not any(box.overlaps(earlier) for earlier in boxes[:index])
        assert not any(box.overlaps(point_box(point)) for point in points)


def test_labels_of_points_at_one_cost_form_an_ordered_column():
    points = [(800.0, 200 + 3.0 * n) for n in range(12)]
    boxes = place_labels(points, [(60, 17.5)] * 12, PLOT_AREA)
    assert {box.x for box in boxes} == {809.0}
    assert [box.y for box in boxes] == sorted(box.y for box in boxes)
    middle = sum(box.y + box.height / 2 for box in boxes) / 12
    assert abs(middle - 216.5) < 1e-6  # the column is centred on its points


def test_labels_avoid_occupied_areas():
    occupied = Box(100, 100, 300, 100)
    (box,) = place_labels([(120.0, 150.0)], [(50, 17.5)], PLOT_AREA, [occupied])
    assert not box.overlaps(occupied)


def test_chinese_characters_are_wider_than_latin_ones():
    assert text_width("语言模型", 10) == 40
    assert text_width("BERT", 10) < 30
