"""YAML as a study file is written in: every value with the line that says it.

YAML 1.2's plain values, so that `yes`, `no` and `on` are words and 1e-4 is a number.
"""

import re
from typing import Any

import yaml

from training.plain_yaml import LOADER

MAX_BYTES = 512 * 1024
MAX_DEPTH = 12
_BOOL, _FLOAT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:float"
_FLOATS = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_WHOLES = re.compile(r"[-+]?[0-9]+")

Loc = tuple[int | str, ...]  # as pydantic names a place


class NotReadable(ValueError):
    """No YAML, or none that a study file may be."""

    def __init__(self, line: int, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.line, self.reason, self.field = line, reason, field


class _Loader(LOADER):
    """The safe loader with words for words."""


_RETAGGED = {_BOOL, _FLOAT, "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _RETAGGED]
    for first, resolvers in LOADER.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(f"(?:{_WHOLES.pattern})$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(_FLOAT, re.compile(f"(?:{_FLOATS.pattern})$"), list("-+.0123456789"))


class Lines:
    """Which line says what."""

    def __init__(self, root: yaml.Node) -> None:
        self._root = root

    def of(self, loc: Loc) -> int:
        """Line, from 1, of the place; of what holds it where the place itself is not there."""
        node, line = self._root, self._root.start_mark.line
        for part in loc:
            if (found := _child(node, part)) is not None:
                line, node = found
        return line + 1


def _child(node: yaml.Node, part: int | str) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line, node.value[part]
    return None


def read_yaml(text: bytes) -> tuple[Any, Lines]:
    """The value and its lines. Raises NotReadable: too long, too deep, no YAML, an alias, a key that stands twice."""
    if len(text) > MAX_BYTES:
        raise NotReadable(1, f"has {len(text):,} bytes, more than {MAX_BYTES:,}")
    try:
        _check_events(text)
        if (root := yaml.compose(text, Loader=_Loader)) is None:
            raise NotReadable(1, "is empty")
        _check_keys(root)
        return yaml.load(text, Loader=_Loader), Lines(root)  # nosec B506  # a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = (
            min(mark.line, text.count(b"\n", 0, len(text) - 1)) if mark else 0
        )  # the end is after the last one
        raise NotReadable(line + 1, f"is not YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, NotReadable):
            raise
        raise NotReadable(1, f"is not YAML: {str(error).splitlines()[0]}") from None


def _check_events(text: bytes) -> None:
    """Aliases grow a small file into a large value; depth costs seconds to read."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise NotReadable(line, f"has an alias (*{event.anchor}): write it out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise NotReadable(line, f"is nested deeper than {MAX_DEPTH} levels")


def _check_keys(node: yaml.Node, loc: Loc = ()) -> None:
    """YAML would let the last of two equal keys win, silently."""
    if isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            _check_keys(value, (*loc, place))
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise NotReadable(key.start_mark.line + 1, "has a key that is no word")
        if key.value in seen:
            field = ".".join(map(str, (*loc, key.value)))
            raise NotReadable(key.start_mark.line + 1, "stands there twice", field)
        seen.add(key.value)
        _check_keys(value, (*loc, key.value))
