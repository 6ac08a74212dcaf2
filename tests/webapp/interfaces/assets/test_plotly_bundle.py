"""plotly.js without the traces that no page draws. That it draws is proved in a browser (tests/browser)."""

import re
from pathlib import Path

import plotly
import pytest

from webapp.interfaces.assets.javascript import NotUnderstood, statements
from webapp.interfaces.assets.plotly_bundle import KEPT, small_bundle

WHOLE = (Path(plotly.__file__).parent / "package_data/plotly.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def small():
    return small_bundle(WHOLE)


def test_it_is_a_third_of_the_whole_and_keeps_the_licences(small):
    assert len(small) < 0.4 * len(WHOLE)
    assert small.startswith(WHOLE[:200])
    assert small.endswith(WHOLE[-1500:])


def test_it_has_the_traces_that_are_kept_and_no_others(small):
    assert all(f'moduleType:"trace",name:"{name}"' in small for name in KEPT)
    for name in ("scattermap", "scatter3d", "sankey", "choropleth"):
        assert f'moduleType:"trace",name:"{name}"' not in small


def test_a_script_that_is_built_otherwise_is_refused():
    with pytest.raises(NotUnderstood):
        small_bundle("window.Plotly = {}")
    with pytest.raises(NotUnderstood, match="spaceship"):
        small_bundle(WHOLE, {"scatter", "spaceship"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("var a=1;var b=2;", ["var a=1;", "var b=2;"]),
        ("function f(){return 1}var b=f();", ["function f(){return 1}", "var b=f();"]),
        ("var a=W((e,t)=>{x;y});b();", ["var a=W((e,t)=>{x;y});", "b();"]),
        ("var a=\"};\";var b=';';", ['var a="};";', "var b=';';"]),
        ("var a=/[;/]};/g;var b=2/a;c=1/2;", ["var a=/[;/]};/g;", "var b=2/a;", "c=1/2;"]),
        ("var a=()=>{return/;/.test(b)};c();", ["var a=()=>{return/;/.test(b)};", "c();"]),
        ("var a=`;${b+`${c};`};`;d();", ["var a=`;${b+`${c};`};`;", "d();"]),
        ("/* ; */a();// ;\nb();", ["/* ; */a();", "// ;\nb();"]),
    ],
)
def test_statements(text, expected):
    assert [text[a:b] for a, b in statements(text, 0, len(text))] == expected


@pytest.mark.parametrize("text", ["var a=(1;", "var a=1);", "var a=`b;"])
def test_brackets_that_do_not_match_are_refused(text):
    with pytest.raises(NotUnderstood):
        list(statements(text, 0, len(text)))


def test_no_script_draws_a_trace_that_is_left_out():
    """Every trace that plotly.js knows, against what our scripts ask for by `type: "..."`."""
    known = set(re.findall(r'moduleType:"trace",name:"(\w+)"', WHOLE))
    scripts = Path(__file__).parents[4] / "static/js"
    asked = {
        name for path in scripts.glob("*.js") for name in re.findall(r'\btype: "(\w+)"', path.read_text())
    }

    assert known > KEPT
    assert asked & known <= KEPT, "add it to KEPT in webapp/interfaces/assets/plotly_bundle.py"
