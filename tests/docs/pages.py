"""The pages that people read, as Markdown, and what stands in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Place:
    """A line of a page."""

    page: Path
    line: int

    @property
    def where(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


@dataclass(frozen=True)
class Link(Place):
    """A link or picture of a page, at the line of the block that it stands in."""

    target: str


@dataclass(frozen=True)
class Fence(Place):
    """A fenced block at its first line of text: its language and its text."""

    language: str
    text: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def tokens(page: Path) -> list[Token]:
    return MARKDOWN.parse(page.read_text())


def fences(page: Path) -> list[Fence]:
    found = (token for token in tokens(page) if token.type == "fence")
    return [Fence(page, token.map[0] + 2, token.info.strip(), token.content) for token in found]


def inlines(page: Path) -> Iterator[tuple[int, Token]]:
    """(line of the block, token) of every piece of text with links, code or pictures in it."""
    line = 0
    for token in tokens(page):
        line = token.map[0] + 1 if token.map else line
        if token.type == "inline":
            yield from ((line, child) for child in token.children or ())


def links(page: Path) -> list[Link]:
    names = {"link_open": "href", "image": "src"}
    return [
        Link(page, line, str(child.attrs[names[child.type]]))
        for line, child in inlines(page)
        if child.type in names
    ]


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can lead to, named as GitHub does."""
    found: set[str] = set()
    read = tokens(page)
    for heading, text in zip(read, read[1:], strict=False):
        if heading.type == "heading_open":
            found.add(_free(slug(plain(text)), found))
    return found


def plain(text: Token) -> str:
    return "".join(child.content for child in text.children or () if child.type in ("text", "code_inline"))


def slug(heading: str) -> str:
    """Lower case, no punctuation, a hyphen for each blank."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _free(name: str, taken: set[str]) -> str:
    candidates = (name if number == 0 else f"{name}-{number}" for number in range(len(taken) + 1))
    return next(candidate for candidate in candidates if candidate not in taken)
