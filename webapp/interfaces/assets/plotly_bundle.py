"""A smaller plotly.js, made of the one in the `plotly` wheel: without the traces that no page draws.

plotly.min.js is one list of top-level statements, nearly all of them lazy modules, and registers its traces in the last
one. We leave out the registrations that are not wanted, and then every statement that nothing needs any more.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from webapp.interfaces.assets.javascript import NotUnderstood, statements

KEPT = frozenset(
    {"scatter", "bar", "box", "violin", "heatmap", "histogram", "histogram2d", "contour", "image"}
)

_BEGIN = re.compile(r'"use strict";var Plotly=\(\(\)=>\{')
_END = "})();"
_REGISTER = re.compile(r"\.register\(\[((?:[\w$]+\(\),?)+)\]\)")
_MODULE_TYPE = re.compile(r'moduleType:"(\w+)",name:"(\w+)"')
_ALIAS = re.compile(r"\.exports=([\w$]+)\(\)")
_FUNCTION = re.compile(r"\s*(?:async )?(?:function\*? ?|class )([\w$]+)")
# `var module=WRAP((exports,module)=>{`, `var some,names,init=WRAP(()=>{`, and `var exports={};`
# (whoever needs the names of the second calls its `init` first, so that alone counts)
_MODULE = re.compile(r"\s*var (?:[\w$]+,)*([\w$]+)=(?:\{\};|[\w$]+\((?:\([\w$,]*\)|[\w$]+)=>\{)")
_EXPORTS = re.compile(r"\s*[\w$]+\(([\w$]+),\{")
_NAME = re.compile(r"[\w$]+")
_ALIAS_LENGTH = 200  # of a module that only hands on another


@dataclass(frozen=True)
class Statement:
    """One top-level statement: its text, the names that it makes, and all that it mentions.

    What makes no name that could be missed (helpers, directives) is always kept.
    """

    text: str
    makes: frozenset[str]
    mentions: frozenset[str]


def small_bundle(script: str, kept: Iterable[str] = KEPT) -> str:
    """The script with these traces only. Raises NotUnderstood for a script that is built otherwise."""
    begin = _BEGIN.search(script)
    last = script.rfind(_END)
    end = script.rfind("return ", 0, max(last, 0))
    if begin is None or end < begin.end():
        raise NotUnderstood("this is no bundle of plotly.js as the wheel has it")
    parts = [_statement(script[a:b]) for a, b in statements(script, begin.end(), end)]
    parts = _register_only(parts, frozenset(kept))
    needed = _needed(parts, _statement(script[end:last]))
    return script[: begin.end()] + "".join(part.text for part in needed) + script[end:]


def _statement(text: str) -> Statement:
    found = _FUNCTION.match(text) or _MODULE.match(text) or _EXPORTS.match(text)
    names = [found.group(1)] if found else []
    return Statement(text, frozenset(names), frozenset(_NAME.findall(text)))


def _register_only(parts: list[Statement], kept: frozenset[str]) -> list[Statement]:
    """The statements with a shorter list of registrations."""
    entry = next((part for part in reversed(parts) if _REGISTER.search(part.text)), None)
    found = _REGISTER.search(entry.text) if entry else None
    if entry is None or found is None:
        raise NotUnderstood("no list of registered traces")
    texts = {name: part.text for part in parts for name in part.makes}
    calls = [call for call in found.group(1).split(",") if call]
    chosen = {_trace(texts, call.removesuffix("()")): call for call in calls}
    missing = kept - chosen.keys() - {"scatter"}  # which is in the core
    if missing:
        raise NotUnderstood(f"not registered: {', '.join(sorted(missing))}")
    shorter = ",".join(call for name, call in chosen.items() if name in kept)
    text = entry.text[: found.start(1)] + shorter + entry.text[found.end(1) :]
    return [_statement(text) if part is entry else part for part in parts]


def _trace(texts: dict[str, str], name: str) -> str | None:
    """The trace that a module hands to the registry; None for what is no trace."""
    while name in texts:
        said = _MODULE_TYPE.search(texts[name])
        if said:
            return said.group(2) if said.group(1) == "trace" else None
        handed_on = _ALIAS.search(texts[name]) if len(texts[name]) < _ALIAS_LENGTH else None
        name = handed_on.group(1) if handed_on else ""
    return None


def _needed(parts: list[Statement], tail: Statement) -> list[Statement]:
    """What the tail needs, in its order."""
    makers: dict[str, list[int]] = {}
    for index, part in enumerate(parts):
        for name in part.makes:
            makers.setdefault(name, []).append(index)
    needed = {index for index, part in enumerate(parts) if not part.makes}
    waiting = [tail, *(parts[index] for index in needed)]
    while waiting:
        for name in waiting.pop().mentions & makers.keys():
            new = set(makers[name]) - needed
            needed |= new
            waiting += [parts[index] for index in new]
    return [part for index, part in enumerate(parts) if index in needed]
