"""What runs inside the sandbox around a program. `code` sends the text of this file along: standard library only.

Three roles: `call_function` calls a function once and prints what it returns; `serve` answers calls to a program's
functions; `judge` runs assertions in a sandbox of their own, calling the served program for every name that they do
not define. The program never shares a process with the assertions: it sees the arguments, never the expected values,
and what it returns arrives as plain data, so that neither exits, equal-to-all objects nor patched modules pass.
"""

import importlib
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, TextIO

PRELUDE = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import ceil, comb, floor, gcd, inf, isqrt, log2, sqrt
from typing import *
"""
CHANNEL_BROKEN = 3
_ERRORS = {
    kind.__name__: kind
    for kind in (
        AssertionError,
        AttributeError,
        IndexError,
        KeyError,
        NameError,
        TypeError,
        ValueError,
        ZeroDivisionError,
    )
}


def call_function(source: str, name: str) -> None:
    """Call `name`, or `Solution().name`, with the JSON list on stdin; print its result as JSON."""
    answers = _take_over(1)
    arguments = json.load(sys.stdin)
    names = _run(PRELUDE + source)
    answers.write(json.dumps(_find(names, name)(*arguments)))
    answers.flush()


def serve(source: str) -> None:
    """Answer the calls on stdin, a JSON line each, to the functions of a program."""
    sys.set_int_max_str_digits(0)
    answers, requests = _take_over(1), _take_over(0)
    kept: list[Any] = []
    names, broken = {}, None
    try:
        names = _run(source)
    except Exception as error:
        broken = error
    for line in requests:
        try:
            if broken:
                raise broken
            answer = {"value": encode(_answer(json.loads(line), names, kept), kept)}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answer(request: dict[str, Any], names: dict[str, Any], kept: list[Any]) -> Any:
    name, reference = request["name"], request["reference"]
    target = _find(names, name) if reference is None else kept[reference]
    for attribute in request["attributes"]:
        target = getattr(target, attribute)
    arguments = [decode(value, kept.__getitem__) for value in request["arguments"]]
    return target(
        *arguments, **{key: decode(value, kept.__getitem__) for key, value in request["named"].items()}
    )


def _find(names: dict[str, Any], name: str) -> Any:
    """What a program calls so, also as a method of its Solution."""
    if name not in names and hasattr(names.get("Solution"), name):
        return getattr(names["Solution"](), name)
    if name not in names:
        raise NameError(f"the program has no {name}")
    return names[name]


def judge(tests: str, remote: list[str], modules: list[str], candidate: str) -> None:
    """Run the assertions. `remote`: names that the served program has; `candidate`: the one that they call so."""
    sys.set_int_max_str_digits(0)
    channel = Channel()
    names: dict[str, Any] = {"__name__": "tests", **{name: importlib.import_module(name) for name in modules}}
    names |= {name: Remote(channel, name) for name in remote}
    if candidate:
        names[candidate] = names["candidate"] = Remote(channel, candidate)
    exec(compile(tests, "tests.py", "exec"), names)  # nosec B102  # in the sandbox (docs/security.md)


class Channel:
    """To the served program and back."""

    def __init__(self) -> None:
        self._requests, self._answers = _take_over(1), _take_over(0)

    def ask(self, request: dict[str, Any]) -> Any:
        """The result of one call, or its exception. A program that does not answer fails every test."""
        try:
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
            answer = json.loads(self._answers.readline())
            if "value" in answer:
                return decode(answer["value"], lambda index: Remote(self, "", index))
            error = _ERRORS.get(str(answer["error"]), RuntimeError)(str(answer["message"]))
        except Exception:  # not to be caught by a test
            print("the program stopped answering", file=sys.stderr, flush=True)
            os._exit(CHANNEL_BROKEN)
        raise error


class Remote:
    """A function, method or object of the served program."""

    def __init__(
        self, channel: Channel, name: str, reference: int | None = None, path: tuple[str, ...] = ()
    ) -> None:
        self._channel, self._name, self._reference, self._path = channel, name, reference, path

    def __getattr__(self, attribute: str) -> "Remote":
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Remote(self._channel, self._name, self._reference, (*self._path, attribute))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        request = {
            "name": self._name,
            "reference": self._reference,
            "attributes": self._path,
            "arguments": [encode(value, None) for value in arguments],
            "named": {key: encode(value, None) for key, value in named.items()},
        }
        return self._channel.ask(request)


# -- values as JSON --------------------------------------------------------------------------------------------


def encode(value: Any, kept: list[Any] | None) -> Any:
    """A value as JSON: containers, numbers, iterators. Other objects are kept here and referred to by number."""
    if value is None or isinstance(value, (bool, str)):
        return value if value is None or isinstance(value, bool) else str(value)
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    for kind, tag in _SEQUENCES.items():
        if isinstance(value, kind):
            return {tag: [encode(item, kept) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key, kept), encode(item, kept)] for key, item in value.items()]}
    for kind, tag in _AS_TEXT.items():
        if isinstance(value, kind):
            return {tag: value.hex() if isinstance(value, (bytes, bytearray)) else str(value)}
    if isinstance(value, (Iterator, range, *_VIEWS)):
        items: Any = value
        return {"iterator" if isinstance(value, Iterator) else "list": [encode(item, kept) for item in items]}
    if isinstance(value, Remote):
        return {"reference": value._reference}
    if kept is None:
        raise TypeError(f"cannot hand a {type(value).__name__} to the program")
    kept.append(value)
    return {"reference": len(kept) - 1}


def decode(value: Any, refer: Any) -> Any:
    """What `encode` was given. Makes nothing but built-in types and what `refer` gives for a reference."""
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag in _FROM_LIST:
        return _FROM_LIST[tag](decode(item, refer) for item in content)
    if tag == "dict":
        return {decode(key, refer): decode(item, refer) for key, item in content}
    return refer(content) if tag == "reference" else _FROM_TEXT[tag](content)


_VIEWS: tuple[type[Any], ...] = (type({}.keys()), type({}.values()), type({}.items()))
_SEQUENCES: dict[type[Any], str] = {
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    deque: "deque",
}
_FROM_LIST: dict[str, Callable[[Iterator[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
    "iterator": lambda items: iter(list(items)),
}
_AS_TEXT: dict[type[Any], str] = {
    bytes: "bytes",
    bytearray: "bytes",
    complex: "complex",
    Decimal: "decimal",
    Fraction: "fraction",
}
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "bytes": bytes.fromhex,
    "complex": complex,
    "decimal": Decimal,
    "fraction": Fraction,
}


def _run(source: str) -> dict[str, Any]:
    """Names that a program defines."""
    names: dict[str, Any] = {"__name__": "solution"}
    exec(compile(source, "program.py", "exec"), names)  # nosec B102  # in the sandbox (docs/security.md)
    return names


def _take_over(number: int) -> TextIO:
    """Standard stream `number` for ourselves; what is printed or read from now on goes nowhere."""
    mine = os.dup(number)
    try:
        null = os.open(os.devnull, os.O_WRONLY if number else os.O_RDONLY)
    except OSError:  # nothing may be opened for writing
        null = 2
    os.dup2(null, number)
    return os.fdopen(mine, "w" if number else "r")
