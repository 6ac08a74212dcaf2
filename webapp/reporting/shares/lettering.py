"""Words on a picture, in the scalable font that ships inside Pillow.

That font has little beyond ASCII. What it lacks is written in DejaVu Sans where the system has it, else in the nearest
plain characters.
"""

import unicodedata
from functools import cache
from typing import Any

from PIL import ImageDraw, ImageFont

PLAIN = str.maketrans({"−": "-", "–": "-", "₀": "0", "‘": "'", "’": "'", "\u00a0": " "})
WIDER_FONT = "DejaVuSans.ttf"  # Pillow looks for it where the system keeps its fonts
LACKING = "\ue000"  # a private character that neither font has
PROBE_PIXELS = 24


class Lettering:
    """Writes onto a picture that is drawn `scale` times as large as it will be."""

    def __init__(self, pen: ImageDraw.ImageDraw, scale: int) -> None:
        self.pen, self.scale = pen, scale

    def write(
        self, at: tuple[float, float], text: str, size: int, ink: str,
        *, align: str = "left", bold: bool = False, width: float | None = None,
    ) -> None:  # fmt: skip
        """`at` is the upper left, upper centre or upper right; what is wider than `width` ends in "..."."""
        text = text.translate(PLAIN)
        name = font_for(text)
        font, text = _font(name, size * self.scale), readable(text, name)
        if width is not None:
            text = shortened(text, font, width * self.scale)
        anchor = {"left": "la", "centre": "ma", "right": "ra"}[align]
        place, stroke = (at[0] * self.scale, at[1] * self.scale), 0.5 * self.scale if bold else 0
        self.pen.text(place, text, font=font, fill=ink, anchor=anchor, stroke_width=stroke)


@cache
def _font(name: str, pixels: int) -> Any:
    return ImageFont.truetype(name, pixels) if name else ImageFont.load_default(pixels)


@cache
def _wider_font() -> str:
    """Its name, or "" where the system does not have it."""
    try:
        ImageFont.truetype(WIDER_FONT, PROBE_PIXELS)
    except OSError:
        return ""
    return WIDER_FONT


def font_for(text: str) -> str:
    """Pillow's own font ("") for all that it can write, else the wider one."""
    return "" if all(_has(character, "") for character in text) else _wider_font()


def readable(text: str, font: str) -> str:
    """The text in characters that the font has: the base letter of an accented one, "?" where there is none."""
    return "".join(_drawable(character, font) for character in text)


def _drawable(character: str, font: str) -> str:
    if _has(character, font):
        return character
    base = unicodedata.normalize("NFKD", character)[:1]
    return base if _has(base, font) else "?"


@cache
def _has(character: str, name: str) -> bool:
    """Whether the font draws it, and draws it otherwise than a character that it certainly lacks."""
    if character == " ":
        return True
    font = _font(name, PROBE_PIXELS)
    drawn, missing = font.getmask(character), font.getmask(LACKING)
    return drawn.size != missing.size or bytes(drawn) != bytes(missing)


def shortened(text: str, font: Any, width: float) -> str:
    """The text, or as much of it as fits into `width` pixels with three dots at its end."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}...") > width:
        text = text[:-1]
    return f"{text.rstrip()}..."
