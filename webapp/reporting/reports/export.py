"""A report as one HTML file that needs nothing else: styles inside, charts as SVG, no script, no outside reference.

Links that people wrote stay links; a path of this server becomes its full address. Import this where a file is made
(`webapp.reporting.shares.picture`).
"""

import re
from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.template.loader import render_to_string

from webapp.reporting.reports.selectors import Version
from webapp.reporting.shares.drawing import Drawing, values_of
from webapp.reporting.shares.picture import svg_of

OWN_LINK = re.compile(r'(<a [^>]*?href=")(/[^"]*")')
STYLES = ("css/tokens.css", "css/report-file.css")


def html_of(version: Version, byline: Sequence[str], moment: datetime, base: str) -> str:
    """The file. byline: lines below the title; moment: when the numbers were read; base: the server's own address, for
    links to its paths ("https://host")."""
    rows = []
    for part in version.parts:
        block = part.block
        drawing = Drawing.from_json(block["drawing"]) if block and block["kind"] == "chart" else None
        chart = {"svg": svg_of(drawing), "values": values_of(drawing)} if drawing else {}
        rows.append({"html": absolute(part.html, base), "block": block, "changed": part.changed, **chart})
    context = {"version": version, "rows": rows, "byline": byline, "moment": moment, "styles": styles()}
    return render_to_string("reports/file.html", context)


def absolute(html: str, base: str) -> str:
    """Sanitised HTML whose links to own paths name the server."""
    return OWN_LINK.sub(lambda found: f"{found[1]}{base}{found[2]}", html)


def styles() -> str:
    """The tokens and the rules of the file, as the text of a style element."""
    folder = settings.BASE_DIR / "static"
    return "\n".join((folder / name).read_text() for name in STYLES)
