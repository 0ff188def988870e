"""Labels never cover each other, a point, or the edge."""

from hypothesis import given
from hypothesis import strategies as st

from forebear.experiments.comparison.cost_plot import Box, place_labels, point_box, text_width

INSIDE = Box(50, 20, 900, 450)
POINTS = st.lists(st.tuples(st.floats(60, 820), st.floats(30, 460)), min_size=1, max_size=20)


@given(POINTS, st.data())
def test_nothing_covers_anything(points, data):
    widths = data.draw(st.lists(st.floats(20, 120), min_size=len(points), max_size=len(points)))
    boxes = place_labels(points, [(width, 17.5) for width in widths], INSIDE)
    assert len(boxes) == len(points)
    for number, box in enumerate(boxes):
        assert INSIDE.contains(box)
        assert not any(box.overlaps(other) for other in boxes[:number])
        assert not any(box.overlaps(point_box(point)) for point in points)


def test_a_crowd_at_one_cost_stands_in_one_column_in_its_order():
    points = [(800.0, 200 + 3.0 * n) for n in range(12)]
    boxes = place_labels(points, [(60, 17.5)] * 12, INSIDE)
    assert {box.x for box in boxes} == {809.0}
    assert [box.y for box in boxes] == sorted(box.y for box in boxes)
    middle = sum(box.y + box.height / 2 for box in boxes) / 12
    assert abs(middle - 216.5) < 1e-6  # the column is centred on its points


def test_what_is_taken_stays_free():
    taken = Box(100, 100, 300, 100)
    (box,) = place_labels([(120.0, 150.0)], [(50, 17.5)], INSIDE, [taken])
    assert not box.overlaps(taken)


def test_chinese_letters_are_wide():
    assert text_width("语言模型", 10) == 40
    assert text_width("BERT", 10) < 30
