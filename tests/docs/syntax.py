"""Does a command of the docs exist, with its options, as the programs are today? Nothing is run."""

import argparse
import io
import re
from contextlib import redirect_stderr
from pathlib import Path

from tests.docs.commands import OF_PYTHON, Command
from tests.docs.pages import ROOT
from tests.docs.parsers import parsers

MAKEFILE = (ROOT / "Makefile").read_text()
FOREIGN = {"curl", "docker", "kubectl", "pip", "uv", "mkdir", "cp", "grep", "head", "test"}
INSTALLED = {"headroom": "headroom", "headroom-train": "training", "headroom-scaling": "scaling"}
OPTION = re.compile(r"--[a-z][a-z-]*")
# What trackers read that are not ours.
OF_OTHERS = {
    "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TAGS", "TRACKIO_SERVER_URL", "TRACKIO_WRITE_TOKEN",
}  # fmt: skip


def problem(command: Command) -> str:
    """What is wrong with it; empty where nothing is."""
    program, *rest = command.words
    if program in OF_PYTHON:
        return _of_python(command, rest)
    if program in ("manage.py", "headroom-server"):
        return _of_server(command, rest)
    if program in INSTALLED:
        return _of_program(command, INSTALLED[program], rest)
    if program == "make":
        return _of_make(rest)
    if program == "export":
        return _of_export(rest)
    if program == "bash" or "/" in program:
        return _of_script([program, *rest] if "/" in program else rest)
    assigned = re.fullmatch(r"([a-z]+)=.*", program)
    return "" if program in FOREIGN or assigned else f"no program that is known here: {program}"


def _of_python(command: Command, rest: list[str]) -> str:
    if rest[:1] == ["manage.py"]:
        return _of_server(command, rest[1:])
    if rest[:1] == ["-c"]:
        compile(rest[1], command.where, "exec")
        return ""
    if rest[:1] == ["-m"]:
        return _of_program(command, rest[1], rest[2:])
    return _of_script(rest)


def _of_server(command: Command, rest: list[str]) -> str:
    if not rest or rest == ["COMMAND"]:
        return ""
    name, *arguments = rest
    try:
        parser = parsers.command(name)
    except KeyError:
        return f"manage.py has no command {name}"
    return _parsed(command, parser, arguments)


def _of_program(command: Command, name: str, rest: list[str]) -> str:
    if name in parsers.PROGRAMS:
        return _parsed(command, parsers.program(name), rest)
    path = ROOT / (name.replace(".", "/") + ".py")
    shared = "".join(
        each.read_text() for each in path.parent.glob("*.py")
    )  # options that several of them add
    return _of_text(path, rest, shared)


def _of_script(rest: list[str]) -> str:
    return _of_text(ROOT / rest[0], rest[1:])


def _of_text(path: Path, rest: list[str], text: str = "") -> str:
    """A program of the repository without a parser at hand: its options stand in its text."""
    if not path.is_file():
        return f"there is no {path.relative_to(ROOT)}"
    text = text or path.read_text()
    if '"$@"' in text:  # hands its options on to a benchmark
        text += "".join(each.read_text() for each in (ROOT / "benchmarks").glob("*.py"))
    missing = [
        option for option in OPTION.findall(" ".join(rest)) if not re.search(rf"{option}(?![a-z-])", text)
    ]
    return f"{path.name} has no {', '.join(missing)}" if missing else ""


def _of_make(rest: list[str]) -> str:
    targets = [word for word in rest if "=" not in word]
    variables = [word.split("=")[0] for word in rest if "=" in word]
    missing = [name for name in targets if not re.search(rf"^{re.escape(name)}:", MAKEFILE, re.MULTILINE)]
    missing += [
        name for name in variables if f"$({name})" not in MAKEFILE and f"$(if $({name})" not in MAKEFILE
    ]
    return f"the Makefile has no {', '.join(missing)}" if missing else ""


def _of_export(rest: list[str]) -> str:
    from stack.variables import VARIABLES

    known = {variable.name for variable in VARIABLES} | OF_OTHERS
    unknown = [word.split("=")[0] for word in rest if word.split("=")[0] not in known]
    return f"nobody reads {', '.join(unknown)}" if unknown else ""


def _parsed(command: Command, parser: argparse.ArgumentParser, arguments: list[str]) -> str:
    """By the parser itself where the line can be typed; in a sentence by its options and its command."""
    if command.whole:
        said = io.StringIO()
        try:
            with redirect_stderr(said):
                parser.parse_args(arguments)
        except SystemExit as end:
            return "" if not end.code else said.getvalue().strip().splitlines()[-1]
        except Exception as error:  # Django's parsers raise CommandError
            return str(error)
        return ""
    inner = parsers.subparsers(parser)
    if inner and arguments and not arguments[0].startswith("-"):
        if arguments[0] not in inner:
            return f"no command {arguments[0]}"
        parser = inner[arguments[0]]
    known = {option for action in parser._actions for option in action.option_strings}
    unknown = [option for option in OPTION.findall(" ".join(arguments)) if option not in known]
    return f"no option {', '.join(unknown)}" if unknown else ""
