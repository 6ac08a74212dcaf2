"""The six series stay apart for readers who do not tell some colours: simulated on the tokens themselves.

Simulation: Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB. Distance: in Oklab, where about 0.02 can
just be told apart side by side.
"""

from itertools import combinations

import pytest

from webapp.reporting.shares import picture

SEEN = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900),
    ),
}  # fmt: skip
LEAST = 0.05  # between two series; they differ by shape besides
Vector = tuple[float, float, float]


def linear(colour: str) -> Vector:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return red, green, blue


def times(matrix, vector: Vector) -> Vector:
    a, b, c = (sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix)
    return a, b, c


def oklab(rgb: Vector) -> Vector:
    """Ottosson's Oklab of linear sRGB."""
    cones = times(
        ((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
         (0.0883024619, 0.2817188376, 0.6299787005)),
        rgb,
    )  # fmt: skip
    roots = tuple(max(0.0, cone) ** (1 / 3) for cone in cones)
    return times(
        ((0.2104542553, 0.7936177850, -0.0040720468), (1.9779984951, -2.4285922050, 0.4505937099),
         (0.0259040371, 0.7827717662, -0.8086757660)),
        roots,
    )  # fmt: skip


def seen_by(colour: str, eyes: str) -> Vector:
    return oklab(times(SEEN[eyes], linear(colour)))


def distance(a: Vector, b: Vector) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("eyes", SEEN)
def test_every_two_series_differ_for_every_reader(eyes, theme):
    colours = picture.colours(theme)
    series = {name: seen_by(colours[name], eyes) for name in ("c1", "c2", "c3", "c4", "c5", "c6")}

    close = {
        f"{a} {b}": round(distance(series[a], series[b]), 3)
        for a, b in combinations(series, 2)
        if distance(series[a], series[b]) < LEAST
    }

    assert close == {}


@pytest.mark.parametrize("eyes", SEEN)
def test_what_came_differs_from_what_was_fitted(eyes):
    for theme in ("light", "dark"):
        colours = picture.colours(theme)
        assert distance(seen_by(colours["c1"], eyes), seen_by(colours["c2"], eyes)) > 2 * LEAST
