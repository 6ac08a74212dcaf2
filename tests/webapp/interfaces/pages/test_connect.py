"""A trainer's first record: the lines have a token of one's own, and the page says when something came with it."""

import re

import pytest
from django.utils import timezone

from tests.webapp.interfaces.pages.data import curve_records
from webapp.identity.accounts.models import ApiToken
from webapp.interfaces.pages.overview import FEW
from webapp.record.runs import ingest
from webapp.record.runs.launch import TrackRequest, track_run
from webapp.record.runs.models import Run

HTMX = {"HX-Request": "true"}


def arrived(ada, token):
    return ada.get("/connect", {"token": token.pk}, headers=HTMX).content.decode()


def test_the_lines_have_a_token_that_may_report_and_nothing_more(ada, project):
    assert not ApiToken.objects.exists() and "HEADROOM_TOKEN" not in ada.get("/connect").content.decode()

    page = ada.post("/connect").content.decode()

    token = ApiToken.objects.get()
    assert (token.scope, token.project, token.expires_at is not None) == ("write", project, True)
    assert re.search(r"export HEADROOM_URL=http://testserver HEADROOM_TOKEN=hr_\S+", page)
    assert "Waiting for the first record." in page


def test_it_says_when_the_token_was_used_and_when_a_record_came(ada, user, project):
    ada.post("/connect")
    token = ApiToken.objects.get()
    ApiToken.objects.update(last_used_at=timezone.now())
    assert "No record has come yet." in arrived(ada, token)

    run = track_run(TrackRequest(name="first steps"), user=user, project=project).run
    assert "data-poll" in arrived(ada, token)
    ingest.store_records(run, curve_records(1))

    says = arrived(ada, token)
    assert "First record arrived." in says and f'href="/runs/{run.pk}"' in says and "data-poll" not in says


@pytest.mark.parametrize("token", ["", "0", "x", "9" * 30, "²"])
def test_a_token_that_is_not_ones_own_says_nothing(ada, token):
    assert ada.get("/connect", {"token": token}, headers=HTMX).status_code == 404


def test_the_overview_of_a_new_project_has_three_things_to_do_until_a_trainer_reports(
    ada, user, project, make_run
):
    greets = lambda: "Connect your trainer" in ada.get("/").content.decode()
    make_run(0)
    assert greets()

    tracked = track_run(TrackRequest(name="mine"), user=user, project=project).run
    assert not greets()
    tracked.delete()
    assert greets()
    Run.objects.bulk_create(Run(project=project, name=f"{i}", task="t", model="m") for i in range(FEW - 1))

    assert not greets()
