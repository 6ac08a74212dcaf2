"""Writes the kill matrix of docs/reliability.md from docs/kill_matrix.json: `python scripts/chaos_doc.py [--check]`.

`make chaos ARGS='--json docs/kill_matrix.json'` measures it.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from doc_tables import main, table  # noqa: E402

from tests.chaos.parts import MOMENTS, PARTS  # noqa: E402

HEADS = {"launching": "while launching", "mid": "in mid-run", "finishing": "while finishing"}


def matrix() -> str:
    """A row for each part, a column for each moment."""
    cells = json.loads((ROOT / "docs" / "kill_matrix.json").read_text())
    rows = (
        [part.words, *(words(cells.get(f"{name} {moment}")) for moment in MOMENTS)]
        for name, part in PARTS.items()
    )
    return table(["killed", *(HEADS[moment] for moment in MOMENTS)], rows)


def words(cell: dict[str, Any] | None) -> str:
    """What came of one case."""
    if cell is None:
        return "not tried"
    if cell["skipped"]:
        return f"skipped: {cell['skipped']}"
    if not cell["passed"]:
        return f"**fails**: {cell['problems'][0]}"
    seen = "nothing to be seen"
    if cell["detected"] is not None:
        seen = f"seen after {cell['detected']:.1f} s"
        if cell["recovered"] is not None:
            seen += f", on again after {cell['recovered']:.1f} s"
    return f"{seen}{attempts(cell)}"


def attempts(cell: dict[str, Any]) -> str:
    """How the run went on, where it needed another attempt."""
    if cell["attempts"] == 1:
        return ""
    counts = {"by itself": cell["attempts"] - 1 - cell["by_hand"], "by hand": cell["by_hand"]}
    ways = (f"{way}, {count} times" if count > 1 else way for way, count in counts.items() if count)
    return f"; resumed {' and '.join(ways)}"


if __name__ == "__main__":
    sys.exit(main(ROOT / "docs" / "reliability.md", {"kill matrix": matrix}))
