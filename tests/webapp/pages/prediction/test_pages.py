"""The pages of predictions: form, page, review, comments, list, calibration; who may what; constant query counts."""

import csv
import io
import json
import re

import pytest

from tests.members import member
from tests.webapp.pages.addresses import make_prediction
from webapp.accounts.models import Role
from webapp.predictions import services
from webapp.predictions.models import Comment, Prediction

HTMX = {"HX-Request": "true"}


@pytest.fixture
def form(half_run):
    """What a browser sends."""
    return {
        "run": half_run.pk, "x": "device_hours", "metric": "eval/pass_rate", "form": "sigmoid",
        "statement": "pass_rate", "target": "16", "level": "0.9", "value": "0.6",
        "lo_claim": "0.58", "hi_claim": "0.62", "rival": "",
        "probability": "", "reasons": "It has bent.", "own": "1", "idempotency_key": "key-1",
    }  # fmt: skip


@pytest.fixture
def as_grace(client, grace):
    from django.test import Client

    browser = Client()
    browser.force_login(grace)
    return browser


def text_of(response) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def error_of(response, field):
    found = re.search(rf'id="id_{field}_error"[^>]*>([^<]*)<', response.content.decode())
    return found[1] if found else None


# --- freezing --------------------------------------------------------------------------------------------------


def test_the_form_begins_with_what_the_fit_says_at_the_end_of_the_budget(ada, half_run):
    page = text_of(ada.get(f"/predictions/new?run={half_run.pk}"))

    own = services.proposal(half_run, {"x": "device_hours"}, "pass_rate", 16.0)
    assert 'name="target" value="16"' in page
    assert f'name="value" value="{own.value:.4g}"' in page
    assert f'name="lo_claim" value="{own.lo:.4g}"' in page
    assert "its budget ends at 16.0" in page


def test_freezing_leads_to_the_prediction_once(ada, form, grace):
    answers = [ada.post("/predictions/new", form | {"reviewers": ["grace"]}) for _ in range(2)]

    claim = Prediction.objects.get()
    assert [answer.url for answer in answers] == [f"/predictions/{claim.pk}"] * 2
    assert (claim.value, claim.lo, claim.hi, claim.target) == (0.6, 0.58, 0.62, 16.0)
    assert [one.reviewer for one in claim.requests.all()] == [grace]


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"target": "4"}, "target", "before the data"),
        ({"target": "x"}, "target", "number"),
        ({"reasons": " "}, "reasons", "required"),
        ({"lo_claim": "0.7", "hi_claim": "0.5"}, "hi_claim", "upside down"),
        ({"value": "0.9"}, "value", "inside its interval"),
        ({"hi_claim": ""}, "hi_claim", "required"),
        ({"statement": "passes"}, "rival", "required"),
    ],
)
def test_what_is_refused_is_said_beside_its_field_and_keeps_what_was_typed(ada, form, change, field, words):
    answer = ada.post("/predictions/new", form | change)

    assert answer.status_code == 422
    said = error_of(answer, field) or text_of(answer)
    assert words in said
    assert "It has bent." in answer.content.decode() or "reasons" in change
    assert 'value="key-1"' not in answer.content.decode()  # what is sent next is another request
    assert not Prediction.objects.exists()


def test_the_preview_follows_the_target_until_the_numbers_are_ones_own(ada, form, half_run):
    own = services.proposal(half_run, {"x": "device_hours"}, "pass_rate", 12.0, level=0.5)
    said = form | {"target": "12", "level": "0.5"}

    followed = text_of(ada.get("/predictions/new/proposal", said | {"own": ""}, headers=HTMX))
    kept = text_of(ada.get("/predictions/new/proposal", said, headers=HTMX))
    typing = text_of(ada.get("/predictions/new/proposal", said, headers=HTMX | {"HX-Trigger-Name": "value"}))

    assert f'name="value" value="{own.value:.4g}"' in followed
    assert "50 % between" in followed
    assert 'name="value" value="0.6"' in kept
    assert 'id="claim-values"' not in typing  # nothing is swapped under the hands


