"""A report as PDF: text, tables and links as such, charts as vectors, pages with numbers. Drawn with fpdf2."""

from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import FontFace
from markdown_it.token import Token

from webapp.base import tokens
from webapp.reporting.reports.fonts import BODY, MONO, Faces, faces, install, writable
from webapp.reporting.reports.scene import Scene, drawing_of, scene_of
from webapp.reporting.reports.selectors import Shown, Version

MARGIN, LINE, SIZE = 20.0, 5.2, 10.0  # mm, mm, points
CELL_ROOM = 4  # letters: the padding of a cell, and bold words of the head
HEADINGS = {"h2": 15.0, "h3": 12.5, "h4": 11.0, "h5": 10.0, "h6": 10.0}
INDENT, MOST_INDENT = 6.0, 48.0


def pdf_of(version: Version, byline: Sequence[str], moment: datetime, base: str) -> bytes:
    """The file. byline: lines below the title; moment: when the numbers were read; base: the server's own address, for
    links to its paths ("https://host")."""
    paper = _Paper(base)
    paper.set_title(paper.fit(version.title))
    paper.set_creation_date(moment)
    paper.add_page()
    paper.big(version.title, 20)
    for words in byline:
        paper.small(words)
    paper.ln(4)
    for part, after in zip_longest(version.parts, version.parts[1:]):
        if part.prose is not None:
            _Prose(paper).write(part.prose.tokens, _room(paper, after))
        else:
            _block(paper, part)
    return bytes(paper.output())


class _Paper(FPDF):
    """A4 with our fonts and colours."""

    def __init__(self, base: str) -> None:
        super().__init__(format="A4")
        self.base, self.found, self.colours = base, faces(), tokens.colours("light")
        install(self, self.found)
        self.set_margins(MARGIN, MARGIN)
        self.set_auto_page_break(True, MARGIN + 4)
        self.ink("ink")
        self.set_font(BODY, "", SIZE)

    def footer(self) -> None:
        self.set_y(-14)
        self.set_font(BODY, "", 8)
        self.ink("ink-3")
        self.cell(0, 6, f"Headroom, page {self.page_no()} of {{nb}}", align="R")

    def fit(self, text: str) -> str:
        """In characters that can be written."""
        return writable(text, self.found)

    def ink(self, token: str) -> None:
        self.set_text_color(self.colours[token])

    def big(self, text: str, size: float) -> None:
        """A heading; it is not left alone at the foot of a page."""
        if self.get_y() > self.page_break_trigger - 4 * LINE:
            self.add_page()
        self.set_font(BODY, "B", size)
        self.ink("ink")
        self.multi_cell(0, size * 0.5, self.fit(text), new_x=XPos.LMARGIN, new_y=YPos.NEXT, align="L")

    def small(self, text: str, token: str = "ink-2") -> None:
        """A paragraph in small print."""
        if text:
            self.set_font(BODY, "", 8.5)
            self.ink(token)
            self.multi_cell(0, 4.4, self.fit(text), new_x=XPos.LMARGIN, new_y=YPos.NEXT, align="L")

    def address(self, href: str) -> str:
        """A link that leads there from a file, too."""
        return f"{self.base}{href}" if href.startswith("/") else href


