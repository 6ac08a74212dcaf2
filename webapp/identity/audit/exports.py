"""The audit log as files: CSV for spreadsheets, JSONL for programs; both line by line."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from webapp.base.spreadsheets import lines
from webapp.identity.audit.selectors import COLUMNS


def csv_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """With a header; `detail` as JSON. No text becomes a formula in a spreadsheet."""
    yield lines([COLUMNS])
    for row in rows:
        cells = row | {"detail": json.dumps(row["detail"], ensure_ascii=False)}
        yield lines([[cells[name] for name in COLUMNS]])


def jsonl_lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """An object a line."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"
