"""Writes the tables of docs/settings.md from the code: `python scripts/settings_doc.py [--check]`."""

import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from doc_tables import main, table  # noqa: E402

from stack import variables  # noqa: E402

TABLES = {
    "parts": variables.PARTS,
    "web": variables.WEB,
    "mail": variables.MAIL,
    "openid": variables.OPENID,
    "cluster": variables.CLUSTER,
    "limits": variables.LIMITS,
    "watching": variables.WATCHING,
    "client": variables.CLIENT,
}


def group_table(group: str) -> str:
    """Each variable of a group, what it means, what values it takes, and what holds without it."""
    rows = (
        [f"`{each.name}`", each.meaning, takes(each), each.default or "–"]
        for each in variables.VARIABLES
        if each.group == group
    )
    return table(["variable", "meaning", "takes", "without it"], rows)


def takes(variable: variables.Variable) -> str:
    """The values that are accepted, in words."""
    if variable.choices:
        return ", ".join(f"`{choice}`" for choice in variable.choices)
    if variable.kind == "flag":
        return "`1` or `0`"
    words = {
        "list": "names with commas",
        "integer": "a whole number",
        "number": "a number",
        "secret": "a secret",
    }
    least = "" if variable.least is None else f", at least {variable.least:g}"
    return words.get(variable.kind, f"a {variable.kind}" if variable.kind != "url" else "an address") + least


if __name__ == "__main__":
    tables = {name: partial(group_table, group) for name, group in TABLES.items()}
    sys.exit(main(ROOT / "docs" / "settings.md", tables))