class _Prose:
    """Writes the tokens of Markdown."""

    def __init__(self, paper: _Paper) -> None:
        self.paper = paper
        self.lists: list[int | None] = []  # of each open list: its next number, None for bullets
        self.quotes = 0
        self.size, self.style, self.link, self.code = SIZE, set[str](), "", False

    def write(self, tokens_: Sequence[Token], below: float) -> None:
        """All tokens between two blocks; a heading at their end needs `below` millimetres for what it stands above."""
        at, inlines = 0, [at for at, token in enumerate(tokens_) if token.type == "inline"]
        while at < len(tokens_):
            if tokens_[at].type == "table_open":
                at = self._table(tokens_, at)
                continue
            is_last = tokens_[-1].type == "heading_close" and at + 1 == inlines[-1]
            self._token(tokens_[at], below if is_last else 0.0)
            at += 1
        self.paper.set_left_margin(MARGIN)

    def _token(self, token: Token, below: float) -> None:
        paper, kind = self.paper, token.type
        if kind == "heading_open":
            paper.ln(3)
            self.size, self.style = HEADINGS[token.tag], {"B"}
            if paper.get_y() + max(5 * LINE, self.size * 0.5 + 2 + below) > paper.page_break_trigger:
                paper.add_page()
        elif kind == "heading_close":
            paper.ln(self.size * 0.5 + 2)
            self.size, self.style = SIZE, set()
        elif kind == "paragraph_close":
            paper.ln(LINE + (0.8 if self.lists else 2.4))
        elif kind == "inline":
            self._inline(token.children or [])
        elif kind in ("fence", "code_block"):
            self._code_block(token.content)
        elif kind == "hr":
            paper.set_draw_color(paper.colours["line"])
            paper.line(paper.l_margin, paper.get_y() + 1, paper.w - MARGIN, paper.get_y() + 1)
            paper.ln(4)
        else:
            self._structure(token)

    def _structure(self, token: Token) -> None:
        kind = token.type
        if kind == "ordered_list_open":
            self.lists.append(int(token.attrs.get("start", 1)))
        elif kind == "bullet_list_open":
            self.lists.append(None)
        elif kind in ("ordered_list_close", "bullet_list_close"):
            self.lists.pop()
            self._indent()
            if not self.lists:
                self.paper.ln(1.6)
        elif kind == "list_item_open":
            self._bullet()
        elif kind in ("blockquote_open", "blockquote_close"):
            self.quotes += 1 if kind == "blockquote_open" else -1
            self._indent()

    def _indent(self) -> None:
        self.paper.set_left_margin(MARGIN + min(MOST_INDENT, INDENT * (len(self.lists) + self.quotes)))
        self.paper.set_x(self.paper.l_margin)

    def _bullet(self) -> None:
        self._indent()
        number = self.lists[-1] if self.lists else None
        self._font()
        self.paper.set_x(self.paper.l_margin - 5)
        self.paper.cell(5, LINE, self.paper.fit("•" if number is None else f"{number}."))
        if number is not None:
            self.lists[-1] = number + 1

    def _font(self) -> None:
        style = "".join(one for one in "BIS" if one in self.style)
        self.paper.set_font(
            MONO if self.code else BODY,
            style.strip("BI") if self.code else style,
            self.size - (1 if self.code else 0),
        )
        self.paper.ink("accent" if self.link else "ink-2" if self.quotes else "ink")

    def _inline(self, children: Sequence[Token]) -> None:
        for child in children:
            if child.type in MARKS:
                mark, on = MARKS[child.type]
                (self.style.add if on else self.style.discard)(mark)
            elif child.type == "link_open":
                self.link = self.paper.address(str(child.attrs.get("href", "")))
            elif child.type == "link_close":
                self.link = ""
            else:
                self.code = child.type == "code_inline"
                self._run(
                    "\n" if child.type == "hardbreak" else " " if child.type == "softbreak" else child.content
                )
                self.code = False

    def _run(self, text: str) -> None:
        if not text:
            return
        self._font()
        link = "" if self.link.startswith("#") else self.link
        self.paper.write(max(LINE, self.size * 0.5), self.paper.fit(text), link)

    def _code_block(self, content: str) -> None:
        paper = self.paper
        paper.set_font(MONO, "", 8.5)
        paper.ink("ink")
        paper.set_fill_color(paper.colours["sunk"])
        text = paper.fit(content.rstrip("\n")) or " "
        paper.multi_cell(0, 4.4, text, fill=True, new_x=XPos.LMARGIN, new_y=YPos.NEXT, align="L")
        paper.ln(2.4)

    def _table(self, tokens_: Sequence[Token], at: int) -> int:
        """A Markdown table, its cells as plain text; the index after it."""
        rows: list[list[str]] = []
        right: set[int] = set()
        while tokens_[at].type != "table_close":
            token = tokens_[at]
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                right |= {len(rows[-1])} if token.attrs.get("class") == "num" else set()
            elif token.type == "inline":
                rows[-1].append(plain(token))
            at += 1
        _table(self.paper, rows, right)
        return at + 1


MARKS = {
    "strong_open": ("B", True),
    "strong_close": ("B", False),
    "em_open": ("I", True),
    "em_close": ("I", False),
    "s_open": ("S", True),
    "s_close": ("S", False),
}


def plain(token: Token) -> str:
    """The words of an inline token."""
    children = token.children or []
    return "".join(" " if one.type in ("softbreak", "hardbreak") else one.content for one in children).strip()


def _table(paper: _Paper, rows: Sequence[Sequence[str]], right: set[int]) -> None:
    """A table over the whole width; a row that does not fit the page begins the next."""
    if not rows or not rows[0]:
        return
    paper.set_left_margin(MARGIN)
    paper.set_x(MARGIN)
    paper.set_font(BODY, "", 8.5)
    paper.ink("ink")
    paper.set_draw_color(paper.colours["line"])
    paper.set_fill_color(paper.colours["card"])  # else cells take the colour of what was drawn last
    longest = [
        max(4, *(min(30, len(row[at])) for row in rows if at < len(row))) + CELL_ROOM
        for at in range(len(rows[0]))
    ]
    head = FontFace(emphasis="BOLD", color=paper.colours["ink-2"])
    align = tuple("RIGHT" if at in right else "LEFT" for at in range(len(rows[0])))
    with paper.table(
        col_widths=tuple(longest), text_align=align, headings_style=head, line_height=4.6, padding=1,
        borders_layout="HORIZONTAL_LINES", width=paper.w - 2 * MARGIN,
    ) as table:  # fmt: skip
        for row in rows:
            line = table.row()
            for cell in row:
                line.cell(paper.fit(cell))
    paper.ln(3)


def _block(paper: _Paper, part: Shown) -> None:
    block = part.block or {}
    paper.ln(1)
    BLOCKS[block["kind"]](paper, block)
    paper.small(block["caption"])
    if part.changed:
        paper.small("These numbers changed since the report was published.", "warn")
    paper.ln(3)


