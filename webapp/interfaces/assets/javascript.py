"""The top-level statements of a script, as far as leaving some out needs to know them. No parser: brackets, quotes,
comments, regular expressions and templates are told apart, nothing else."""

import re
from collections.abc import Iterator

_STOP = re.compile(
    r'"(?:[^"\\]|\\.)*"' r"|'(?:[^'\\]|\\.)*'" r"|//[^\n]*|/\*.*?\*/" r"|[(){}\[\];/`]",
    re.DOTALL,
)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(`|\$\{)", re.DOTALL)
_REGEX_FOLLOWS = re.compile(
    r"(?:^|[^\w$.])(?:return|typeof|case|in|of|void|delete|do|else|instanceof|new|throw|yield|await)$"
)
_DECLARATION = re.compile(r"\s*(?:async\s+)?(?:function|class)\b")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class NotUnderstood(ValueError):
    """The script is not what it was taken for; the message says where."""


def statements(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(start, end) of each statement in text[start:end], one after the other without a gap.

    Raises NotUnderstood where the brackets do not match.
    """
    depth, position, first = 0, start, start
    templates: list[int] = []  # depths at which a ${ } inside a template ends
    while (found := _STOP.search(text, position, end)) is not None:
        mark, position = found.group(), found.end()
        if mark == "/":
            position = _after_slash(text, found.start())
        elif mark == "`":
            position = _template(text, position, templates, depth)
        elif mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            if mark == "}" and templates and templates[-1] == depth:
                templates.pop()
                position = _template(text, position, templates, depth)
                continue
            depth -= 1
            if depth < 0:
                raise NotUnderstood(f"a bracket too many at character {found.start()}")
            if depth == 0 and mark == "}" and _DECLARATION.match(text, first):
                yield first, position
                first = position
        elif mark == ";" and depth == 0:
            yield first, position
            first = position
    if depth or templates:
        raise NotUnderstood(f"{depth} brackets are open at the end")
    if first < end:
        yield first, end


def _template(text: str, position: int, templates: list[int], depth: int) -> int:
    """Behind the template whose text begins here, or behind its next ${."""
    found = _TEMPLATE.match(text, position)
    if found is None:
        raise NotUnderstood(f"a template without an end at character {position}")
    if found.group(1) == "${":
        templates.append(depth)
    return found.end()


def _after_slash(text: str, at: int) -> int:
    """Behind a regular expression, or behind the sign of a division."""
    before = text[max(0, at - 40) : at].rstrip()
    last = before[-1:]
    is_value = last.isalnum() or last in ("_", "$", ")", "]", '"', "'", "`")
    if is_value and not _REGEX_FOLLOWS.search(before):
        return at + 1
    found = _REGEX.match(text, at)
    if found is None:
        raise NotUnderstood(f"a slash that is neither at character {at}")
    return found.end()
