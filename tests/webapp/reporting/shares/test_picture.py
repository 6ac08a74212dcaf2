"""Pictures of charts: the PNG read back pixel by pixel, the SVG element by element."""

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import pytest
from PIL import Image

from webapp.reporting.shares.drawing import Band, Ceiling, Drawing, Key, Line, Points, Target
from webapp.reporting.shares.picture import _short, colours, figure_of, png_of, svg_of, tick_text

XS = [1.0, 2.0, 4.0, 8.0, 16.0]
YS = [0.3, 0.4, 0.5, 0.55, 0.58]
NOTHING_ELSE = {"points": (), "lines": (), "bands": (), "window": None}
SENTENCE = "Ceiling 0.610, 90 % 0.596 to 0.627."
MISSING = "The device-hours of 8 of 21 evaluations are not known."


def example(**changes) -> Drawing:
    values = {
        "heading": "ScaleRL rev 1 on arithmetic", "y_label": "Held-out pass rate", "x_label": "Device-hours",
        "scale": "log", "x_range": (0.8, 20.0), "y_range": (0.2, 0.7),
        "bands": (Band(XS, [y - 0.02 for y in YS], [y + 0.02 for y in YS], 0),),
        "lines": (Line(XS[:3], YS[:3], 0, "solid"), Line(XS[2:], YS[2:], 0, "dashed")),
        "points": (Points(XS, YS, 0, "fitted", "fitted"),),
        "ceiling": Ceiling(0.61, True, "ceiling 0.610, 90 % 0.596 to 0.627"),
        "window": (1.0, 4.0), "legend": (), "sentences": (SENTENCE,),
    }  # fmt: skip
    return Drawing(**(values | changes))


class Picture:
    """The PNG of a drawing, and where in it values are."""

    def __init__(self, drawing: Drawing, title: str = "ScaleRL, seed 2") -> None:
        self.image = Image.open(io.BytesIO(png_of(drawing, title))).convert("RGB")
        figure = figure_of(drawing, colours("light"), title)
        figure.set_dpi(120)
        figure.draw_without_rendering()
        (self.axes,) = figure.axes

    def at(self, x: float, y: float) -> tuple[int, int]:
        """The pixel of a value, from the upper left."""
        across, up = self.axes.transData.transform((x, y))
        return round(across), round(self.image.height - up)

    def near(self, x: float, y: float, token: str, reach: int = 3) -> bool:
        """Whether some pixel close to the value has this colour."""
        (i, j), colour = self.at(x, y), rgb(token)
        area = self.image.crop((i - reach, j - reach, i + reach + 1, j + reach + 1))
        return any(
            max(abs(a - b) for a, b in zip(pixel, colour, strict=True)) <= 12
            for pixel in area.get_flattened_data()
        )


def rgb(token: str) -> tuple[int, ...]:
    colour = colours("light")[token]
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def words_of(drawing: Drawing, title: str = "") -> str:
    """All that is written on it."""
    if not title:
        return "\n".join("".join(each.itertext()) for each in svg(drawing).iter(f"{SVG}text"))
    figure = figure_of(drawing, colours("light"), title)
    return "\n".join(each.get_text() for each in figure.findobj(lambda one: hasattr(one, "get_text")))


SVG = "{http://www.w3.org/2000/svg}"


