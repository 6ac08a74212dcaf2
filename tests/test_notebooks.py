"""Every cell of the notebooks in docs runs against a real server. WRITE_NOTEBOOKS=1 keeps what they show."""

import os
from pathlib import Path

import pytest

from tests import notebook_cells as notebook
from tests.docs_server import read_server  # noqa: F401 (fixture)

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "notebooks"
MOST_BYTES = 150_000  # with its outputs


def test_runs_are_compared(read_server, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    path = FOLDER / "compare_runs.ipynb"
    found = notebook.load(path)
    names: dict = {}

    shown = notebook.run(found, names) if os.environ.get("WRITE_NOTEBOOKS") == "1" else _quickly(found, names)

    fits = {run["name"]: names["fits"][run["id"]] for run in names["runs"]}
    assert fits["CISPO"].params["A"] == pytest.approx(0.62, abs=0.02)
    assert fits["GRPO"].params["A"] == pytest.approx(0.55, abs=0.02)
    assert names["better"] == "CISPO"
    assert names["same"] is True
    figure = next(value for value in shown if value is not None)
    assert len(figure.data) == 2 * 4
    assert (tmp_path / "curves.csv").stat().st_size == names["size"]
    if os.environ.get("WRITE_NOTEBOOKS") == "1":
        notebook.save(found, path)


def _quickly(found, names):
    """The cells without pictures of what they show."""
    return [notebook.run_cell("".join(cell["source"]), names)[1] for cell in notebook.code_cells(found)]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.name)
def test_it_is_small_and_shows_its_outputs(path):
    found = notebook.load(path)

    assert path.stat().st_size < MOST_BYTES
    assert found["nbformat"] == 4
    kinds = {
        kind
        for cell in notebook.code_cells(found)
        for each in cell["outputs"]
        for kind in each.get("data", {})
    }
    assert "image/png" in kinds


def test_a_cell_says_what_it_printed_and_what_it_shows():
    assert notebook.run_cell("print(1)\n2 + 3", {}) == ("1\n", 5)
    assert notebook.run_cell("x = 1", {}) == ("", None)
    with pytest.raises(NameError):
        notebook.run_cell("nowhere", {})
