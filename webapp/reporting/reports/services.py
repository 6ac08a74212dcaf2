"""Every write to reports. A save says which draft it was made from; one that comes too late is kept aside, and said."""

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from webapp.base.errors import Conflict, Forbidden, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.permissions import Permission, may
from webapp.identity.audit.services import record
from webapp.reporting.reports import document, resolve
from webapp.reporting.reports.models import Draft, Publication, Report
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.services import clean_title, create_share

MOST_CHARACTERS = 100_000
ONE_SITTING = timedelta(minutes=5)  # saves of one person within this are one row of the history


class DraftConflict(Conflict):
    """Somebody else saved first. `report` has their text; what was sent is kept as `aside`."""

    def __init__(self, report: Report, aside: Draft) -> None:
        self.who = report.saved_by.username if report.saved_by else "Somebody"
        super().__init__(
            f"{self.who} saved this report meanwhile. Your text is kept; nothing was overwritten.",
            field="base",
        )
        self.report, self.aside = report, aside


def create_report(
    *, user: User, project: Project, title: str, text: str = "", key: str | None = None
) -> Report:
    """A new draft; the same `key` is the same report. Raises InvalidInput (title, text)."""
    title, text = clean_title(title), _text(text)
    try:
        with transaction.atomic():
            made = Report.objects.create(
                project=project,
                title=title,
                text=text,
                created_by=user,
                saved_by=user,
                key=(key or "")[:64] or None,
            )
            _note_draft(made, user)
            record("report.created", actor=user, project=project, kind="report", key=made.pk, name=title)
    except IntegrityError:
        return Report.objects.get(project=project, key=(key or "")[:64])
    return made


def save_draft(report: Report, *, user: User, base: int, title: str, text: str) -> Report:
    """The report with its new draft. Saving what is stored already changes nothing.

    Raises InvalidInput (title, text), Conflict for an archived report, and DraftConflict where `base` is not the
    newest draft: then the text is kept beside it, once, and the newest is as it was.
    """
    title, text = clean_title(title), _text(text)
    late: DraftConflict | None = None
    with transaction.atomic():
        here = (
            Report.objects.select_for_update(of=("self",))
            .select_related("saved_by", "project")
            .get(pk=report.pk)
        )
        if (here.title, here.text) == (title, text):
            return here
        if here.archived_at is not None:
            raise Conflict("This report is archived: take it out of the archive to write on.")
        if base != here.draft:
            late = DraftConflict(here, _keep_aside(here, user, base, title, text))
        else:
            here.title, here.text, here.draft = title, text, here.draft + 1
            here.saved_by, here.saved_at = user, timezone.now()
            here.save(update_fields=["title", "text", "draft", "saved_by", "saved_at"])
            _note_draft(here, user)
    if late is not None:
        raise late
    return here


def _note_draft(report: Report, user: User) -> None:
    """The history: another row, or the newest one moved on where the same person goes on writing."""
    now = timezone.now()
    last = Draft.objects.filter(report=report, aside=False).order_by("-number").first()
    fields = {"number": report.draft, "title": report.title, "text": report.text, "saved_at": now}
    if last is not None and last.author_id == user.pk and last.started_at > now - ONE_SITTING:
        published = Publication.objects.filter(report=report, published_at__gte=last.saved_at).exists()
        met = Draft.objects.filter(report=report, aside=True, saved_at__gte=last.saved_at).exists()
        if not published and not met:  # a text that was published, or that another one met, is kept as it was
            Draft.objects.filter(pk=last.pk).update(**fields)
            return
    Draft.objects.create(report=report, author=user, started_at=now, **fields)


def _keep_aside(report: Report, user: User, base: int, title: str, text: str) -> Draft:
    now = timezone.now()
    fields = {"title": title, "text": text, "saved_at": now}
    aside, _ = Draft.objects.update_or_create(
        report=report, author=user, aside=True, number=base, defaults=fields,
        create_defaults=fields | {"started_at": now},
    )  # fmt: skip
    return aside


