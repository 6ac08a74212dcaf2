"""The picture that a shared link unfurls to: a chart as PNG of 1200 x 630 pixels, drawn with Pillow.

Drawn twice as large and scaled down, since Pillow draws lines with hard edges. The font is the one inside Pillow.
"""

import io
import math
from collections.abc import Sequence

from PIL import Image, ImageDraw

from webapp.base import tokens
from webapp.reporting.shares.drawing import RIVAL, Drawing, Key, Line, Points
from webapp.reporting.shares.frame import Frame
from webapp.reporting.shares.lettering import Lettering

WIDTH, HEIGHT, SCALE = 1200, 630, 2
LEFT, RIGHT, TOP, BOTTOM = 100, 1152, 158, 512  # of the chart's frame
ROW = 34  # of the legend, and of what is said above the frame
MARK_RADIUS, LINE_WIDTH = 7, 4
DASHES = {"solid": None, "dashed": (14, 11), "dotted": (4, 9)}
XY = tuple[float, float]


def png_of(drawing: Drawing, title: str) -> bytes:
    """The chart with its title, its sentence or its legend, and its axes, in light colours."""
    page = _Page(drawing, title)
    page.draw_words()
    page.draw_axes()
    page.draw_marks()
    return page.as_png()


class _Page:
    """One picture while it is drawn; all coordinates are in its final pixels."""

    def __init__(self, drawing: Drawing, title: str) -> None:
        self.drawing, self.title = drawing, title
        self.colours = tokens.colours("light")
        self.image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), self.colours["card"])
        self.letters = Lettering(ImageDraw.Draw(self.image), SCALE)
        rows = math.ceil(min(len(drawing.legend), 6) / 2)
        rows_below = max(0, rows - 1) + bool(drawing.missing)
        self.frame = Frame(LEFT, TOP + ROW * rows_below, RIGHT, BOTTOM, drawing)

    def ink(self, series: int) -> str:
        return self.colours[f"c{series % 6 + 1}"]

    def draw_words(self) -> None:
        """Title, then what the chart says in words, and where it comes from."""
        colours, write = self.colours, self.letters.write
        write((48, 34), self.title, 40, colours["ink"], bold=True, width=WIDTH - 96)
        if self.drawing.legend:
            self._draw_legend()
        else:
            said = self.drawing.sentences[0] if self.drawing.sentences else ""
            write((48, 92), said, 26, colours["ink-2"], width=WIDTH - 96)
        if self.drawing.missing:
            at = (48, self.frame.top - 32)
            write(at, self.drawing.missing[0], 20, colours["ink-2"], width=WIDTH - 96)
        write((48, 588), "Headroom", 22, colours["accent"], bold=True)
        write((170, 588), self.drawing.heading, 22, colours["ink-2"], width=WIDTH - 218)

    def _draw_legend(self) -> None:
        keys = self.drawing.legend
        shown: Sequence[Key] = keys[:6] if len(keys) <= 6 else keys[:5]
        if len(keys) > len(shown):
            more = f"and {len(keys) - len(shown)} more"
            self.letters.write((48 + 560 + 26, 92 + 2 * ROW), more, 21, self.colours["ink-2"])
        for index, key in enumerate(shown):
            x, y = 48 + 560 * (index % 2), 92 + ROW * (index // 2)
            self._mark((x + 8, y + 14), key.series, hollow=key.hollow)
            self.letters.write(
                (x + 26, y), f"{key.label}: {key.detail}", 21, self.colours["ink-2"], width=516
            )

    def draw_axes(self) -> None:
        """Quiet grid, ticks, and what the axes are."""
        pen, colours, frame = ImageDraw.Draw(self.image), self.colours, self.frame
        for value, text in frame.y_ticks():
            y = frame.y(value)
            pen.line(self._scaled([(LEFT, y), (RIGHT, y)]), fill=colours["line"], width=SCALE)
            self.letters.write((LEFT - 14, y - 13), text, 20, colours["ink-3"], align="right")
        for value, text in frame.x_ticks():
            self.letters.write((frame.x(value), BOTTOM + 10), text, 20, colours["ink-3"], align="centre")
        self.letters.write((RIGHT, BOTTOM + 38), self.drawing.x_label, 20, colours["ink-3"], align="right")
        self.letters.write((LEFT, BOTTOM + 38), self.drawing.y_label, 20, colours["ink-3"])
        if self.drawing.is_empty:
            middle = ((LEFT + RIGHT) / 2, (frame.top + BOTTOM) / 2 - 16)
            self.letters.write(middle, self.drawing.why_empty, 26, colours["ink-2"], align="centre")

    def draw_marks(self) -> None:
        """Window, bands, curves and points, cut off at the frame; then the ceiling with its words."""
        outside = self.image.copy()
        self._draw_grounds()
        for line in self.drawing.lines:
            self._draw_line(line)
        for points in self.drawing.points:
            self._draw_points(points)
        inside = self.image.crop(self._frame_box())
        self.image.paste(outside)
        self.image.paste(inside, self._frame_box()[:2])
        self._draw_ceiling()
        self._draw_target()

    def _frame_box(self) -> tuple[int, int, int, int]:
        return (LEFT * SCALE, int(self.frame.top) * SCALE, (RIGHT + 8) * SCALE, BOTTOM * SCALE)

    def _draw_grounds(self) -> None:
        """What lies below the curves and is seen through: the fitted window and the intervals."""
        if self.drawing.window:
            lo, hi = (self.frame.x(end) for end in self.drawing.window)
            corners = [(lo, self.frame.top), (hi, self.frame.top), (hi, BOTTOM), (lo, BOTTOM)]
            self._fill(corners, self.colours["accent"], 0.05)
        for band in self.drawing.bands:
            upper = self.frame.path(band.x, band.hi)
            self._fill(upper + self.frame.path(band.x, band.lo)[::-1], self.ink(band.series), 0.15)

    def _fill(self, corners: list[XY], ink: str, opacity: float) -> None:
        mask = Image.new("L", self.image.size, 0)
        ImageDraw.Draw(mask).polygon(self._scaled(corners), fill=round(255 * opacity))
        self.image.paste(Image.new("RGB", self.image.size, ink), mask=mask)

    def _draw_line(self, line: Line) -> None:
        pen = ImageDraw.Draw(self.image)
        for piece in dashes(self.frame.path(line.x, line.y), DASHES[line.style]):
            pen.line(self._scaled(piece), fill=self.ink(line.series), width=LINE_WIDTH * SCALE, joint="curve")

    def _draw_points(self, points: Points) -> None:
        for at in self.frame.path(points.x, points.y):
            if points.role == "excluded":
                self._mark(at, 0, hollow=True, ink=self.colours["mark"])
            elif points.role == "outlier":
                self._mark(at, 5, ink=self.colours["bad"])
            else:
                shape = 0 if points.role == "after" else points.series
                self._mark(at, shape, hollow=points.role == "after", ink=self.ink(points.series))

    def _mark(self, at: XY, series: int, *, hollow: bool = False, ink: str = "") -> None:
        """A point: colour and shape change together."""
        ink = ink or self.ink(series)
        pen, corners = ImageDraw.Draw(self.image), self._scaled(shape(at, series % 6, MARK_RADIUS))
        ground = self.colours["card"] if hollow else ink
        pen.polygon(corners, fill=ground, outline=ink, width=2 * SCALE)

    def _draw_ceiling(self) -> None:
        """The line of a ceiling, or of the bound of one, with its words; without a height the words alone."""
        ceiling = self.drawing.ceiling
        if ceiling is None:
            return
        if ceiling.height is None:
            self.letters.write((LEFT + 10, self.frame.top + 8), ceiling.words, 21, self.colours["ink-2"])
            return
        y, ink = self.frame.y(ceiling.height), self.colours["accent" if ceiling.identified else "mark"]
        pen = ImageDraw.Draw(self.image)
        for piece in dashes([(LEFT, y), (RIGHT, y)], (3, 7)):
            pen.line(self._scaled(piece), fill=ink, width=2 * SCALE)
        words_ink = ink if ceiling.identified else self.colours["ink-2"]
        arrow = "" if ceiling.identified else "at or above this line: "
        self.letters.write((LEFT + 10, y - 32), f"{arrow}{ceiling.words}", 21, words_ink)

    def _draw_target(self) -> None:
        """The claim's whisker at its target; squares are what came."""
        target = self.drawing.target
        if target is None:
            return
        pen, ink, x = ImageDraw.Draw(self.image), self.colours["accent"], self.frame.x(target.x)
        for piece in dashes([(x, self.frame.top), (x, BOTTOM)], (3, 7)):
            pen.line(self._scaled(piece), fill=ink, width=2 * SCALE)
        for lo, hi in [(target.lo, target.hi)] if target.lo is not None and target.hi is not None else []:
            low, high = self.frame.y(lo), self.frame.y(hi)
            pen.line(self._scaled([(x, low), (x, high)]), fill=ink, width=LINE_WIDTH * SCALE)
            for end in (low, high):
                pen.line(self._scaled([(x - 8, end), (x + 8, end)]), fill=ink, width=LINE_WIDTH * SCALE)
        if target.value is not None:
            self._mark((x, self.frame.y(target.value)), 3, ink=ink)
        for came in target.came:
            self._mark((x, self.frame.y(came)), 1, ink=self.colours["c2"])
        paths = [self.frame.path(line.x, line.y) for line in self.drawing.lines if line.series == RIVAL]
        if target.rival and paths and paths[-1]:
            _, below = paths[-1][-1]
            self.letters.write((RIGHT - 8, below + 12), target.rival, 21, self.ink(RIVAL), align="right")

    def _scaled(self, path: Sequence[XY]) -> list[XY]:
        return [(x * SCALE, y * SCALE) for x, y in path]

    def as_png(self) -> bytes:
        out = io.BytesIO()
        small = self.image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
        small.save(out, "PNG", optimize=True)
        return out.getvalue()


def shape(at: XY, index: int, radius: float) -> list[XY]:
    """Corners of a mark: circle, square, triangle, diamond, triangle on its tip, cross; as on the pages."""
    x, y = at
    if index == 5:
        return _cross(at, radius)
    corners, turn, size = ((24, 0, 1.0), (4, 45, 1.3), (3, -90, 1.25), (4, 0, 1.25), (3, 90, 1.25))[index]
    angles = [math.radians(turn + 360 * corner / corners) for corner in range(corners)]
    return [(x + size * radius * math.cos(angle), y + size * radius * math.sin(angle)) for angle in angles]


def _cross(at: XY, radius: float) -> list[XY]:
    """A diagonal cross: a plus of twelve corners, turned by an eighth."""
    arm, thick = 1.3 * radius, 0.45 * radius
    plus = [
        (thick, thick), (arm, thick), (arm, -thick), (thick, -thick), (thick, -arm), (-thick, -arm),
        (-thick, -thick), (-arm, -thick), (-arm, thick), (-thick, thick), (-thick, arm), (thick, arm),
    ]  # fmt: skip
    turn = math.sqrt(0.5)
    return [(at[0] + turn * (x - y), at[1] + turn * (x + y)) for x, y in plus]


def dashes(path: list[XY], pattern: tuple[float, float] | None) -> list[list[XY]]:
    """A path cut into pieces of `pattern[0]` pixels with gaps of `pattern[1]`; the whole path without a pattern."""
    if pattern is None or len(path) < 2:
        return [path] if len(path) > 1 else []
    pieces: list[list[XY]] = []
    drawing, left = True, pattern[0]
    piece = [path[0]]
    for start, end in zip(path, path[1:], strict=False):
        length, done = math.dist(start, end), 0.0
        while length - done > left:
            done += left
            at = _between(start, end, done / length)
            if drawing:
                pieces.append([*piece, at])
            drawing = not drawing
            left, piece = pattern[0 if drawing else 1], [at]
        left -= length - done
        piece = [*piece, end] if drawing else [end]
    return [*pieces, piece] if drawing and len(piece) > 1 else pieces


def _between(start: XY, end: XY, share: float) -> XY:
    return (start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1]))
