"""The argument parsers of every program of ours, and of every `manage.py` command of ours."""

import argparse
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {"headroom": "headroom.__main__", "training": "training.__main__", "scaling": "scaling.cli"}

Parser = argparse.ArgumentParser


def program(name: str) -> Parser:
    """The parser of `python -m NAME`. KeyError for a program that is none of PROGRAMS."""
    return import_module(PROGRAMS[name])._parser()


def command_names() -> list[str]:
    """The commands of `manage.py` that this repository adds, by name."""
    found = (path.stem for path in ROOT.glob("webapp/**/management/commands/*.py"))
    return sorted(name for name in found if not name.startswith("_"))


def command(name: str) -> Parser:
    """The parser of `manage.py NAME`, Django's own commands too. Django must have been set up.

    Raises KeyError for a command that does not exist.
    """
    from django.core.management import get_commands, load_command_class

    return load_command_class(get_commands()[name], name).create_parser("manage.py", name)


def subparsers(parser: Parser) -> dict[str, Parser]:
    """The commands of a program by name, in its order; empty where it has none."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def summaries(parser: Parser) -> dict[str, str]:
    """What a program says of each of its commands in one line."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {each.dest: each.help or "" for each in found[0]._choices_actions} if found else {}
