"""YAML that people type: bounded in size and depth, without aliases, and only what JSON can hold."""

import math
from collections.abc import Mapping
from typing import Any

import yaml

from training.plain_yaml import LOADER

MAX_TEXT = 100_000  # characters; the longest recipe has 4,000
MAX_DEPTH = 20


class Unreadable(ValueError):
    """A text that is no value; the message is a sentence without the field."""


def load_yaml(text: str) -> Any:
    """A value of plain parts. Raises Unreadable with the line at fault."""
    if len(text) > MAX_TEXT:
        raise Unreadable(f"is longer than {MAX_TEXT:,} characters")
    try:
        depth = 0
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise Unreadable(f"has an alias (*{event.anchor}) in line {line}: write it out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH + 1:  # `strange` would say so, too, after seconds where there are thousands
                raise Unreadable(f"is nested deeper than {MAX_DEPTH} levels")
        value = yaml.load(text, Loader=LOADER)  # nosec B506  # a safe one
    except yaml.MarkedYAMLError as error:
        raise Unreadable(_yaml_words(error, text)) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable("is not YAML: " + str(error).splitlines()[0][:200]) from None
    if problem := strange(value):
        raise Unreadable(problem)
    return value


def _yaml_words(error: yaml.MarkedYAMLError, text: str) -> str:
    mark, where = error.problem_mark or error.context_mark, ""
    if mark:  # the end of the text is said to be on a line after the last
        lines = text.split("\n")
        line = min(mark.line, len(lines) - 1)
        column = mark.column if line == mark.line else len(lines[line])
        where = f" in line {line + 1}, column {column + 1}"
    return f"is not YAML{where}: {error.problem or error.context}"


def strange(value: Any, depth: int = 0) -> str:
    """What of a value no configuration can hold, in words that follow its name; empty where all is well."""
    if depth > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, Mapping):
        if (odd := next((key for key in value if not isinstance(key, str)), None)) is not None:
            return f"has the key {odd!r}, which is no text"
        return next(filter(None, (strange(part, depth + 1) for pair in value.items() for part in pair)), "")
    if isinstance(value, list | tuple):
        return next(filter(None, (strange(part, depth + 1) for part in value)), "")
    if isinstance(value, str):
        return "" if _is_storable(value) else "has a character that cannot be stored"
    if isinstance(value, float) and not math.isfinite(value):
        return "has a number that is not finite"
    if value is None or isinstance(value, bool | int | float):
        return ""
    return f"has a value that is neither text, number, list nor mapping: {str(value)[:40]}"


def _is_storable(text: str) -> bool:
    """PostgreSQL keeps no NUL, and UTF-8 no halves of characters."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
