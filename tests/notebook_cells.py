"""A notebook without Jupyter: its cells run in order, and what they print and show becomes their outputs.

Charts are kept as small PNGs, so that the file shows them anywhere. tests/test_notebooks.py uses it, and with
WRITE_NOTEBOOKS=1 writes the outputs back.
"""

import ast
import base64
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def load(path: Path) -> Json:
    return json.loads(path.read_text())


def save(notebook: Json, path: Path) -> None:
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def code_cells(notebook: Json) -> list[Json]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: Json, names: Json) -> list[Any]:
    """Run every code cell in `names`; what the last expression of each is. Outputs are put into the cells.

    Raises whatever a cell raises.
    """
    shown = []
    for number, cell in enumerate(code_cells(notebook), start=1):
        said, value = run_cell("".join(cell["source"]), names)
        cell["execution_count"] = number
        cell["outputs"] = _outputs(said, value, number)
        shown.append(value)
    return shown


def run_cell(source: str, names: Json) -> tuple[str, Any]:
    """(what it printed, its last expression or None)"""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = (
            eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last is not None else None
        )
    return printed.getvalue(), value


def _outputs(said: str, value: Any, number: int) -> list[Json]:
    found: list[Json] = []
    if said:
        found.append({"name": "stdout", "output_type": "stream", "text": said.splitlines(keepends=True)})
    if value is not None:
        data: Json = {"text/plain": [type(value).__name__ if hasattr(value, "to_image") else repr(value)]}
        if hasattr(value, "to_image"):
            data["image/png"] = base64.b64encode(value.to_image("png", width=760, height=420)).decode()
        found.append(
            {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        )
    return found
