"""The picture of a shared link, read back pixel by pixel."""

import io

import pytest
from PIL import Image

from webapp.base import tokens
from webapp.reporting.shares import picture
from webapp.reporting.shares.drawing import Band, Ceiling, Drawing, Key, Line, Points
from webapp.reporting.shares.frame import Frame
from webapp.reporting.shares.lettering import font_for, readable

XS = [1.0, 2.0, 4.0, 8.0, 16.0]
YS = [0.3, 0.4, 0.5, 0.55, 0.58]
NOTHING_ELSE = {"points": (), "lines": (), "window": None}


def example(**changes) -> Drawing:
    values = {
        "heading": "ScaleRL rev 1 on arithmetic", "y_label": "Held-out pass rate", "x_label": "Device-hours",
        "scale": "log", "x_range": (0.8, 20.0), "y_range": (0.2, 0.7),
        "bands": (Band(XS, [y - 0.02 for y in YS], [y + 0.02 for y in YS], 0),),
        "lines": (Line(XS[:3], YS[:3], 0, "solid"), Line(XS[2:], YS[2:], 0, "dashed")),
        "points": (Points(XS, YS, 0, "fitted", "fitted"),),
        "ceiling": Ceiling(0.61, True, "ceiling 0.610, 90 % between 0.596 and 0.627"),
        "window": (1.0, 4.0), "legend": (), "sentences": ("Ceiling 0.610, 90 % between 0.596 and 0.627.",),
    }  # fmt: skip
    return Drawing(**(values | changes))


def image_of(drawing: Drawing, title: str = "ScaleRL, seed 2") -> Image.Image:
    return Image.open(io.BytesIO(picture.png_of(drawing, title))).convert("RGB")


def rgb(token: str) -> tuple[int, ...]:
    colour = tokens.colours("light")[token]
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def near(image: Image.Image, at: tuple[float, float], colour, reach: int = 3) -> bool:
    """Whether some pixel close to `at` has this colour."""
    x, y = round(at[0]), round(at[1])
    found = [
        image.getpixel((x + i, y + j)) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)
    ]
    return any(max(abs(a - b) for a, b in zip(pixel, colour, strict=True)) <= 12 for pixel in found)


def frame_of(drawing: Drawing, top: int = picture.TOP) -> Frame:
    return Frame(picture.LEFT, top, picture.RIGHT, picture.BOTTOM, drawing)


def test_it_has_the_size_that_previews_want():
    assert image_of(example()).size == (1200, 630)


def test_points_curve_band_and_ceiling_are_where_their_values_are():
    drawing = example()
    image, frame = image_of(drawing), frame_of(drawing)

    for x, y in zip(XS, YS, strict=True):
        assert near(image, (frame.x(x), frame.y(y)), rgb("c1"), 1)
    assert near(image, (frame.x(1.5), frame.y(0.358)), rgb("c1"), 6)
    assert near(image, (frame.x(18), frame.y(0.61)), rgb("accent"), 6)
    inside_band = image.getpixel((round(frame.x(8.0)), round(frame.y(0.565))))
    assert inside_band != rgb("card")


def test_points_after_the_cutoff_are_hollow_in_the_second_colour():
    drawing = example(points=(Points([8.0], [0.45], 1, "after", "after"),), lines=(), bands=())
    image, frame = image_of(drawing), frame_of(drawing)

    centre = (frame.x(8.0), frame.y(0.45))
    assert near(image, centre, rgb("card"), 0)
    assert near(image, (centre[0] + 6, centre[1]), rgb("c2"), 2)


def test_a_band_beyond_the_frame_is_cut_off():
    image = image_of(
        example(bands=(Band(XS, [-5.0] * 5, [5.0] * 5, 0),), points=(), lines=(), ceiling=None, window=None)
    )

    assert image.getpixel((600, 600)) == rgb("card")
    assert image.getpixel((600, 145)) == rgb("card")
    assert image.getpixel((700, 333)) != rgb("card")


def test_a_ceiling_without_a_height_is_said_without_a_line():
    drawing = example(
        ceiling=Ceiling(None, False, "forecast ceiling not known yet, 90 % between 0.50 and 0.90"),
        points=(),
        lines=(),
        bands=(),
        window=None,
    )
    silent = example(ceiling=None, points=(), lines=(), bands=(), window=None)

    assert image_of(drawing).tobytes() != image_of(silent).tobytes()


def test_what_is_not_identified_is_said_and_has_no_accent():
    drawing = example(
        ceiling=Ceiling(0.5, False, "ceiling not identified yet, 90 % at least 0.50"),
        points=(),
        lines=(),
        bands=(),
        window=None,
    )
    image, frame = image_of(drawing), frame_of(drawing)

    assert near(image, (frame.x(18), frame.y(0.5)), rgb("mark"), 6)
    assert not near(image, (frame.x(18), frame.y(0.5)), rgb("accent"), 6)


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_nothing_to_draw_is_a_picture_too(scale):
    empty = example(bands=(), lines=(), points=(), ceiling=None, window=None, scale=scale, sentences=())

    assert image_of(empty, "").size == (1200, 630)


def test_twelve_curves_and_endless_names_stay_within():
    keys = tuple(
        Key("a recipe with a very long name " * 4, "0.610, 90 % between 0.596 and 0.627", i, i > 6)
        for i in range(12)
    )
    points = tuple(Points(XS, [y - 0.02 * i for y in YS], i, "fitted", "") for i in range(12))

    image = image_of(example(legend=keys, points=points), "title " * 60)

    assert all(image.getpixel((1195, y)) == rgb("card") for y in range(0, 630, 7))


def test_the_six_marks_differ():
    assert len({tuple(picture.shape((0, 0), index, 5)) for index in range(6)}) == 6


def test_dashes_cover_a_path_with_gaps():
    pieces = picture.dashes([(0, 0), (10, 0), (20, 0)], (6, 4))

    assert [(piece[0], piece[-1]) for piece in pieces] == [((0, 0), (6, 0)), ((10, 0), (16, 0))]
    assert picture.dashes([(0, 0)], None) == []


def test_characters_that_the_font_lacks_become_their_base_or_a_question_mark():
    assert readable("é", "") == "e"
    assert readable("漢", "") == "?"
    assert font_for("plain words, 90 %") == ""


def test_what_is_missing_is_written_above_a_lower_frame():
    drawing = example(missing=("The device-hours of 8 of 21 evaluations are not known.",))
    image, whole = image_of(drawing), image_of(example())
    frame = frame_of(drawing, picture.TOP + picture.ROW)

    line = (48, int(frame.top) - 32, 700, int(frame.top) - 12)
    inked = lambda one: sum(max(pixel) < 200 for pixel in one.crop(line).convert("RGB").getdata())
    assert inked(image) > 200 > inked(whole)
    for x, y in zip(XS, YS, strict=True):
        assert near(image, (frame.x(x), frame.y(y)), rgb("c1"))
