"""From the text of a filter to its tree. Anything that is no filter raises FilterError and nothing else.

A filter as a tree, and back as text. Positions are for errors and do not tell trees apart.

What is wrong with a filter, and where.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as member
from difflib import get_close_matches
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from webapp.base.errors import InvalidInput
from webapp.record.runs.filtering.fields import PREFIXES

PLAIN_VALUE = re.compile(r"[^\s\"'(),:=!<>~][^\s\"(),]*")
PLAIN_WORD = re.compile(r"[^\s\"'(),:=!<>~][^\s\"(),:=!<>~]*")
KEYWORDS = frozenset({"and", "or", "not"})
MAX_LENGTH = 1000  # characters
MAX_DEPTH = 12  # AND, OR and NOT within each other
MAX_CONDITIONS = 60
# AND binds closer than OR; conditions side by side are joined by AND. A field is a word with an operator behind it,
# so a value may hold what a word may not ("https://...", "10:30"). After a dot a field's name may go on in quotes.
GRAMMAR = r"""
?start: either
?either: both (_OR both)*
?both: one (_AND? one)*
?one: negation | group | comparison | word
negation: NOT+ (group | comparison | word)
?group: _LPAR either _RPAR
comparison: FIELD OP value (_COMMA value)*
value: VALUE | STRING
word: WORD | STRING

