"""Reading reports: lists, one version as parts that can be drawn, and what changed between texts."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from webapp.base.errors import first_of
from webapp.identity.accounts.models import Project, User
from webapp.reporting.reports import document, resolve
from webapp.reporting.reports.models import Draft, Publication, Report
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.selectors import shares_of

CONTEXT_LINES = 3


@dataclass(frozen=True)
class Shown:
    """One part of a report: prose as sanitised HTML, or a block. changed: it says something else by now."""

    html: str = ""
    block: resolve.Payload | None = None
    number: int = 0  # of the block, from 1
    changed: bool = False

    @property
    def drawing_id(self) -> str:
        """The id of the element that has its chart's data."""
        return f"drawing-{self.number}"


@dataclass(frozen=True)
class Version:
    """A report as it is read: a draft, or a published version with live or with frozen numbers."""

    title: str
    parts: list[Shown]
    publication: Publication | None = None
    is_frozen: bool = False
    problems: list[resolve.Payload] = field(default_factory=list)

    @property
    def blocks(self) -> list[resolve.Payload]:
        return [part.block for part in self.parts if part.block is not None]

    @property
    def has_charts(self) -> bool:
        return any(block["kind"] == "chart" for block in self.blocks)

    @property
    def changed(self) -> int:
        """How many blocks say something else than when it was published."""
        return sum(part.changed for part in self.parts)


def draft_version(project: Project, title: str, text: str) -> Version:
    """A text with live numbers."""
    parts = list(_parts(project, text, None, live=True))
    return Version(title, parts, problems=[b for p in parts if (b := p.block) and b["kind"] == "problem"])


def published_version(project: Project, publication: Publication, *, live: bool | None = None) -> Version:
    """A published version; `live` None is as its author chose. With live numbers each block that changed says so."""
    live = publication.is_live if live is None else live
    parts = list(_parts(project, publication.text, publication.frozen, live=live))
    return Version(publication.title, parts, publication, is_frozen=not live)


def _parts(
    project: Project, text: str, frozen: Sequence[resolve.Payload] | None, *, live: bool
) -> Iterator[Shown]:
    number = 0
    for part in document.read(text):
        if isinstance(part, document.Prose):
            yield Shown(html=document.html_of(part))
            continue
        number += 1
        then = frozen[number - 1] if frozen and number <= len(frozen) else None
        now = resolve.shown(project, part) if live or then is None else None
        block = now if now is not None else then
        changed = now is not None and then is not None and resolve.digest(now) != resolve.digest(then)
        yield Shown(block=block, number=number, changed=changed)


def ask_of(block_text: str) -> document.Ask | None:
    """The one block of a text, if it is one and can be read."""
    found = [part for part in document.read(block_text) if isinstance(part, document.Ask)]
    return found[0] if len(found) == 1 else None


def listed(project: Project, *, archived: bool = False) -> QuerySet[Any]:
    """Reports of a project, the newest first, each with `version`, `published_at` and `published_title` (or None)."""
    newest = Publication.objects.filter(report=OuterRef("pk"), withdrawn_at=None).order_by("-number")
    rows = Report.objects.filter(project=project, archived_at__isnull=not archived).defer("text")
    rows = rows.annotate(
        version=Subquery(newest.values("number")[:1]),
        published_at=Subquery(newest.values("published_at")[:1]),
        published_title=Subquery(newest.values("title")[:1]),
        published_authors=Subquery(newest.values("authors")[:1]),
        published_text=Exists(newest.filter(text=OuterRef("text"), title=OuterRef("title"))),
    )
    return rows.select_related("created_by", "saved_by").order_by("-saved_at", "id")


def written_by(rows: QuerySet[Any], user: User) -> set[str]:
    """Which of these the user wrote at. One query."""
    mine = Draft.objects.filter(report__in=rows.values("pk"), author=user)
    return set(mine.values_list("report_id", flat=True))


def report_by_id(project: Project, key: str) -> Report:
    """A report of this project. Raises NotFound, also for one of another project."""
    rows = Report.objects.select_related("project", "created_by", "saved_by")
    return first_of(rows.filter(project=project, pk=key), f"There is no report {key}.")


def publication_of(report: Report, number: int | None = None) -> Publication | None:
    """A published version that was not withdrawn: the newest, or the one with this number."""
    rows = report.publications.filter(withdrawn_at=None).select_related("published_by")
    return rows.filter(number=number).first() if number is not None else rows.first()


def report_of_link(share: Share) -> Report | None:
    """The report that a link shows; None where it was deleted."""
    rows = Report.objects.select_related("project")
    return rows.filter(project=share.project_id, pk=share.question["report"]).first()


def links_of(report: Report) -> QuerySet[Share]:
    """Every link to a report, the newest first."""
    return shares_of(report.project).filter(kind=Share.Kind.REPORT, question__report=report.pk)


@dataclass(frozen=True)
class Change:
    """One line of a difference; `kind`: "same", "added", "removed" or "place" (where in the text)."""

    kind: str
    text: str


def differences(before: str, after: str) -> list[Change]:
    """The lines in which two texts differ, with some lines around them; empty where they are the same."""
    rows = difflib.unified_diff(before.split("\n"), after.split("\n"), n=CONTEXT_LINES, lineterm="")
    kinds = {"+": "added", "-": "removed", " ": "same"}
    return [
        Change(kinds[row[0]], row[1:]) if row[0] in kinds else Change("place", row) for row in list(rows)[2:]
    ]


@dataclass(frozen=True)
class Step:
    """One entry of a report's history, newest first, with what it changed against the one before."""

    what: str  # draft, aside or version
    who: str
    when: Any
    changes: list[Change]
    row: Draft | Publication


MOST_STEPS = 60


def history(report: Report) -> list[Step]:
    """Versions and drafts in the order of time; each is compared with the last of its own kind. Two queries."""
    drafts = list(report.drafts.select_related("author").order_by("-saved_at", "-pk")[: MOST_STEPS + 1])
    versions = list(report.publications.select_related("published_by", "withdrawn_by"))
    in_order = [one for one in drafts if not one.aside]
    steps = [
        Step("draft", one.author.username, one.saved_at, _since(before, one), one)
        for one, before in zip_longest(in_order, in_order[1:])
    ][:MOST_STEPS]
    steps += [
        Step("aside", one.author.username, one.saved_at, differences(report.text, one.text), one)
        for one in drafts
        if one.aside
    ]
    for one, before in zip_longest(versions, versions[1:]):
        who = one.published_by.username if one.published_by else ", ".join(one.authors)
        steps.append(Step("version", who, one.published_at, _since(before, one), one))
    return sorted(steps, key=lambda step: step.when, reverse=True)


def _since(before: Draft | Publication | None, one: Draft | Publication) -> list[Change]:
    return differences(before.text, one.text) if before else []
