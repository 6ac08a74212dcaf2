"""Files of others: what is committed is what was fetched, and plotly.js draws what our scripts ask for.

That they draw is proved in a browser (tests/browser/test_assets.py, test_samples.py).
"""

import hashlib
import json
import re
from pathlib import Path

import plotly
import pytest

from scripts.vendor import FILES, FOLDER, PINNED

BUNDLE = "plotly-cartesian.min.js"
TOLD = json.loads(PINNED.read_text())
TRACE = re.compile(r'moduleType:"trace",name:"(\w+)"')
TRACES = set(TRACE.findall((FOLDER / BUNDLE).read_text(encoding="utf-8")))


@pytest.mark.parametrize("package", FILES)
def test_files_are_those_that_were_fetched(package):
    for name, digest in TOLD[package]["sha256"].items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest


def test_nothing_else_is_there():
    told = {name for package in TOLD.values() for name in package["sha256"]}
    assert {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.*")} == told | {PINNED.name}


def test_versions_and_licences_are_said():
    said = {"plotly.js-cartesian-dist-min": BUNDLE, "katex": "katex/katex.min.js"}
    for package, script in said.items():
        version = TOLD[package]["version"]
        assert re.search(
            rf'(v|version[:=]"){re.escape(version)}', (FOLDER / script).read_text(encoding="utf-8")
        )
    for licence in FOLDER.rglob("*LICENSE.txt"):
        assert "Permission is hereby granted, free of charge" in licence.read_text()


def test_every_trace_that_our_scripts_ask_for_is_in_it():
    """Of all that plotly.js knows, which the wheel has, against what our scripts ask for by `type: "..."`."""
    whole = Path(plotly.__file__).parent / "package_data/plotly.min.js"
    known = set(TRACE.findall(whole.read_text(encoding="utf-8")))
    scripts = (FOLDER.parent / "js").glob("*.js")
    asked = {name for path in scripts for name in re.findall(r'\btype: "(\w+)"', path.read_text())}

    assert {"scatter", "bar", "heatmap"} <= TRACES < known
    assert asked & known <= TRACES
