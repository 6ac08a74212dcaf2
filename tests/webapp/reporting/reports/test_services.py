"""Writing together, publishing, links: nothing is lost, and what is published stays."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from tests.members import member
from tests.webapp.interfaces.pages.data import curve_records
from tests.webapp.reporting.reports.conftest import block
from webapp.base.errors import Conflict, Forbidden, InvalidInput
from webapp.identity.accounts.models import Role
from webapp.identity.audit.models import Event
from webapp.record.runs import ingest
from webapp.record.runs.models import Run
from webapp.reporting.reports import selectors
from webapp.reporting.reports.models import Draft, Publication, Report
from webapp.reporting.reports.services import (
    DraftConflict,
    archive,
    create_link,
    publish,
    save_draft,
    unpublish,
)
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.selectors import share_by_token
from webapp.reporting.shares.services import revoke_share
from webapp.science.curves.services import refit


def save(report, user, text, base, title="Where it bends"):
    return save_draft(report, user=user, base=base, title=title, text=text)


def test_a_save_makes_the_next_draft_and_repeats_harmlessly(write, user):
    report = write("one")

    assert save(report, user, "two", 1).draft == 2
    assert save(report, user, "two", 1).draft == 2
    assert Report.objects.get().text == "two"


def test_two_who_write_at_once_lose_nothing(write, user, bob):
    report = write("one")
    save(report, bob, "Bob's", 1)

    with pytest.raises(DraftConflict, match="bob saved this report meanwhile") as late:
        save(report, user, "Ada's", 1)
    with pytest.raises(DraftConflict):
        save(report, user, "Ada's, longer", 1)

    assert late.value.report.text == Report.objects.get().text == "Bob's"
    aside = Draft.objects.get(aside=True)
    assert (aside.author, aside.text) == (user, "Ada's, longer")
    assert save(report, user, "Ada's over Bob's", 2).draft == 3
    assert "Bob's" in set(Draft.objects.values_list("text", flat=True))


def test_one_person_in_two_tabs_keeps_both_texts_when_one_goes_over_the_other(write, user):
    report = write("one")
    save(report, user, "the other tab's", 1)
    with pytest.raises(DraftConflict):
        save(report, user, "this tab's", 1)

    save(report, user, "this tab's", 2)

    assert {"the other tab's", "this tab's"} <= set(
        Draft.objects.filter(aside=False).values_list("text", flat=True)
    )


def test_what_one_writes_in_a_sitting_is_one_row_of_history(write, user, bob):
    report = write("one")
    save(report, user, "two", 1)
    save(report, bob, "three", 2)
    Draft.objects.filter(author=bob).update(started_at=timezone.now() - timedelta(hours=1))
    save(report, bob, "four", 3)

    assert list(Draft.objects.order_by("pk").values_list("author__username", "text")) == [
        ("ada", "two"), ("bob", "three"), ("bob", "four"),
    ]  # fmt: skip
    steps = selectors.history(report)
    assert [(one.kind, one.text) for one in steps[0].changes if one.kind in ("added", "removed")] == [
        ("removed", "three"), ("added", "four"),
    ]  # fmt: skip


def test_a_published_version_never_changes(write, user):
    report = write("one")
    first = publish(report, user=user, base=1)
    save(report, user, "two", 1)

    for fields in ({"text": "x"}, {"title": "x"}, {"frozen": [{}]}, {"authors": []}, {"number": 9}):
        with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
            Publication.objects.filter(pk=first.pk).update(**fields)
    assert publish(report, user=user, base=2).number == 2
    assert Publication.objects.get(number=1).text == "one"


def test_publishing_twice_is_publishing_once(write, user):
    report = write("one")

    assert publish(report, user=user, base=1) == publish(report, user=user, base=1)
    assert publish(report, user=user, base=1, is_live=False).number == 2


def test_only_what_was_looked_at_is_published(write, user, bob):
    report = write("one")
    save(report, bob, "two", 1)

    with pytest.raises(Conflict, match="changed since you looked"):
        publish(report, user=user, base=1)
    with pytest.raises(InvalidInput, match="nothing to publish"):
        publish(write(""), user=user, base=1)


def test_a_block_that_cannot_be_shown_is_not_published_and_its_line_is_named(write, user, foreign_run):
    text = f"Words\n\n{block(chart='run', run=foreign_run.pk)}\n\n{block(chart='pie')}"

    with pytest.raises(InvalidInput) as refused:
        publish(write(text), user=user, base=1)

    assert f"Line 5: There is no run {foreign_run.pk} in this project." in refused.value.message
    assert "Line 9: chart must be one of run, compare." in refused.value.message
    assert not Publication.objects.exists()


def test_live_numbers_say_when_they_changed_and_frozen_ones_stay(write, user, make_run, project):
    run = make_run(10, to=5.0)
    text = f"{block(number='compute', run=run.pk)}\n\n{block(chart='run', run=run.pk)}"
    report = write(text)
    made = publish(report, user=user, base=1)
    assert selectors.published_version(project, made).changed == 0

    ingest.store_records(run, [r for r in curve_records(16, to=8.0) if r.seq > 10])
    refit(run.pk)

    now = selectors.published_version(project, made)
    then = selectors.published_version(project, made, live=False)
    assert now.changed == 2
    assert now.blocks[0]["value"] == "8.00"
    assert then.changed == 0
    assert then.blocks[0]["value"] == "5.00"
    assert len(then.blocks[1]["drawing"]["points"]) == 4


def test_a_run_that_is_deleted_says_so_in_its_place(write, user, make_run, project):
    run = make_run(10, to=5.0)
    report = write(
        f"Before\n\n{block(chart='run', run=run.pk)}\n\nAfter\n\n{block(table='parameters', run=run.pk)}"
    )
    made = publish(report, user=user, base=1)
    Run.objects.filter(pk=run.pk).delete()

    version = selectors.published_version(project, made)

    assert [one["kind"] for one in version.blocks] == ["problem", "problem"]
    assert f"no run {run.pk} in this project" in version.blocks[0]["reason"]
    assert [part.html for part in version.parts if part.html] == ["<p>Before</p>\n", "<p>After</p>\n"]
    assert selectors.published_version(project, made, live=False).blocks[0]["kind"] == "chart"


def test_authors_and_admins_withdraw_and_archive(write, user, bob, project):
    carol = member("carol", project=project, role=Role.CONTRIBUTOR)
    report = write("one", by=bob)
    publish(report, user=bob, base=1)

    for service in (unpublish, archive):
        with pytest.raises(Forbidden, match="Only its authors"):
            service(report, user=carol)
    assert unpublish(report, user=user) == 1
    assert unpublish(report, user=user) == 0
    assert selectors.publication_of(report) is None
    archive(report, user=bob)
    report.refresh_from_db()
    with pytest.raises(Conflict, match="archived"):
        save(report, bob, "more", 1)
    with pytest.raises(Conflict, match="archived"):
        publish(report, user=bob, base=1)
    archive(report, user=bob, archived=False)
    assert publish(report, user=bob, base=1).number == 2


def test_a_link_is_stored_as_its_digest(write, user):
    report = write("one")
    with pytest.raises(Conflict, match="Publish the report first"):
        create_link(report, user=user, days=7)
    publish(report, user=user, base=1)
    with pytest.raises(InvalidInput):
        create_link(report, user=user, days=0)

    token = create_link(report, user=user, days=7)

    link = share_by_token(token, of_report=True)
    assert token not in str(Share.objects.values())
    assert share_by_token(token) is None
    assert list(selectors.links_of(report)) == [link]
    assert link.state_at(timezone.now()) == "open"
    assert link.state_at(timezone.now() + timedelta(days=8)) == "expired"
    revoke_share(link, user=user)
    revoke_share(link, user=user)
    assert share_by_token(token, of_report=True).state_at(timezone.now()) == "revoked"


@pytest.mark.parametrize(
    ("asked", "field"),
    [({"title": " "}, "title"), ({"title": "x" * 161}, "title"), ({"text": "x" * 100_001}, "text")],
)
def test_bad_input_names_its_field(write, user, asked, field):
    report = write("one")

    with pytest.raises(InvalidInput) as refused:
        save_draft(report, user=user, base=1, **({"title": "t", "text": "two"} | asked))

    assert refused.value.field == field
    assert Report.objects.get().draft == 1


def test_it_is_audited(write, user):
    report = write("one")
    publish(report, user=user, base=1)
    create_link(report, user=user, days=7)
    unpublish(report, user=user)

    verbs = list(Event.objects.order_by("pk").values_list("verb", flat=True))
    assert verbs == ["report.created", "report.published", "share.made", "report.unpublished"]
