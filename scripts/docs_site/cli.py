"""The page of the command line, written from the parsers themselves."""

import argparse
from collections.abc import Iterator

from doc_tables import table

from docs_site import parsers

TITLES = {
    "scaling": "Fits alone, numpy and scipy only. Where the wheel is installed: `headroom-scaling`.",
    "training": "Training alone, without a server. Where the wheel is installed: `headroom-train`.",
    "headroom": "The tracking client. Where the wheel is installed: `headroom`.",
}
OF_DJANGO = {
    "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks",
}  # fmt: skip


def page() -> str:
    """Markdown. Django must have been set up."""
    parts = ["# Command line\n\nWritten from the programs' own parsers when this site was built.\n"]
    for name, says in TITLES.items():
        parts += _program(name, says)
    parts += [
        "## python manage.py\n",
        "The server, from a checkout. Where the wheel is installed: `headroom-server`. Each command also takes "
        "Django's own options (`--verbosity`, `--traceback`, …); Django's own commands are left out.\n",
    ]
    for name in parsers.command_names():
        parser = parsers.command(name)
        parts += _command(f"manage.py {name}", parser, parser.description or "")
    return "\n".join(parts)


def _program(name: str, says: str) -> Iterator[str]:
    parser = parsers.program(name)
    summaries = parsers.summaries(parser)
    yield f"## python -m {name}\n"
    yield f"{says}\n"
    for each, inner in parsers.subparsers(parser).items():
        yield from _command(f"{name} {each}", inner, inner.description or summaries.get(each, ""))


def _command(title: str, parser: parsers.Parser, says: str) -> Iterator[str]:
    yield f"### {title}\n"
    if says:
        yield f"{says[0].upper()}{says[1:].rstrip('.')}.\n"
    rows = [_row(parser, action) for action in parser._actions if action.dest not in OF_DJANGO]
    if rows:
        yield table(["argument", "takes", "without it", "meaning"], rows)


def _row(parser: parsers.Parser, action: argparse.Action) -> list[str]:
    names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
    return [names, _takes(action), _default(action), _help(parser, action)]


def _takes(action: argparse.Action) -> str:
    """The values that are accepted, in words."""
    if action.nargs == 0:
        return "nothing"
    if action.choices:
        return ", ".join(f"`{choice}`" for choice in action.choices)
    several = {"*": "any number of ", "+": "one or more ", "?": "at most one "}.get(str(action.nargs), "")
    word = {"int": "whole number", "float": "number", "Path": "path"}.get(
        getattr(action.type, "__name__", "")
    )
    return several + (word or str(action.metavar or "text"))


def _default(action: argparse.Action) -> str:
    if action.required:
        return "required"
    if not action.option_strings or action.nargs == 0 or action.default in (None, "", [], argparse.SUPPRESS):
        return "–"
    value = action.default
    return ", ".join(f"`{each}`" for each in value) if isinstance(value, list | tuple) else f"`{value}`"


def _help(parser: parsers.Parser, action: argparse.Action) -> str:
    text = (action.help or "") % (vars(action) | {"prog": parser.prog})
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
