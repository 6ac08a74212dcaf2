"""Words on a picture, in the scalable font that ships inside Pillow."""

import unicodedata
from functools import cache
from typing import Any

from PIL import ImageDraw, ImageFont

PLAIN = str.maketrans({"−": "-", "₀": "0", "‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " "})
MISSING = "\ue000"  # a private character that no font of ours has


class Lettering:
    """Writes onto a picture that is drawn `scale` times as large as it will be."""

    def __init__(self, pen: ImageDraw.ImageDraw, scale: int) -> None:
        self.pen, self.scale = pen, scale

    def write(
        self, at: tuple[float, float], text: str, size: int, ink: str,
        *, align: str = "left", bold: bool = False, width: float | None = None,
    ) -> None:  # fmt: skip
        """`at` is the upper left, upper centre or upper right; what is wider than `width` ends in "..."."""
        font = _font(size * self.scale)
        text = readable(text)
        if width is not None:
            text = shortened(text, size * self.scale, width * self.scale)
        anchor = {"left": "la", "centre": "ma", "right": "ra"}[align]
        place = (at[0] * self.scale, at[1] * self.scale)
        self.pen.text(
            place, text, font=font, fill=ink, anchor=anchor, stroke_width=0.5 * self.scale if bold else 0
        )


@cache
def _font(pixels: int) -> Any:
    return ImageFont.load_default(pixels)


def shortened(text: str, pixels: int, width: float) -> str:
    """The text, or as much of it as fits with three dots at its end."""
    font = _font(pixels)
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}...") > width:
        text = text[:-1]
    return f"{text.rstrip()}..."


def readable(text: str) -> str:
    """The text in characters that the font has: plain ones for typographic ones, "?" where there is none."""
    return "".join(_drawable(character) for character in text.translate(PLAIN))


@cache
def _drawable(character: str) -> str:
    if character.isspace():
        return " "
    if _has(character):
        return character
    base = unicodedata.normalize("NFKD", character)[:1]
    return base if _has(base) else "?"


def _has(character: str) -> bool:
    """Whether the font draws it otherwise than a character that it certainly lacks."""
    font = _font(24)
    drawn, missing = font.getmask(character), font.getmask(MISSING)
    return drawn.size != missing.size or bytes(drawn) != bytes(missing)
