"""A report's Markdown as parts: prose, and blocks between. What comes out as HTML is sanitised.

Raw HTML is text here, images are not read (charts are blocks), and a link goes to http, https or a path of this server.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from webapp.reporting.reports.blocks import FENCE, Ask, Problem, parse

MOST_BLOCKS = 40
LINK = re.compile(r"(?:https?://[^\s/\\]|/(?![/\\]|%2f|%5c)|#)[^\s\\\x00-\x1f]*", re.IGNORECASE)
TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
CLASSES = {"td": {"num"}, "th": {"num"}}


@dataclass(frozen=True)
class Prose:
    """Markdown between blocks, as tokens of markdown-it; `refs` is what its links refer to."""

    tokens: Sequence[Token]


Part = Prose | Ask | Problem


def is_allowed_link(url: str) -> bool:
    """http, https, a path of this server, or a place in this page."""
    return LINK.fullmatch(url) is not None


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False})
    reader.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
    reader.validateLink = is_allowed_link  # type: ignore[method-assign]
    return reader


READER = _reader()


def read(text: str) -> list[Part]:
    """The parts in their order. A block inside a list or a quotation is a Problem after the prose that it stands in."""
    parts: list[Part] = []
    prose: list[Token] = []
    inner: list[Problem] = []
    blocks = 0

    def close() -> None:
        if prose:
            parts.append(Prose(list(prose)))
        parts.extend(inner)
        prose.clear()
        inner.clear()

    for token in _tidy(READER.parse(text)):
        is_block = token.type == "fence" and token.info.split()[:1] == [FENCE]
        line = (token.map[0] + 1) if token.map else 1
        if is_block and token.level:
            inner.append(Problem(line, "a block stands by itself, not inside a list or a quotation."))
        if not is_block or token.level:
            prose.append(token)
            continue
        close()
        blocks += 1
        too_many = Problem(line, f"a report has at most {MOST_BLOCKS} blocks.")
        parts.append(parse(token.content, line) if blocks <= MOST_BLOCKS else too_many)
    close()
    return parts


def _tidy(tokens: Sequence[Token]) -> Sequence[Token]:
    """Headings below the title (h1) without a level left out, and alignment as a class."""
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    top, level = min(levels, default=1), 1
    for token in tokens:
        if token.type == "heading_open":
            level = min(6, level + 1, int(token.tag[1]) - top + 2)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{level}"
        if token.type in ("th_open", "td_open"):
            right = "right" in str(token.attrs.pop("style", ""))
            if right:
                token.attrs["class"] = "num"
    return tokens


def html_of(prose: Prose) -> str:
    """Sanitised HTML."""
    return clean(READER.renderer.render(prose.tokens, READER.options, {}))


def clean(html: str) -> str:
    """Only the tags and attributes of Markdown, and only links that are allowed, which open without a way back."""
    return nh3.clean(
        html, tags=TAGS, attributes=ATTRIBUTES, allowed_classes=CLASSES, url_schemes={"http", "https"},
        attribute_filter=_filter, link_rel="noopener noreferrer", strip_comments=True,
    )  # fmt: skip


def _filter(tag: str, attribute: str, value: str) -> str | None:
    if attribute == "href":
        return value if is_allowed_link(value) else None
    return value


def asks(parts: Sequence[Part]) -> list[Ask]:
    return [part for part in parts if isinstance(part, Ask)]


def problems(parts: Sequence[Part]) -> list[Problem]:
    """Blocks that cannot be read, in the order of the text."""
    return [part for part in parts if isinstance(part, Problem)]