@pytest.mark.parametrize(
    ("target", "words"), [("8", "has been at"), ("4", "has been at"), ("1e9", "At most"), ("0", "above 0")]
)
def test_the_preview_refuses_targets_with_words_at_once(ada, form, target, words):
    page = text_of(ada.get("/predictions/new/proposal", form | {"target": target}, headers=HTMX))

    assert words in page
    assert 'role="alert"' in page


def test_a_question_that_cannot_be_read_is_said(ada, half_run):
    answer = ada.get(f"/predictions/new?run={half_run.pk}&x=miles")

    assert answer.status_code == 400
    assert "cannot be read" in text_of(answer)


def test_a_changed_claim_begins_with_the_old_one(ada, claim, form):
    page = text_of(ada.get(f"/predictions/new?run={claim.run_id}&replaces={claim.pk}"))
    assert claim.reasons in page
    assert f'name="value" value="{claim.value:.4g}"' in page

    ada.post("/predictions/new", form | {"replaces": claim.pk})

    changed = Prediction.objects.get(replaces=claim)
    assert "Changed since" in text_of(ada.get(f"/predictions/{changed.pk}"))
    assert "took its place" in text_of(ada.get(f"/predictions/{claim.pk}"))


# --- the page ---------------------------------------------------------------------------------------------------


def test_the_page_says_the_claim_and_why_its_author_cannot_judge_it(ada, claim):
    page = text_of(ada.get(f"/predictions/{claim.pk}"))

    assert "pass rate 0.5" in page
    assert "at 16.0 device-hours" in page
    assert "The bend is behind us." in page
    assert claim.data_digest[:10] in page
    assert "This is your own prediction" in page
    assert f'action="/predictions/{claim.pk}/reviews"' not in page


def test_a_verdict_needs_its_reason_and_keeps_what_was_chosen(as_grace, claim):
    refused = as_grace.post(f"/predictions/{claim.pk}/reviews", {"verdict": "rejected", "reason": " "})
    assert refused.status_code == 422
    assert re.search(r'value="rejected" checked', refused.content.decode())
    assert claim.reviews.count() == 0

    as_grace.post(f"/predictions/{claim.pk}/reviews", {"verdict": "changes", "reason": "Wider, please."})

    assert "Wider, please." in text_of(as_grace.get(f"/predictions/{claim.pk}"))
    assert claim.reviews.get().verdict == "changes"


def test_own_predictions_cannot_be_judged_by_a_forged_form(ada, claim):
    answer = ada.post(f"/predictions/{claim.pk}/reviews", {"verdict": "approved"}, follow=True)

    assert "Nobody reviews a prediction of their own." in text_of(answer)
    assert claim.reviews.count() == 0


@pytest.mark.parametrize("role", [Role.VIEWER, Role.CONTRIBUTOR])
def test_who_may_not_judge_sees_no_form_and_is_refused(client, project, claim, role):
    client.force_login(member("eve", project=project, role=role))

    page = text_of(client.get(f"/predictions/{claim.pk}"))

    assert "your role reads them" in page
    assert client.post(f"/predictions/{claim.pk}/reviews", {"verdict": "approved"}).status_code == 403
    assert ("Comment</button>" in page) == (role == Role.CONTRIBUTOR)
    assert (client.post(f"/predictions/{claim.pk}/comments", {"text": "Hm."}).status_code == 403) == (
        role == Role.VIEWER
    )


def test_a_stranger_finds_nothing(client, db, claim):
    from webapp.accounts.services import create_project

    client.force_login(member("mallory", project=create_project(slug="other", name="Other")))

    for path in ("", "/figure"):
        assert client.get(f"/predictions/{claim.pk}{path}").status_code == 404
    assert client.post(f"/predictions/{claim.pk}/withdraw", {"reason": "x"}).status_code == 404


def test_withdrawing_takes_a_reason_and_happens_once(ada, claim):
    assert ada.post(f"/predictions/{claim.pk}/withdraw", {"reason": ""}).status_code == 422
    ada.post(f"/predictions/{claim.pk}/withdraw", {"reason": "The data were wrong."})
    again = ada.post(f"/predictions/{claim.pk}/withdraw", {"reason": "Once more."}, follow=True)

    claim.refresh_from_db()
    assert claim.withdrawn_reason == "The data were wrong."
    assert "withdrawn" in text_of(again)


