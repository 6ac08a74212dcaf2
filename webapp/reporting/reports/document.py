"""A report's Markdown as parts: prose, and blocks between. What comes out as HTML is sanitised.

Raw HTML is text here, images are not read (charts are blocks), and a link goes to http, https or a path of this server.

The syntax of a block: what a fenced block marked `headroom` asks for, read line by line. Pure functions.

Each line is "key: value". The first key says what it is:

    chart: run | compare      table: leaderboard | parameters      number: ceiling | pass_rate | forecast | compute
    prediction: ID            decision: ID
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

FENCE = "headroom"
SHOWN = {"caption"}
AXES_KEYS = {"x", "scale"}
# (what, which) -> keys that it may have; those that it must have are in NEEDED.
KEYS: dict[tuple[str, str], set[str]] = {
    ("chart", "run"): {"run", "metric", "cutoff", "lo", "robust"} | AXES_KEYS,
    ("chart", "compare"): {"runs", "recipes", "refs", "view", "by"} | AXES_KEYS,
    ("table", "leaderboard"): {"task", "model"},
    ("table", "parameters"): {"run", "runs"},
    ("number", "ceiling"): {"run"},
    ("number", "pass_rate"): {"run"},
    ("number", "forecast"): {"run"},
    ("number", "compute"): {"run"},
}
NEEDED: dict[tuple[str, str], tuple[str, ...]] = {
    ("chart", "run"): ("run",),
    ("chart", "compare"): ("runs", "recipes", "refs"),
    ("table", "parameters"): ("run", "runs"),
} | {("number", which): ("run",) for which in ("ceiling", "pass_rate", "forecast", "compute")}
BY_ID = ("prediction", "decision")
WHATS = ("chart", "table", "number", *BY_ID)
LONGEST_VALUE = 2000
MOST_BLOCKS = 40
LINK = re.compile(r"(?:https?://[^\s/\\]|/(?![/\\]|%2f|%5c)|#)[^\s\\\x00-\x1f]*", re.IGNORECASE)
TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
CLASSES = {"td": {"num"}, "th": {"num"}}


@dataclass(frozen=True)
class Ask:
    """A block that was understood. fields: key -> value; lines: key -> its line in the text (from 1)."""

    line: int
    what: str
    which: str
    fields: Mapping[str, str]
    lines: Mapping[str, int]

    def items(self, key: str) -> list[str]:
        """The value of a key that takes several, separated by commas."""
        return [part.strip() for part in self.fields.get(key, "").split(",") if part.strip()]


@dataclass(frozen=True)
class Problem:
    """A block that cannot be shown: the line at fault (from 1) and why."""

    line: int
    reason: str


class BlockError(Exception):
    """A line that cannot be read."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.problem = Problem(line, reason)


def parse(content: str, fence_line: int) -> Ask | Problem:
    """The inside of a fence that opens in line `fence_line` (from 1)."""
    try:
        fields, lines = _pairs(content, fence_line)
        return _ask(fields, lines, fence_line)
    except BlockError as error:
        return error.problem


def _pairs(content: str, fence_line: int) -> tuple[dict[str, str], dict[str, int]]:
    fields: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, text in enumerate(content.split("\n"), fence_line + 1):
        if not text.strip():
            continue
        key, colon, value = text.partition(":")
        key, value = key.strip().lower(), value.strip()
        for is_wrong, why in (
            (not colon or not key, "each line is “key: value”."),
            (key in fields, f"“{_short(key)}” is said twice."),
            (not value, f"“{_short(key)}” has no value."),
            (len(value) > LONGEST_VALUE, f"“{_short(key)}” is too long."),
        ):
            if is_wrong:
                raise BlockError(number, why)
        fields[key], lines[key] = value, number
    return fields, lines


def _ask(fields: dict[str, str], lines: dict[str, int], fence_line: int) -> Ask:
    if not fields:
        raise BlockError(
            fence_line, "the block is empty. Begin with chart:, table:, number:, prediction: or decision:."
        )
    what = next(iter(fields))
    if what not in WHATS:
        raise BlockError(
            lines[what], f"begin with {', '.join(WHATS[:-1])} or {WHATS[-1]}, not “{_short(what)}”."
        )
    which = fields[what] if what in BY_ID else fields[what].lower()
    if what in BY_ID:
        allowed: set[str] = set()
    else:
        if (what, which) not in KEYS:
            known = ", ".join(name for kind, name in KEYS if kind == what)
            raise BlockError(lines[what], f"{what} must be one of {known}.")
        allowed = KEYS[what, which]
    for key in fields:
        if key != what and key not in allowed | SHOWN:
            may = ", ".join(sorted(allowed | SHOWN))
            raise BlockError(
                lines[key], f"{what}: {_short(which)} has no “{_short(key)}”; it may have {may}."
            )
    needed = NEEDED.get((what, which), ())
    if needed and not any(key in fields for key in needed):
        raise BlockError(lines[what], f"{what}: {which} needs {' or '.join(f'{key}:' for key in needed)}.")
    return Ask(fence_line, what, which, fields, lines)


def text_of(fields: Mapping[str, str]) -> str:
    """A block as it is typed; values lose their line breaks, empty ones are left out."""
    rows = [f"{key}: {' '.join(value.split())}" for key, value in fields.items() if value.strip()]
    return "\n".join([f"```{FENCE}", *rows, "```"])


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


@dataclass(frozen=True)
class Prose:
    """Markdown between blocks, as tokens of markdown-it; `refs` is what its links refer to."""

    tokens: Sequence[Token]


Part = Prose | Ask | Problem


def is_allowed_link(url: str) -> bool:
    """http, https, a path of this server, or a place in this page."""
    return LINK.fullmatch(url) is not None


READER = MarkdownIt("commonmark", {"html": False, "linkify": False})
READER.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
READER.validateLink = is_allowed_link  # type: ignore[method-assign]


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
    return value if attribute != "href" or is_allowed_link(value) else None
