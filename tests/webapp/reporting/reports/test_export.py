"""Reports as files: HTML that needs nothing else, and a PDF whose text, links and pages are read back."""

import re
import zlib
from html.parser import HTMLParser

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.deep import examples
from tests.webapp.reporting.reports.conftest import block
from tests.webapp.reporting.reports.test_sanitising import VECTORS
from webapp.base.tokens import colours
from webapp.reporting.reports import fonts
from webapp.reporting.reports.export import html_of
from webapp.reporting.reports.fonts import Faces
from webapp.reporting.reports.pdf import pdf_of
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
            "use",
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
            "style",
        )
        self.found += [
            (tag, name, value) for name, value in attrs if name in fetching or name.startswith("on")
        ]


def test_the_html_file_refers_to_nothing_outside(version):
    html = html_of(version, ["A draft."], timezone.now(), BASE)

    assert References(html).found == []
    assert re.findall(r"@import|url\((?!#clip-\d+\))", html) == []
    assert "default-src &#x27;none&#x27;" in html or "default-src 'none'" in html
    assert html.count("<svg") == 2
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


class Pdf:
    """As much of a PDF as its text needs: streams, the font's map from glyphs to characters, links, pages."""

    def __init__(self, data):
        assert data.startswith(b"%PDF-1.")
        assert data.rstrip().endswith(b"%%EOF")
        self.data = data
        streams = [
            self._inflated(one) for one in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", data, re.DOTALL)
        ]
        self.maps = [one for one in streams if b"begincmap" in one]
        self.contents = [one for one in streams if b" Tj" in one or b" re W n" in one or b"] TJ" in one]
        self.pages = len(re.findall(rb"/Type /Page\b(?!s)", data))
        self.links = [one.decode() for one in re.findall(rb"/URI \(([^)]*)\)", data)]

    @staticmethod
    def _inflated(raw):
        try:
            return zlib.decompress(raw)
        except zlib.error:
            return raw

    @property
    def text(self):
        """Every word in any of the fonts: each string is read by the map that has all of its glyphs."""
        return self._words(b"\n".join(self.contents))

    def words_in(self, content):
        """The words of one page, without spaces."""
        return self._words(content).replace(" ", "").replace("\n", "")

    def _words(self, content):
        tables = [self._table(one) for one in self.maps]
        said = []
        for raw in re.findall(rb"\((.*?)(?<!\\)\) Tj", content, re.DOTALL):
            glyphs = self._glyphs(raw)
            said.append([("".join(t.get(g, "�") for g in glyphs)) for t in tables])
        return "\n".join("\t".join(one) for one in said)

    @staticmethod
    def _table(cmap):
        pairs = re.findall(rb"<([0-9A-Fa-f]{4})> <([0-9A-Fa-f]+)>", cmap)
        return {int(a, 16): bytes.fromhex(b.decode()).decode("utf-16-be") for a, b in pairs}

    @staticmethod
    def _glyphs(raw):
        plain = re.sub(
            rb"\\([()\\nrt])", lambda m: {b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(m[1], m[1]), raw
        )
        return [int.from_bytes(plain[at : at + 2], "big") for at in range(0, len(plain), 2)]


@pytest.fixture(params=["DejaVu", "Pillow's own"])
def font(request, monkeypatch):
    """With the font of the system, and as on a machine without it."""
    if request.param == "DejaVu" and not fonts.faces().wide:
        pytest.skip("this machine has no DejaVu Sans")
    if request.param != "DejaVu":
        plain = fonts._pillows_own()
        poor = Faces(dict.fromkeys(fonts.STYLES, plain), plain, wide=False)
        monkeypatch.setattr("webapp.reporting.reports.pdf.faces", lambda: poor)
    return request.param


def test_the_pdf_has_the_words_links_and_pages(version, font):
    pdf = Pdf(pdf_of(version, ["Version 1, published by ada."], timezone.now(), BASE))

    words = pdf.text.replace(" ", "")
    for piece in (
        "Whereitbends",
        "Whatbends",
        "Loss",
        "published",
        "Device-hours",
        "Headroom,page1",
        "quoted",
    ):
        assert piece in words, piece
    assert ("αβγ" in words) == (font == "DejaVu")
    assert set(pdf.links) == {f"{BASE}/runs/abc", "https://arxiv.org/abs/2510.13786"}
    assert pdf.pages >= 2
    assert pdf.data.count(b"/Subtype /Image") == 0  # charts are vectors


def test_a_long_report_breaks_over_pages(project, db):
    long = draft_version(project, "Long", "\n\n".join(f"Paragraph {n}. " + "word " * 80 for n in range(80)))

    assert Pdf(pdf_of(long, [], timezone.now(), BASE)).pages > 8


@pytest.mark.parametrize("lines", range(30, 52, 2))
def test_a_heading_stands_on_the_page_of_the_chart_below_it(make_run, project, lines):
    run = make_run(16, name="ScaleRL")
    text = "\n\n".join(
        ["word"] * lines + ["~~struck~~", "## Above the chart", block(chart="run", run=run.pk)]
    )

    pdf = Pdf(pdf_of(draft_version(project, "Long", text), [], timezone.now(), BASE))

    pages = [pdf.words_in(one) for one in pdf.contents]
    assert ["Abovethechart" in one for one in pages] == ["Device-hours" in one for one in pages]


PIECES = (
    "# a\n\n", "- x\n", "  - y\n", "    1. z\n", "> q\n", "> > r\n", "```\ncode\n```\n", "|a|b|\n|-|-|\n|1|\n\n",
    "**b *i***", "[l](/x)", "[l](#y)", "---\n\n", "\n\n", "`c`", "a  \nb", "\t", "999999999. n\n", "&amp;",
)  # fmt: skip
MARKDOWN = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=20)


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(MARKDOWN)
def test_any_markdown_makes_a_pdf_and_a_file(project, pieces):
    version = draft_version(project, "Any", "".join(pieces))

    assert Pdf(pdf_of(version, [], timezone.now(), BASE)).pages >= 1
    assert References(html_of(version, [], timezone.now(), BASE)).found == []


def test_the_cells_of_a_table_below_a_chart_are_not_filled_with_its_colours(version):
    pdf = Pdf(pdf_of(version, ["A draft."], timezone.now(), BASE))

    assert _fills(b"\n".join(pdf.contents)) <= {"1", "1 1 1"} | _grounds()


def _fills(content):
    """The colours that rectangles are filled with; q and Q keep and restore the colour in force."""
    found, colour, kept = set(), "", []
    for token in re.finditer(rb"([\d.]+(?: [\d.]+ [\d.]+)?) (?:rg|g)\b|\bre (?:f|B)\b|\bq\b|\bQ\b", content):
        if token[1]:
            colour = token[1].decode()
        elif token[0] == b"q":
            kept.append(colour)
        elif token[0] == b"Q":
            colour = kept.pop()
        else:
            found.add(colour)
    return found


def _grounds():
    """The light token of sunken grounds as a PDF writes it."""
    sunk = colours("light")["sunk"]
    return {
        " ".join(f"{int(sunk[at : at + 2], 16) / 255:.{digits}f}" for at in (1, 3, 5)) for digits in (2, 3, 4)
    }