def test_a_closed_prediction_takes_no_verdict_and_no_change(ada, as_grace, claim, user, form):
    services.withdraw(claim, user=user, reason="The data were wrong.")

    assert "It is closed" in text_of(as_grace.get(f"/predictions/{claim.pk}"))
    answer = as_grace.post(f"/predictions/{claim.pk}/reviews", {"verdict": "approved", "reason": ""})
    assert answer.status_code == 409
    assert "Make a changed claim" not in text_of(ada.get(f"/predictions/{claim.pk}"))
    refused = ada.post("/predictions/new", form | {"replaces": claim.pk})
    assert refused.status_code == 422
    assert "withdrawn" in text_of(refused)
    assert Prediction.objects.count() == 1


def test_the_figure_is_asked_for_only_when_something_changed(ada, claim, half_run, go_on, grace):
    url = f"/predictions/{claim.pk}/figure"
    first = ada.get(url).json()["figure"]
    assert ada.get(url, {"since": first["version"]}).status_code == 204

    services.comment(claim, user=grace, text="Why?")
    second = ada.get(url, {"since": first["version"]}).json()
    assert "Why?" in second["html"]["talk"]
    services.review(claim, user=grace, verdict="approved")
    third = ada.get(url, {"since": second["figure"]["version"]}).json()
    assert "approved" in third["html"]["verdicts"]
    go_on(half_run)

    last = ada.get(url, {"since": third["figure"]["version"]}).json()
    assert last["figure"]["points"]["role"].count("after") == 32
    assert "inside the interval" in last["html"]["status"]


@pytest.mark.parametrize(
    ("tab", "words"), [("record", "Of ada"), ("window", "frozen"), ("forms", "Power law")]
)
def test_a_reviewer_finds_the_analyses_of_what_was_known(as_grace, claim, go_on, half_run, tab, words):
    go_on(half_run)

    page = text_of(as_grace.get(f"/predictions/{claim.pk}?tab={tab}", headers=HTMX))

    assert words in page
    assert "<html" not in page
    if tab == "window":
        assert '<td class="num">62</td>' not in page  # nothing that came later


# --- comments ------------------------------------------------------------------------------------------------------


def test_a_comment_is_escaped_threaded_edited_and_resolved(ada, as_grace, claim):
    url = f"/predictions/{claim.pk}/comments"
    said = text_of(as_grace.post(url, {"text": "<b>@ada</b> why?", "anchor": "4.0,0.55"}, headers=HTMX))
    assert "&lt;b&gt;" in said
    assert '<span class="mention">@ada</span>' in said
    assert "0.550 at 4.00 h" in said
    root = Comment.objects.get()
    ada.post(url, {"text": "Because.", "parent": root.pk}, headers=HTMX)
    as_grace.post(f"{url}/{root.pk}", {"text": "Why so sure?"}, headers=HTMX)
    ada.post(f"{url}/{root.pk}", {"resolved": "1"}, headers=HTMX)

    page = text_of(ada.get(f"/predictions/{claim.pk}"))

    assert "Why so sure?" in page
    assert "Earlier texts" in page
    assert "Resolved by ada" in page
    assert json.loads(re.search(r'<script id="figure"[^>]*>(.*?)</script>', page)[1])["anchors"][0][
        "resolved"
    ]


def test_an_empty_or_foreign_edit_is_refused_beside_the_field(ada, as_grace, claim):
    url = f"/predictions/{claim.pk}/comments"
    empty = ada.post(url, {"text": "  ", "anchor": ""}, headers=HTMX)
    assert empty.status_code == 422
    assert 'id="comment-error"' in empty.content.decode()
    as_grace.post(url, {"text": "Mine."})
    mine = Comment.objects.get()

    foreign = ada.post(f"{url}/{mine.pk}", {"text": "Hers."}, headers=HTMX)

    assert foreign.status_code in (403, 422)
    mine.refresh_from_db()
    assert mine.text == "Mine."


@pytest.mark.parametrize("anchor", ["nan,1", "x", "1,2,3", "inf,0.5"])
def test_an_anchor_that_is_no_point_is_no_anchor(ada, claim, anchor):
    ada.post(f"/predictions/{claim.pk}/comments", {"text": "Hm.", "anchor": anchor})

    assert Comment.objects.get().anchor_x is None


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
