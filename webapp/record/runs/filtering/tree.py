"""A filter as a tree, and back as text. Positions are for errors and do not tell trees apart."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as member

PLAIN_VALUE = re.compile(r"[^\s\"'(),:=!<>~][^\s\"(),]*")
PLAIN_WORD = re.compile(r"[^\s\"'(),:=!<>~][^\s\"(),:=!<>~]*")
KEYWORDS = frozenset({"and", "or", "not"})


@dataclass(frozen=True)
class Value:
    """One value of a comparison. A quoted one is taken literally: no wildcard, no `none`, no `me`."""

    text: str
    quoted: bool = False
    at: int = member(default=0, compare=False)


@dataclass(frozen=True)
class Comparison:
    """`state:running,failed`: true where any of the values fits; with != where none does."""

    field: str
    op: str
    values: tuple[Value, ...]
    at: int = member(default=0, compare=False)


@dataclass(frozen=True)
class Word:
    """Text without a field: searches names, recipes, ids and tags."""

    text: str
    at: int = member(default=0, compare=False)


@dataclass(frozen=True)
class Not:
    item: "Node"


@dataclass(frozen=True)
class And:
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Or:
    items: tuple["Node", ...]


Node = Comparison | Word | Not | And | Or


def comparisons(node: Node | None) -> Iterator[Comparison]:
    """Every comparison of the tree, from left to right."""
    if isinstance(node, Comparison):
        yield node
    elif isinstance(node, Not):
        yield from comparisons(node.item)
    elif isinstance(node, And | Or):
        for item in node.items:
            yield from comparisons(item)


def to_text(node: Node | None) -> str:
    """The filter as it would be typed; parsed again it is the same tree."""
    if node is None:
        return ""
    if isinstance(node, Or):
        return " OR ".join(_inside(item) for item in node.items)
    if isinstance(node, And):
        return " ".join(_inside(item) for item in node.items)
    return _inside(node)


def _inside(node: Node) -> str:
    if isinstance(node, Word):
        plain = PLAIN_WORD.fullmatch(node.text) and node.text.lower() not in KEYWORDS
        return node.text if plain else quoted(node.text)
    if isinstance(node, Comparison):
        return f"{node.field}{node.op}{','.join(_value(value) for value in node.values)}"
    if isinstance(node, Not):
        return f"NOT {_inside(node.item) if not isinstance(node.item, Not) else f'({to_text(node.item)})'}"
    return f"({to_text(node)})"


def _value(value: Value) -> str:
    return quoted(value.text) if value.quoted or not PLAIN_VALUE.fullmatch(value.text) else value.text


def quoted(text: str) -> str:
    """The text in double quotes, with what would end them escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