def svg(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(svg_of(drawing))


def test_it_has_the_size_that_previews_want():
    assert Picture(example()).image.size == (1200, 630)


def test_points_curve_band_and_ceiling_are_where_their_values_are():
    picture = Picture(example())

    for x, y in zip(XS, YS, strict=True):
        assert picture.near(x, y, "c1", 1)
    assert picture.near(1.5, 0.358, "c1", 6)
    assert picture.near(18, 0.61, "accent", 6)
    assert picture.image.getpixel(picture.at(8.0, 0.565)) != rgb("card")


def test_points_after_the_cutoff_are_hollow_in_the_second_colour():
    picture = Picture(example(points=(Points([8.0], [0.45], 1, "after", "after"),), lines=(), bands=()))

    assert picture.near(8.0, 0.45, "card", 0)
    assert picture.near(8.0, 0.45, "c2", 7)


def test_a_band_beyond_the_frame_is_cut_off():
    picture = Picture(
        example(bands=(Band(XS, [-5.0] * 5, [5.0] * 5, 0),), points=(), lines=(), ceiling=None, window=None)
    )

    (across, top), (_, bottom) = picture.at(4.0, 0.7), picture.at(4.0, 0.2)
    assert picture.image.getpixel((across, top - 3)) == rgb("card")
    assert picture.image.getpixel((across, bottom + 3)) == rgb("card")
    assert picture.image.getpixel((across, (top + bottom) // 2)) != rgb("card")


def test_values_that_are_not_known_are_gaps():
    drawing = example(
        points=(),
        bands=(),
        ceiling=None,
        lines=(Line([1.0, 2.0, 4.0, 8.0], [0.3, 0.3, None, 0.3], 0, "solid"),),
    )
    picture = Picture(drawing)

    assert picture.near(1.5, 0.3, "c1")
    assert not picture.near(5.0, 0.3, "c1")


def test_a_ceiling_is_said_with_its_interval():
    assert "ceiling 0.610, 90 % 0.596 to 0.627" in words_of(example())
    open_end = Ceiling(None, False, "forecast ceiling not known yet, 90 % 0.50 to 0.90")
    assert open_end.words in words_of(example(ceiling=open_end, **NOTHING_ELSE))


def test_what_is_not_identified_is_said_and_has_no_accent():
    bound = Ceiling(0.5, False, "ceiling not identified yet, 90 % at least 0.50")
    picture = Picture(example(ceiling=bound, **NOTHING_ELSE))

    assert picture.near(18, 0.5, "mark", 6)
    assert not picture.near(18, 0.5, "accent", 6)
    assert f"at or above this line: {bound.words}" in words_of(example(ceiling=bound))


def test_title_sentence_axes_and_what_is_missing_are_written():
    said = words_of(example(missing=(MISSING,)), "ScaleRL, seed 2")

    for words in ("ScaleRL, seed 2", SENTENCE, MISSING, "Held-out pass rate", "Device-hours"):
        assert words in said, words
    assert "Headroom: ScaleRL rev 1 on arithmetic" in said


def test_in_a_report_s_file_the_words_around_it_are_the_file_s():
    said = words_of(example(missing=(MISSING,)))

    assert "Held-out pass rate" in said and "Device-hours" in said
    assert SENTENCE not in said and MISSING not in said


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_nothing_to_draw_is_a_picture_too(scale):
    empty = example(**NOTHING_ELSE, ceiling=None, scale=scale, sentences=())

    assert Picture(empty, "").image.size == (1200, 630)
    assert "No evaluation yet" in words_of(empty)
    assert "Nothing to draw on this axis" in words_of(
        example(**NOTHING_ELSE, ceiling=None, missing=(MISSING,))
    )


def twelve(label: str) -> Drawing:
    keys = tuple(Key(label, "0.610, 90 % 0.596 to 0.627", i, i > 6) for i in range(12))
    points = tuple(Points(XS, [y - 0.02 * i for y in YS], i, "fitted", "") for i in range(12))
    return example(legend=keys, points=points, ceiling=None)


def test_twelve_curves_and_endless_names_stay_within():
    picture = Picture(twelve("W" * 120), "W" * 160)

    assert all(picture.image.getpixel((1196, y)) == rgb("card") for y in range(0, 630, 7))
    (top, bottom) = picture.at(4.0, 0.7)[1], picture.at(4.0, 0.2)[1]
    assert bottom - top > 250


def test_of_many_curves_some_are_named_and_the_rest_counted():
    assert "and 7 more" in words_of(twelve("run"), "Twelve")
    assert words_of(twelve("run")).count("run: 0.610, 90 % 0.596 to 0.627") == 12


def test_a_claim_stands_at_its_target_with_what_came():
    target = Target(12.0, 0.4, 0.35, 0.45, "target: 12", came=(0.5,), rival="GRPO")
    rival = Line(XS, [y - 0.2 for y in YS], 2, "solid")
    drawing = example(
        lines=(rival,), points=(), bands=(), ceiling=None, window=None, y_range=(0.0, 0.7), target=target
    )
    picture = Picture(drawing)

    assert picture.near(12.0, 0.4, "accent", 1)
    assert picture.near(12.0, 0.37, "accent", 2)
    assert picture.near(12.0, 0.5, "c2", 1)
    assert "GRPO" in words_of(drawing, "A claim")


def test_an_svg_follows_the_colours_of_its_page_and_needs_nothing_else():
    text = svg_of(example())

    assert "var(--c1)" in text and "var(--accent)" in text
    assert "#0000" not in text
    assert "http" not in text.replace("http://www.w3.org/", "")
    assert svg(example()).tag == f"{SVG}svg"


def test_names_are_text_in_it_and_no_markup():
    drawing = twelve("<script>alert(1)</script> $x_1$ & é 漢")

    assert "<script>alert" not in svg_of(drawing)
    assert "<script>alert(1)</script> $x_1$ & é 漢: 0.610" in words_of(drawing)


def test_the_same_chart_is_the_same_picture_from_any_thread():
    with ThreadPoolExecutor(4) as pool:
        pngs = set(pool.map(lambda _: png_of(example(), "One"), range(4)))
        svgs = set(pool.map(lambda _: svg_of(example()), range(4)))

    assert len(pngs) == len(svgs) == 1


def test_only_who_draws_loads_matplotlib():
    code = "import sys, django; django.setup(); import webapp.urls; print(*({'matplotlib', 'PIL'} & {*sys.modules}))"
    command = [sys.executable, "-c", code]

    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)

    assert done.stdout.split() == []


def ticks(drawing: Drawing) -> list[str]:
    figure = figure_of(drawing, colours("light"))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    lo, hi = axes.get_xlim()
    return [
        each.get_text()
        for at, each in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if lo <= at <= hi
    ]


def test_ticks_of_a_log_axis_are_one_two_five():
    assert ticks(example(x_range=(0.5, 20.0))) == ["0.5", "1", "2", "5", "10", "20"]


def test_a_log_axis_between_two_round_values_still_has_ticks():
    """As where all points share one compute."""
    for lo, hi in ((10.2, 13.2), (1.02e18, 1.32e18)):
        shown = ticks(example(x_range=(lo, hi), **NOTHING_ELSE))
        assert 2 <= len(shown) <= 9
        assert all(lo <= float(text) <= hi for text in shown)


@pytest.mark.parametrize("decades", [2, 4, 7, 12])
def test_ticks_are_few(decades):
    assert 2 <= len(ticks(example(x_range=(1.0, 10.0**decades)))) <= 9


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.25e6, "1.25e6"), (0, "0"), (0.01, "0.01"), (20, "20"), (5000, "5k"), (2e18, "2e18"), (5e-6, "5e-6")],
)
def test_tick_texts(value, text):
    assert tick_text(value) == text


def test_what_is_too_long_ends_in_dots():
    assert _short("short", 100) == "short"
    cut = _short("word " * 100, 100)
    assert cut.endswith("…") and 5 < len(cut) < 40
