"""The list of predictions in its parts, the CSV, what waits for the reader, and the calibration page."""

import csv
import io
import re

import pytest

from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.interfaces.pages.reading import text_of
from webapp.identity.accounts.models import Role
from webapp.science.predictions import services

# --- list, CSV, navigation, overview ---------------------------------------------------------------------------------


def test_without_a_prediction_the_list_teaches(ada):
    assert "Say it before you know it" in text_of(ada.get("/predictions"))


def test_parts_of_the_list_hold_what_they_say(ada, user, grace, half_run, go_on):
    waiting = make_prediction(grace, half_run, target=15.0)
    services.ask_review(waiting, user=grace, reviewers=[user])
    far = make_prediction(user, half_run, target=100.0)
    gone = make_prediction(user, half_run, target=14.0)
    services.withdraw(gone, user=user, reason="No.")
    scored = make_prediction(user, half_run, target=10.0)
    go_on(half_run, last=40)

    for part, claim in {
        "open": waiting,
        "mine": waiting,
        "projections": far,
        "withdrawn": gone,
        "scored": scored,
    }.items():
        page = text_of(ada.get(f"/predictions?part={part}"))
        assert re.findall(r'<td><a href="/predictions/(\w+)"', page) == [claim.pk], part


def test_the_list_is_filtered_and_sorted(ada, user, grace, half_run):
    near, far = make_prediction(user, half_run, target=12.0), make_prediction(grace, half_run, target=16.0)
    rows = lambda query: re.findall(
        r'<td><a href="/predictions/(\w+)"', text_of(ada.get(f"/predictions?{query}"))
    )

    assert rows("author=ada") == [near.pk]
    assert rows("sort=oldest") == [near.pk, far.pk]
    assert rows("sort=horizon") == [far.pk, near.pk]
    assert rows("recipe=tiny-scalerl") == [far.pk, near.pk]
    assert rows("recipe=other") == rows("author=nobody") == rows("review=approved") == []
    assert rows("sort=%00&part=x&page=99") == [far.pk, near.pk]


def test_the_number_of_queries_of_a_list_does_not_grow(
    ada, user, half_run, make_run, django_assert_num_queries
):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    rivals = [make_run(24, a=0.5, seed=seed, recipe="tiny-minimax") for seed in (5, 6)]
    make_prediction(user, half_run, target=10.0)
    ada.get("/predictions")
    with CaptureQueriesContext(
        connection,
    ) as one:
        ada.get("/predictions")
    for place in range(6):
        make_prediction(user, half_run, target=11.0 + place / 2)
    for rival in rivals:
        make_prediction(user, half_run, statement="passes", rival=rival)

    with django_assert_num_queries(len(one)):
        page = ada.get("/predictions")

    assert len(one) <= 16
    assert text_of(page).count("<td><a href=") == 9


def test_the_csv_has_every_number_unrounded(ada, user, half_run, go_on):
    claim = make_prediction(user, half_run, target=10.0, reasons="=1+1")
    go_on(half_run, last=40)

    rows = list(csv.DictReader(io.StringIO(ada.get("/predictions.csv").content.decode())))

    outcome = claim.outcomes.get()
    assert float(rows[0]["value"]) == claim.value
    assert float(rows[0]["actual"]) == outcome.actual
    assert float(rows[0]["interval_score"]) == outcome.interval_score
    assert rows[0]["reasons"] == "'=1+1"
    assert rows[0]["life"] == "scored"


def test_the_navigation_and_the_overview_count_what_waits_for_the_reader(ada, user, grace, as_grace, claim):
    services.ask_review(claim, user=user, reviewers=[grace])

    assert re.search(r'Predictions<span class="n">1</span>', text_of(as_grace.get("/")))
    assert "Waits for your review" in text_of(as_grace.get("/"))
    assert not re.search(r'Predictions<span class="n">', text_of(ada.get("/")))
    services.review(claim, user=grace, verdict="approved")
    assert "Waits for your review" not in text_of(as_grace.get("/"))


def test_the_run_page_leads_to_the_form_and_shows_its_predictions(ada, client, project, claim):
    page = text_of(ada.get(f"/runs/{claim.run_id}"))
    assert f"/predictions/new?run={claim.run_id}" in page
    assert f'href="/predictions/{claim.pk}"' in page

    client.force_login(member("eve", project=project, role=Role.VIEWER))
    assert "/predictions/new" not in text_of(client.get(f"/runs/{claim.run_id}"))


# --- calibration ----------------------------------------------------------------------------------------------------


def test_calibration_counts_projections_and_withdrawals_apart(ada, user, half_run, go_on):
    make_prediction(user, half_run, target=100.0)
    gone = make_prediction(user, half_run, target=14.0)
    services.withdraw(gone, user=user, reason="No.")
    make_prediction(user, half_run, target=10.0)
    go_on(half_run, last=40)

    page = text_of(ada.get("/calibration"))

    assert "1 of 1 interval held what came" in page
    assert "too few to say" in page
    assert "1 projection, 1 withdrawn" in page


def test_forecasters_are_ranked_only_where_the_project_wants_it(ada, user, project, half_run, go_on):
    for place in range(5):
        make_prediction(user, half_run, target=9.0 + place / 2)
    go_on(half_run)
    assert "Forecasters" not in text_of(ada.get("/calibration"))

    project.ranks_forecasters = True
    project.save(update_fields=["ranks_forecasters"])

    page = text_of(ada.get("/calibration?by=author"))
    assert "Forecasters" in page
    assert 'class="num tie ' in page


@pytest.mark.parametrize(
    "query", ["by=x", "horizon=%00", "author=nobody", "recipe=%00", "horizon=2&by=horizon"]
)
def test_calibration_takes_any_question(ada, claim, query):
    assert ada.get(f"/calibration?{query}").status_code == 200
