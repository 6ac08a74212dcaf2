"""Fonts of a PDF, all from this machine: DejaVu Sans where the system has it, else the one inside Pillow.

DejaVu has Latin, Greek, Cyrillic and signs; Pillow's has little beyond ASCII, and what it lacks is written in the
nearest plain characters (as on pictures, `webapp.reporting.shares.lettering`).
"""

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fpdf import FPDF
from PIL import ImageFont

from webapp.reporting.shares.lettering import PLAIN, WIDER_FONT, readable

BODY, MONO = "body", "mono"
STYLES = {
    "": "DejaVuSans.ttf",
    "B": "DejaVuSans-Bold.ttf",
    "I": "DejaVuSans-Oblique.ttf",
    "BI": "DejaVuSans-BoldOblique.ttf",
}
INSTEAD = {"": "", "B": "", "I": "", "BI": "B"}  # a style that is not installed is written in this one


@dataclass(frozen=True)
class Faces:
    """Files by style, of the text and of code; wide: whether they have more than Pillow's own."""

    body: dict[str, Path]
    mono: Path
    wide: bool


@cache
def faces() -> Faces:
    """What this machine has."""
    folder = _wider_folder()
    if folder is None:
        plain = _pillows_own()
        return Faces(dict.fromkeys(STYLES, plain), plain, wide=False)
    files = {style: folder / name for style, name in STYLES.items() if (folder / name).is_file()}
    body = {style: files.get(style) or files.get(INSTEAD[style]) or files[""] for style in STYLES}
    mono = folder / "DejaVuSansMono.ttf"
    return Faces(body, mono if mono.is_file() else body[""], wide=True)


def _wider_folder() -> Path | None:
    """Where DejaVu Sans lies: Pillow knows where systems keep their fonts."""
    try:
        path = ImageFont.truetype(WIDER_FONT, 12).path
    except OSError:
        return None
    return Path(str(path)).parent


def _pillows_own() -> Path:
    """The font inside Pillow as a file, which it has in memory only."""
    font = ImageFont.load_default(12)
    with tempfile.NamedTemporaryFile(suffix=".ttf", delete=False) as file:
        file.write(font.font_bytes)  # type: ignore[union-attr]
    return Path(file.name)


def install(pdf: FPDF, found: Faces) -> None:
    """Make the faces known to a PDF, which embeds the characters that are used."""
    for style, path in found.body.items():
        pdf.add_font(BODY, style, path)
    pdf.add_font(MONO, "", found.mono)


def writable(text: str, found: Faces) -> str:
    """The text in characters that the faces have; control characters are left out."""
    return "\n".join(_line(line, found) for line in text.split("\n"))


def _line(text: str, found: Faces) -> str:
    text = "".join(one for one in text.replace("\t", "    ") if one.isprintable())
    return readable(text, WIDER_FONT) if found.wide else readable(text.translate(PLAIN), "")