_AND.2: /and(?=[\s("')]|$)/i
_OR.2: /or(?=[\s("')]|$)/i
NOT.2: /not(?=[\s("')]|$)/i
FIELD.3: /[^\s"'(),:=!<>~](?:[^\s"(),:=!<>~]|(?<=\.)"(?:[^"\\]|\\.)+")*(?=\s*(?:[:=<>~]|!=))/
WORD: /(?!(?:and|or|not)(?:[\s("')]|$))[^\s"'(),:=!<>~][^\s"(),:=!<>~]*/i
VALUE: /[^\s"'(),:=!<>~][^\s"(),]*/
STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
OP: /!=|>=|<=|==|[:=<>~]/
_LPAR: "("
_RPAR: ")"
_COMMA: ","
%ignore /\s+/
"""
EXPECTED = {  # the order in which they are named
    "VALUE": "a value",
    "OP": "one of : = != > >= < <= ~",
    "FIELD": "a condition such as state:running",
    "WORD": "a word to search for",
    "_LPAR": '"("',
    "_RPAR": '")"',
    "_COMMA": '","',
    "_AND": "AND",
    "_OR": "OR",
    "$END": "the end",
}
QUOTE = re.compile(r"[\"']")


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


SHOWN_BEFORE, SHOWN_AFTER = 48, 24  # characters around the place at fault


class FilterError(InvalidInput):
    """A filter that cannot be read. `at` is the place in `text` (from 0), `reason` what was found, and `expected`
    what would do, in words; either may end the sentence."""

    def __init__(self, text: str, at: int, reason: str, expected: str = "") -> None:
        self.text = text
        self.at = min(max(at, 0), len(text))
        self.reason = reason
        self.expected = expected
        hint = f"; expected {expected}" if expected else ""
        self.said = f"{reason}{hint}" if reason.endswith("?") and not hint else f"{reason}{hint}."
        super().__init__("filter", f"filter, character {self.at + 1}: {self.said}", status=422)

    @property
    def pointer(self) -> str:
        """Two lines: the filter around the place at fault, and a caret under it."""
        start = max(0, self.at - SHOWN_BEFORE)
        end = min(len(self.text), self.at + SHOWN_AFTER)
        before, after = "…" if start else "", "…" if end < len(self.text) else ""
        line = "".join(c if c.isprintable() else " " for c in self.text[start:end])
        return f"{before}{line}{after}\n{' ' * (len(before) + self.at - start)}^"


def nearest(name: str, known: list[str]) -> str:
    """`did you mean "state"?` for a name that is nearly known; empty for one that is not."""
    found = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f'did you mean "{found[0]}"?' if found else ""


class _Builder(Transformer):
    """Builds the tree while the text is parsed."""

    def either(self, items: list[Node]) -> Node:
        return Or(tuple(items))

    def both(self, items: list[Node]) -> Node:
        return And(tuple(items))

    def negation(self, items: list[Any]) -> Node:
        *signs, item = items
        return Not(item) if len(signs) % 2 else item

    def comparison(self, items: list[Any]) -> Node:
        name, op, *values = items
        return Comparison(
            _field_name(name),
            "=" if op == "==" else str(op),
            tuple(values),
            at=name.start_pos,
        )

    def value(self, items: list[Token]) -> Value:
        (token,) = items
        text = _unquoted(token)
        return Value(text, quoted=token.type == "STRING", at=token.start_pos or 0)

    def word(self, items: list[Token]) -> Node:
        (token,) = items
        return Word(_unquoted(token), at=token.start_pos or 0)


def _field_name(text: str) -> str:
    """In any case, but for the keys of a configuration and the names of metrics."""
    prefix, dot, rest = text.partition(".")
    return f"{prefix.lower()}.{rest}" if f"{prefix.lower()}." in PREFIXES and dot else text.lower()


def _unquoted(token: Token) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL) if token.type == "STRING" else str(token)


_parser = Lark(GRAMMAR, parser="lalr", transformer=_Builder(), maybe_placeholders=False)


def parse(text: str) -> Node | None:
    """The tree of a filter; None for an empty one. Raises FilterError with the place and what was expected."""
    _check_characters(text)
    if not text.strip():
        return None
    try:
        node: Node = _parser.parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _explained(text, error) from None
    _check_size(text, node)
    return node


def _check_characters(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise FilterError(text, MAX_LENGTH, f"a filter has at most {MAX_LENGTH} characters")
    for at, character in enumerate(text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise FilterError(text, at, "this character cannot be searched for")


def _check_size(text: str, node: Node) -> None:
    """Before anything recurses over the tree: how deep it is, and how many words and values it has."""
    waiting: list[tuple[Node, int]] = [(node, 1)]
    count = 0
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, Comparison | Word):
            count += len(item.values) if isinstance(item, Comparison) else 1
            if depth > MAX_DEPTH:
                raise FilterError(text, item.at, f"conditions nest at most {MAX_DEPTH} deep")
            if count > MAX_CONDITIONS:
                raise FilterError(text, item.at, f"a filter has at most {MAX_CONDITIONS} words and values")
        else:
            inner = (item.item,) if isinstance(item, Not) else item.items
            waiting += [(one, depth + 1) for one in reversed(inner)]


def _explained(text: str, error: UnexpectedInput) -> FilterError:
    if isinstance(error, UnexpectedToken):
        ended = error.token.type == "$END"
        at = len(text.rstrip()) if ended else error.token.start_pos or 0
        wanted = set(error.accepts or error.expected)
        if error.token.type == "_RPAR" and "$END" in wanted:
            return FilterError(text, at, "this “)” closes nothing")
        reason = "the filter ends too early" if ended else f"{_shown(str(error.token))} is not possible here"
        return FilterError(text, at, reason, _expected(wanted))
    at = error.pos_in_stream or 0
    wanted = set(error.allowed or ()) if isinstance(error, UnexpectedCharacters) else set()
    if QUOTE.match(text[at : at + 1]) and "STRING" in wanted:
        return FilterError(text, at, "this quote is never closed", f"another {text[at]}")
    return FilterError(text, at, f"{_shown(text[at : at + 1])} is not possible here", _expected(wanted))


def _shown(token: str) -> str:
    short = token if len(token) <= 24 else f"{token[:24]}…"
    return f"“{short}”"


def _expected(wanted: set[str]) -> str:
    named = [words for terminal, words in EXPECTED.items() if terminal in wanted]
    return f"{', '.join(named[:-1])} or {named[-1]}" if len(named) > 1 else "".join(named)
