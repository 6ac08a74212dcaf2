"""Charts as tables of the server."""

from webapp.reporting.shares.drawing import Drawing, Key, Line, Points, evenly, side_by_side, values_of


def test_some_values_are_chosen_evenly_with_both_ends():
    assert evenly([3, 1, 2]) == [3, 1, 2]
    assert evenly(range(1000), 5) == [0, 249, 499, 749, 999]


def test_a_drawing_is_its_points_and_then_its_curves():
    drawing = Drawing(
        heading="", y_label="Pass rate", x_label="Steps", scale="log", x_range=(1, 2), y_range=(0, 1), bands=(),
        lines=(Line([1.0, 2.0], [0.1, None], 0, "dashed"),), points=(Points([1.0], [0.25], 0, "fitted", "A"),),
        ceiling=None, window=None, legend=(Key("A", "", 0, False),), sentences=(),
    )  # fmt: skip

    said = values_of(drawing)

    assert said.head == ["Series", "Steps", "Pass rate"]
    assert said.rows == [
        ["A", "1.00", "0.250"],
        ["A, curve, beyond", "1.00", "0.100"],
        ["A, curve, beyond", "2.00", "–"],
    ]


def test_series_stand_side_by_side_over_all_their_places():
    said = side_by_side("Step", [("a", {1: "x"}), ("b", {2: "y"})], [2, 1, 2])

    assert (said.head, said.rows) == (["Step", "a", "b"], [["1", "x", "–"], ["2", "–", "y"]])
