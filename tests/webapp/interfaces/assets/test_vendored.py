"""The prebuilt plotly.js: what is committed is what was fetched, and it draws what our scripts ask for.

That it draws is proved in a browser (tests/browser/test_assets.py).
"""

import hashlib
import json
import re
from pathlib import Path

import plotly
import pytest

from scripts.vendor_plotly import FOLDER, PINNED

BUNDLE = "plotly-cartesian.min.js"
TOLD = json.loads(PINNED.read_text())
TRACE = re.compile(r'moduleType:"trace",name:"(\w+)"')
TRACES = set(TRACE.findall((FOLDER / BUNDLE).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", TOLD["sha256"])
def test_files_are_those_that_were_fetched(name):
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == TOLD["sha256"][name]


def test_version_and_licence_are_said():
    assert f"v{TOLD['version']}" in (FOLDER / BUNDLE).read_text(encoding="utf-8")[:300]
    assert "Permission is hereby granted, free of charge" in (FOLDER / "plotly-LICENSE.txt").read_text()


def test_every_trace_that_our_scripts_ask_for_is_in_it():
    """Of all that plotly.js knows, which the wheel has, against what our scripts ask for by `type: "..."`."""
    whole = Path(plotly.__file__).parent / "package_data/plotly.min.js"
    known = set(TRACE.findall(whole.read_text(encoding="utf-8")))
    scripts = (FOLDER.parent / "js").glob("*.js")
    asked = {name for path in scripts for name in re.findall(r'\btype: "(\w+)"', path.read_text())}

    assert {"scatter", "bar", "heatmap"} <= TRACES < known
    assert asked & known <= TRACES
