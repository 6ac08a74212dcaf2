"""Docs and types that repeat the code are written by it."""

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


@pytest.mark.parametrize(
    "script",
    [
        "recipes_doc",
        "alarms_doc",
        "settings_doc",
        "permissions_doc",  # the tables of permissions
        pytest.param("findings_doc", marks=pytest.mark.deep),  # what the corpus says
        "chaos_doc",  # the kill matrix as it was measured
        "api_types",  # the types of the read client
    ],
)
def test_what_is_written_is_what_the_code_says(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: one of its own takes two seconds to import what is here already."""
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--check"])

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPTS / f"{script}.py"), run_name="__main__")

    assert not ended.value.code, f"run: python scripts/{script}.py"
