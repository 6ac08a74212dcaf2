"""Marks as SVG: read back as XML."""

from xml.etree import ElementTree

import pytest

from webapp.interfaces.pages import marks
from webapp.science.curves.answers import ceiling

FULL = (marks.WHISKER_MARGIN, marks.WHISKER_WIDTH - marks.WHISKER_MARGIN)


def parse(svg):
    return ElementTree.fromstring(svg)


def part(svg, css):
    return next((node for node in parse(svg).iter() if node.get("class") == css), None)


def test_the_whisker_spans_the_interval_on_the_shared_scale():
    svg = marks.whisker(ceiling("ok", (0.5, 0.75), 0.6, 0.9), (0.5, 1.0))

    middle = sum(FULL) / 2
    assert part(svg, "span").get("d") == f"M{FULL[0]:.1f} 9H{middle:.1f}"
    assert parse(svg).get("aria-label") == "ceiling 0.60, 90 % 0.50 to 0.75"


@pytest.mark.parametrize("interval", [(0.48, None), (None, None)])
def test_what_is_not_identified_never_gets_a_point(interval):
    svg = marks.whisker(ceiling("not_identified", interval, 0.7, 0.9), (0.0, 1.0))

    assert part(svg, "dot") is None
    assert (part(svg, "open") is None) == (interval[0] is None)


def test_an_interval_beyond_the_scale_ends_with_it():
    svg = marks.whisker(ceiling("ok", (0.1, 0.9), 0.5, 0.9), (0.4, 0.6))

    assert part(svg, "span").get("d") == f"M{FULL[0]:.1f} 9H{FULL[1]:.1f}".replace(".0", ".0")


def test_the_scale_of_a_whisker_that_stands_alone_is_written_below_it():
    svg = marks.labelled_whisker(ceiling("ok", (0.596, 0.627), 0.61, 0.9))

    assert svg.endswith("<span>0.4</span><span>0.8</span></span>")


def test_sparkline_runs_from_left_to_right_and_up_with_the_values():
    points = part_points(marks.sparkline([0.2, 0.4, 0.6]))

    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def part_points(svg):
    d = next(node for node in parse(svg) if node.tag == "path" and not node.get("class")).get("d")
    return [tuple(map(float, pair.split(","))) for pair in d.removeprefix("M").split(" L")]


@pytest.mark.parametrize("values", [[], [0.5], [float("nan"), 0.5]])
def test_a_sparkline_needs_two_values(values):
    assert "<svg" not in marks.sparkline(values)


def test_a_constant_series_runs_through_the_middle():
    assert {y for _, y in part_points(marks.sparkline([0.5, 0.5, 0.5]))} == {12.0}


def test_the_alarm_band_ends_where_alarming_values_begin():
    limit = marks.Limit(0.1, upwards=True, level="warning")
    svg = marks.small_multiple([0, 1, 2], [0.0, 0.1, 0.2], label="Truncation", limits=[limit])

    band = float(part(svg, "alarm").get("height"))
    heights = [y for _, y in part_points(svg)]
    assert heights[0] > band >= heights[1] > heights[2]
    assert band == pytest.approx(heights[1], abs=0.1)


def test_a_lower_limit_tints_the_ground_below_it():
    limit = marks.Limit(0.1, upwards=False, level="warning")
    svg = marks.small_multiple([0, 1, 2], [0.9, 0.1, 0.05], label="Entropy", limits=[limit])

    band = part(svg, "alarm")
    top, height = float(band.get("y")), float(band.get("height"))
    heights = [y for _, y in part_points(svg)]
    assert heights[0] < top <= heights[1] + 0.1 < heights[2] < top + height


def test_the_levels_differ_in_shape_and_in_class():
    warning, critical = (parse(marks.alarm_mark(level)) for level in ("warning", "critical"))

    assert warning.get("class") != critical.get("class")
    assert warning[0].get("d") != critical[0].get("d")


def test_labels_are_escaped():
    svg = marks.small_multiple([0, 1], [0, 1], label='<script>"&')

    assert parse(svg).get("aria-label") == '<script>"&'


def test_the_six_series_differ_in_colour_and_in_shape():
    assert len({marks.shape_path(i) for i in range(6)}) == 6
    assert len({marks.series_class(i) for i in range(6)}) == 6