def _problem(paper: _Paper, block: dict[str, Any]) -> None:
    paper.small(f"Line {block['line']}: {block['reason']}", "bad")


def _number(paper: _Paper, block: dict[str, Any]) -> None:
    paper.small(block["title"])
    paper.big(block["value"], 16)
    paper.small(block["sentence"])


def _facts(paper: _Paper, block: dict[str, Any]) -> None:
    paper.big(block["title"], 10.5)
    paper.ln(1)
    for name, value in block["facts"]:
        paper.set_font(BODY, "B", 8.5)
        paper.ink("ink-2")
        paper.cell(32, 4.8, paper.fit(name))
        paper.set_left_margin(MARGIN + 32)
        paper.set_font(BODY, "", 8.5)
        paper.ink("ink")
        paper.multi_cell(0, 4.8, paper.fit(value) or "–", new_x=XPos.LMARGIN, new_y=YPos.NEXT, align="L")
        paper.set_left_margin(MARGIN)
        paper.set_x(MARGIN)


def _tables(paper: _Paper, block: dict[str, Any]) -> None:
    for table in block["tables"]:
        if table["title"]:
            paper.big(table["title"], 10.5)
            paper.ln(1)
        _table(paper, [table["head"], *table["rows"]], set(table["numeric"]))
        if table["more"]:
            paper.small(f"and {table['more']} more")
        for note in table.get("notes", ()):
            paper.small(note)


def _height(scene: Scene, scale: float) -> float:
    """Of a chart and the lines around it that stay with it."""
    return scene.height * scale + 3 * LINE


def _room(paper: _Paper, part: Shown | None) -> float:
    """What a heading must have below it for this part: all of a chart, since a chart is not cut; else some lines."""
    block = part.block if part is not None else None
    if not block or block["kind"] != "chart":
        return 0.0
    scene = scene_of(drawing_of(block["drawing"]))
    return _height(scene, (paper.w - 2 * MARGIN) / scene.width) + 1


def _chart(paper: _Paper, block: dict[str, Any]) -> None:
    drawing = drawing_of(block["drawing"])
    scene = scene_of(drawing)
    scale = (paper.w - 2 * MARGIN) / scene.width
    if paper.get_y() + _height(scene, scale) > paper.page_break_trigger:
        paper.add_page()
    paper.set_font(BODY, "B", 9)
    paper.ink("ink-2")
    paper.multi_cell(0, 5, paper.fit(block["title"]), new_x=XPos.LMARGIN, new_y=YPos.NEXT, align="L")
    _Pen(paper, scene, scale).draw()
    for sentence in (*drawing.sentences[:3], *drawing.missing):
        paper.small(sentence)


BLOCKS = {"problem": _problem, "number": _number, "facts": _facts, "tables": _tables, "chart": _chart}


class _Pen:
    """Draws a scene at the current place; `scale` is millimetres a pixel."""

    def __init__(self, paper: _Paper, scene: Scene, scale: float) -> None:
        self.paper, self.scene, self.scale = paper, scene, scale
        self.left, self.top = MARGIN, paper.get_y()

    def at(self, point: tuple[float, float]) -> tuple[float, float]:
        return self.left + self.scale * point[0], self.top + self.scale * point[1]

    def draw(self) -> None:
        """Shapes, those of the curves cut off at the frame, then words; the place moves below the chart."""
        left, top, right, bottom = self.scene.frame
        for one in self.scene.shapes:
            if not one.inside:
                self._shape(one)
        x, y = self.at((left, top - 6))
        with self.paper.rect_clip(
            x=x, y=y, w=self.scale * (right - left + 8), h=self.scale * (bottom - top + 6)
        ):
            for one in self.scene.shapes:
                if one.inside:
                    self._shape(one)
        self._words()
        self.paper.set_xy(MARGIN, self.top + self.scale * self.scene.height + 1)

    def _shape(self, one: Any) -> None:
        paper, points = self.paper, [self.at(point) for point in one.path]
        if one.stroke:
            paper.set_draw_color(paper.colours[one.stroke])
            paper.set_line_width(self.scale * one.width)
        if one.dash:
            paper.set_dash_pattern(dash=self.scale * one.dash[0], gap=self.scale * one.dash[1])
        if one.fill:
            paper.set_fill_color(paper.colours[one.fill])
            with paper.local_context(fill_opacity=one.opacity):
                paper.polygon(points, style="DF" if one.stroke else "F")
        else:
            paper.polyline(points)
        if one.dash:
            paper.set_dash_pattern()

    def _words(self) -> None:
        self.paper.set_font(BODY, "", 11 * self.scale * 72 / 25.4)
        for words in self.scene.words:
            self.paper.ink(words.ink)
            text = self.paper.fit(words.text)
            width = self.paper.get_string_width(text)
            x, y = self.at(words.at)
            self.paper.text(x - {"start": 0.0, "middle": width / 2, "end": width}[words.align], y, text)


__all__ = ["Faces", "pdf_of", "plain"]
