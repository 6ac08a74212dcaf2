"""Texts of the code, made safe for Markdown."""

import re

_CODE = re.compile(r"(`[^`]*`)")


def text(said: str) -> str:
    """Markdown of a docstring: no HTML outside of code."""
    parts = _CODE.split(said.strip())
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def cell(said: str) -> str:
    """The same on one line, for a table."""
    return " ".join(text(said).split()).replace("|", "\\|")
