"""Relative links of README.md, CONTRIBUTING.md, CHANGELOG.md and docs/ lead somewhere, and rows stand in tables."""

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, inlines, links, name_of, slug


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_and_their_anchors_resolve(page):
    broken = [f"{link.where}: {link.target}" for link in links(page) if not resolves(page, link.target)]

    assert broken == []


def resolves(page: Path, target: str) -> bool:
    if target.startswith(("http://", "https://", "mailto:")):
        return True
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    if not found.exists() or ROOT not in (found, *found.parents):
        return False
    return not anchor or (found.suffix == ".md" and anchor in anchors(found))


@pytest.mark.parametrize(
    "target", ["nothing.md", "log.md#nothing", "#nothing", "../../../etc/passwd", "/docs/log.md"]
)
def test_a_link_that_leads_nowhere_is_found(target):
    assert not resolves(ROOT / "docs" / "runs.md", target)


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Is it well?", "is-it-well"),
        ("Page, API, command line", "page-api-command-line"),
        ("One's own file", "ones-own-file"),
    ],
)
def test_a_heading_is_named_as_github_does(heading, name):
    assert slug(heading) == name


def test_there_are_links_to_look_at():
    assert sum(len(links(page)) for page in PAGES) > 200


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_row_has_lost_its_table(page):
    """An empty line ends a table: what follows is text with bars in it."""
    assert [line for line, token in inlines(page) if token.content.startswith("|")] == []
