"""Commands as the pages have them: lines of blocks marked `sh`, blocks of Python, and commands inside sentences."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tests.docs.pages import PAGES, fences, inlines, name_of

STOPS = {">", ">>", "|", "<", "&&", "||", ";"}
PROGRAMS = (
    "make",
    "python",
    "manage.py",
    "headroom",
    "headroom-server",
    "headroom-train",
    "headroom-scaling",
)
OF_PYTHON = ("python", "python3", ".venv/bin/python")


@dataclass(frozen=True)
class Command:
    """One command. `text`: without its comment, on one line. `whole`: a line of a block, to be typed as it stands."""

    page: str
    line: int
    text: str
    whole: bool

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def words(self) -> list[str]:
        """Program and arguments, up to a pipe or a redirection."""
        words = shlex.split(self.text)
        ends = [number for number, word in enumerate(words) if word in STOPS]
        return words[: ends[0]] if ends else words


def of_blocks() -> list[Command]:
    """Every line of every block of shell, joined where it goes on in the next one."""
    return [
        Command(name_of(page), number, text, whole=True)
        for page in PAGES
        for fence in fences(page)
        if fence.language == "sh"
        for number, text in logical_lines(fence.text, fence.line)
    ]


def of_python() -> dict[str, list[str]]:
    """Page -> its blocks of Python, in their order; only pages that have some."""
    found = ((name_of(page), [f.text for f in fences(page) if f.language == "python"]) for page in PAGES)
    return {page: texts for page, texts in found if texts}


def of_sentences() -> list[Command]:
    """Commands in code spans that begin with a program of ours, such as `python manage.py doctor`."""
    return [
        Command(name_of(page), line, span.content, whole=False)
        for page in PAGES
        for line, span in inlines(page)
        if span.type == "code_inline" and _is_command(span.content)
    ]


def logical_lines(text: str, first: int) -> Iterator[tuple[int, str]]:
    """(number, line) with continued lines joined, comments and empty lines left out."""
    held, begun = "", first
    for number, line in enumerate(text.splitlines(), start=first):
        begun = begun if held else number
        held += line
        if held.endswith("\\"):
            held = held[:-1].rstrip() + " "
            continue
        whole = re.sub(r"(^|\s+)#\s.*$", "", held)
        held = ""
        if whole.strip():
            yield begun, " ".join(whole.split())


def _is_command(span: str) -> bool:
    program, _, rest = span.partition(" ")
    if program in OF_PYTHON:
        return rest.startswith(("manage.py ", "-m ", "scripts/"))
    return bool(rest) and program in PROGRAMS and not re.search(r"[│\[]$", span)
