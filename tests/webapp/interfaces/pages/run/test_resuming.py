"""What the page says before Resume is pressed, and that it is what then happens."""

from datetime import timedelta

from django.utils import timezone

from tests.webapp.interfaces.pages.reading import page_of
from tests.webapp.interfaces.pages.test_run import figure_in, offered
from tests.webapp.record.retention.conftest import grow_old, write_checkpoint
from webapp.record.retention.models import RetentionPolicy
from webapp.record.retention.services import clean_up
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import begins_anew

ANEW = "Resume begins anew, from step 0"


def test_after_a_clean_up_it_begins_anew_and_that_is_said_before(ada, make_run, project):
    run = make_run(10, ended="failed", message="it broke")
    write_checkpoint(run.pk, "step-00000005")
    assert figure_in(page_of(ada, run))["resume_html"] == ""
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now() - timedelta(days=40))
    grow_old(run.pk, 40)
    RetentionPolicy.objects.create(project=project, enabled=True)

    assert clean_up() == 1
    page = page_of(ada, run)

    assert "resume" in offered(page)
    assert f"The clean-up has removed its checkpoints. {ANEW}" in page
    assert page.index(ANEW) < page.index('id="alarms"')
    ada.post(f"/runs/{run.pk}/resume")
    run.refresh_from_db()
    assert (run.attempt_number, run.state_reason) == (2, "There is no checkpoint: it begins anew.")
    assert ANEW not in page_of(ada, run), "it waits already"


def test_without_a_checkpoint_of_its_own_it_is_said_as_well(ada, make_run):
    run = make_run(10, ended="failed")

    assert f"It has no checkpoint. {ANEW}" in page_of(ada, run)


def test_with_a_store_nothing_is_claimed_that_only_the_driver_sees(ada, make_run, monkeypatch):
    monkeypatch.setenv("HEADROOM_CHECKPOINTS_URL", "s3://lab/runs")
    run = make_run(10, ended="failed")

    page = page_of(ada, run)

    assert "Resume takes the newest whole one of the checkpoint store" in page and ANEW not in page
    ada.post(f"/runs/{run.pk}/resume")
    run.refresh_from_db()
    assert (run.attempt_number, run.state_reason) == (2, "")


def test_what_has_not_trained_yet_loses_nothing(ada, make_run):
    run = make_run(0)
    ada.post(f"/runs/{run.pk}/stop")

    assert not begins_anew(run)
    assert "resume" in offered(page_of(ada, run))
    assert ANEW not in page_of(ada, run)


def test_whoever_may_not_resume_is_not_told(client, make_run, project):
    from tests.members import member

    run = make_run(10, ended="failed")
    client.force_login(member("eve", project=project, role="viewer"))

    assert ANEW not in page_of(client, run)