def publish(report: Report, *, user: User, base: int, is_live: bool = True) -> Publication:
    """The draft as the next numbered version, with what its blocks show now. Publishing the same again is the same.

    Raises Conflict where `base` is not the newest draft or the report is archived, and InvalidInput (text) with every
    line of a block that cannot be shown.
    """
    with transaction.atomic():
        here = Report.objects.select_for_update(of=("self",)).select_related("project").get(pk=report.pk)
        if here.archived_at is not None:
            raise Conflict("This report is archived: take it out of the archive first.")
        if base != here.draft:
            raise Conflict("The draft changed since you looked at it: read it again before it is published.")
        if not here.text.strip():
            raise InvalidInput("text", "There is nothing to publish yet.")
        frozen = freeze(here.project, here.text)
        newest = here.publications.order_by("-number").first()
        if (
            newest is not None
            and newest.withdrawn_at is None
            and _says_the_same(newest, here, is_live, frozen)
        ):
            return newest
        made = Publication.objects.create(
            report=here, number=newest.number + 1 if newest else 1, title=here.title, text=here.text,
            authors=_authors(here), is_live=is_live, frozen=frozen, published_by=user,
        )  # fmt: skip
        record(
            "report.published", actor=user, project=here.project, kind="report", key=here.pk, name=here.title,
            version=made.number,
        )  # fmt: skip
    return made


def publish_unsigned(*, project: Project, title: str, text: str, author: str) -> Publication:
    """A report that no person wrote, published at once, under a name. Raises InvalidInput (text) as `publish` does."""
    frozen = freeze(project, text)
    with transaction.atomic():
        report = Report.objects.create(project=project, title=clean_title(title), text=_text(text))
        return report.publications.create(
            number=1, title=report.title, text=report.text, authors=[author], frozen=frozen
        )


def freeze(project: Project, text: str) -> list[resolve.Payload]:
    """What each block shows now, in order. Raises InvalidInput (text) naming each line that cannot be shown."""
    found = [
        resolve.shown(project, part) for part in document.read(text) if not isinstance(part, document.Prose)
    ]
    wrong = [f"Line {one['line']}: {one['reason']}" for one in found if one["kind"] == "problem"]
    if wrong:
        raise InvalidInput("text", f"Not published: {' '.join(wrong[:5])}")
    return found


def _says_the_same(newest: Publication, report: Report, is_live: bool, frozen: list[resolve.Payload]) -> bool:
    same = (newest.title, newest.text, newest.is_live) == (report.title, report.text, is_live)
    return same and [resolve.digest(one) for one in newest.frozen] == [resolve.digest(one) for one in frozen]


def _authors(report: Report) -> list[str]:
    """Who wrote at it, in the order in which they began."""
    written = Draft.objects.filter(report=report, aside=False).order_by("started_at", "pk")
    return list(dict.fromkeys(written.values_list("author__username", flat=True)))


def require_owner(report: Report, user: User) -> None:
    """Raises Forbidden unless the user wrote at the report or is an admin of its project."""
    wrote = report.created_by_id == user.pk or report.drafts.filter(author=user, aside=False).exists()
    if not wrote and not may(user, report.project, Permission.ADMIN):
        raise Forbidden("Only its authors, or an admin of the project, may do this.")


@transaction.atomic
def unpublish(report: Report, *, user: User) -> int:
    """Withdraw every published version: readers and links see it no more. How many there were; safe to repeat."""
    require_owner(report, user)
    open_ones = Publication.objects.filter(report=report, withdrawn_at=None)
    if count := open_ones.update(withdrawn_at=timezone.now(), withdrawn_by=user):
        record(
            "report.unpublished",
            actor=user,
            project=report.project,
            kind="report",
            key=report.pk,
            name=report.title,
        )
    return count


@transaction.atomic
def archive(report: Report, *, user: User, archived: bool = True) -> None:
    """Leave the report out of lists, or take it back in; while it is archived no link shows it. Safe to repeat."""
    require_owner(report, user)
    rows = Report.objects.filter(pk=report.pk, archived_at__isnull=archived)
    if rows.update(archived_at=timezone.now() if archived else None):
        verb = "report.archived" if archived else "report.unarchived"
        record(verb, actor=user, project=report.project, kind="report", key=report.pk, name=report.title)


def create_link(report: Report, *, user: User, days: int | None) -> str:
    """A link to the newest published version, open for `days` days or until revoked; its token is returned only here.

    Raises InvalidInput (days), and Conflict where nothing is published.
    """
    if report.archived_at is not None or not report.publications.filter(withdrawn_at=None).exists():
        raise Conflict("Publish the report first: a link shows its newest published version.")
    return create_share(
        user=user, project=report.project, kind=Share.Kind.REPORT, title=report.title,
        question={"report": report.pk}, days=days,
    )  # fmt: skip


def _text(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(
            "text", f"A report has at most {MOST_CHARACTERS:,} characters; this has {len(text):,}."
        )
    return text
