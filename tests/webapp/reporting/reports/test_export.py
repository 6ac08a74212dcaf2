"""Reports as files: HTML that needs nothing else."""

import re
from html.parser import HTMLParser

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.deep import examples
from tests.webapp.reporting.reports.conftest import block
from tests.webapp.reporting.reports.test_sanitising import VECTORS
from webapp.reporting.reports.export import html_of
from webapp.reporting.reports.selectors import draft_version

BASE = "https://headroom.example"
TEXT = """## What bends

The ceiling is **known**, see [the run](/runs/abc) and [the paper](https://arxiv.org/abs/2510.13786).

- one
- two
  1. three

| Choice | Kept |
|---|--:|
| Loss | 1.5 |

> quoted

`code`, αβγ, Ω – ✓

"""


@pytest.fixture
def version(make_run, project):
    run, other = make_run(16, name="ScaleRL"), make_run(12, a=0.5, seed=1, name="GRPO")
    blocks = [
        block(chart="run", run=run.pk, cutoff=4, caption="Fitted to half."),
        block(chart="compare", runs=f"{run.pk}, {other.pk}"),
        block(table="leaderboard"),
        block(table="parameters", run=run.pk),
        block(number="ceiling", run=run.pk),
        block(number="forecast", run="gone"),
    ]
    return draft_version(project, "Where it bends", TEXT + "\n\n".join(blocks))


class References(HTMLParser):
    """What a browser would fetch or run."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag in (
            "script",
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "source",
            "image",
            "base",
            "form",
        ):
            self.found.append(tag)
        fetching = (
            "src",
            "srcset",
            "xlink:href",
            "data",
            "poster",
            "action",
            "formaction",
            "background",
        )
        self.found += [
            (tag, name, value)
            for name, value in attrs
            if (name in fetching and not value.startswith("#"))
            or name.startswith("on")
            or (name == "style" and "url(" in value.replace("url(#", ""))
        ]


def test_the_html_file_refers_to_nothing_outside(version):
    html = html_of(version, ["A draft."], timezone.now(), BASE)

    assert References(html).found == []
    assert re.findall(r"@import|url\((?!#\w+\))", html) == []
    assert "default-src &#x27;none&#x27;" in html or "default-src 'none'" in html
    assert html.count("<svg") == 2 and html.count("var(--c1)") > 2
    assert "Held-out pass rate" in html and "Device-hours" in html
    assert (
        re.findall(r'aria-details="(values-\d+)"', html)
        == re.findall(r'<details id="(values-\d+)"', html)
        != []
    )
    assert f'href="{BASE}/runs/abc"' in html
    assert "there is no run gone in this project" in html
    assert "<h2>What bends</h2>" in html
    assert timezone.now().strftime("%B %Y") in html


@pytest.mark.parametrize("vector", VECTORS)
def test_no_attack_gets_into_the_file(vector, project):
    hostile = draft_version(
        project, vector[:160], f"{vector}\n\n{block(number='ceiling', run='x', caption='<b onx=1>')}"
    )

    html = html_of(hostile, [vector], timezone.now(), BASE)

    assert References(html).found == []


PIECES = (
    "# a\n\n", "- x\n", "  - y\n", "    1. z\n", "> q\n", "> > r\n", "```\ncode\n```\n", "|a|b|\n|-|-|\n|1|\n\n",
    "**b *i***", "[l](/x)", "[l](#y)", "---\n\n", "\n\n", "`c`", "a  \nb", "\t", "999999999. n\n", "&amp;",
)  # fmt: skip
MARKDOWN = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=20)


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(MARKDOWN)
def test_any_markdown_makes_a_file(project, pieces):
    version = draft_version(project, "Any", "".join(pieces))

    assert References(html_of(version, [], timezone.now(), BASE)).found == []
