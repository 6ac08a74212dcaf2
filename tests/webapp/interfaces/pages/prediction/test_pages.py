"""Freezing, reading, judging and discussing a prediction; who may what."""

import json
import re

import pytest

from tests.members import member
from tests.webapp.interfaces.pages.data import curve_records
from tests.webapp.interfaces.pages.reading import text_of
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.prediction.page import page_context, version_of
from webapp.record.runs import ingest
from webapp.science.curves.fitting import Question
from webapp.science.predictions import services
from webapp.science.predictions.claims import Claim
from webapp.science.predictions.models import Comment, Prediction
from webapp.science.predictions.selectors import prediction_by_id

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


def error_of(response, field):
    found = re.search(rf'id="id_{field}_error"[^>]*>([^<]*)<', response.content.decode())
    return found[1] if found else None


# --- freezing --------------------------------------------------------------------------------------------------


def test_the_form_begins_with_what_the_fit_says_at_the_end_of_the_budget(ada, half_run):
    page = text_of(ada.get(f"/predictions/new?run={half_run.pk}"))

    own = services.proposal(half_run, Claim("pass_rate", 16.0))
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


def test_the_fits_own_numbers_are_frozen_as_the_fit_says_them_not_as_they_were_rounded(ada, form, half_run):
    own = services.proposal(half_run, Claim("pass_rate", 16.0))
    shown = {"value": f"{own.value:.4g}", "lo_claim": f"{own.lo:.4g}", "hi_claim": f"{own.hi:.4g}", "own": ""}

    answers = [ada.post("/predictions/new", form | shown) for _ in range(2)]

    claim = Prediction.objects.get()
    assert [answer.url for answer in answers] == [f"/predictions/{claim.pk}"] * 2
    assert (claim.value, claim.lo, claim.hi) == (own.value, own.lo, own.hi)


@pytest.mark.parametrize("change", [{"target": "100"}, {"statement": "ceiling"}, {"level": "0.5"}])
def test_numbers_of_the_forecast_for_another_question_are_not_frozen_as_its_own(ada, form, half_run, change):
    """Who changes the target and presses at once sends the numbers of the target before: they can't be mended later."""
    own = services.proposal(half_run, Claim("pass_rate", 16.0))
    stale = {"value": f"{own.value:.4g}", "lo_claim": f"{own.lo:.4g}", "hi_claim": f"{own.hi:.4g}", "own": ""}

    answer = ada.post("/predictions/new", form | stale | change)

    assert answer.status_code == 422
    assert "By now the forecast says 0." in error_of(answer, "value")
    assert not Prediction.objects.exists()
    page = answer.content.decode()
    assert f'name="value" value="{own.value:.4g}"' in page
    assert 'name="own" value="1"' in page and "Use those of the forecast" in page
    again = ada.post("/predictions/new", form | stale | change | {"own": "1"})
    assert again.status_code == 302


def test_the_preview_follows_the_target_until_the_numbers_are_ones_own(ada, form, half_run):
    own = services.proposal(half_run, Claim("pass_rate", 12.0, Question(level=0.5)))
    said = form | {"target": "12", "level": "0.5"}

    followed = text_of(ada.get("/predictions/new/proposal", said | {"own": ""}, headers=HTMX))
    kept = text_of(ada.get("/predictions/new/proposal", said, headers=HTMX))
    passes = {name: said[name] for name in said if name != "probability"} | {"statement": "passes"}
    other = text_of(ada.get("/predictions/new/proposal", passes, headers=HTMX))

    assert f'name="value" value="{own.value:.4g}"' in followed
    assert "50 % 0." in followed
    assert 'id="claim-values"' not in kept  # nothing is swapped under the hands
    assert "Use those of the forecast" in kept
    assert 'name="probability"' in other  # another statement has other fields


@pytest.mark.parametrize(
    ("target", "words"), [("8", "has been at"), ("4", "has been at"), ("1e9", "At most"), ("0", "above 0")]
)
def test_the_preview_refuses_targets_with_words_at_once(ada, form, target, words):
    page = text_of(ada.get("/predictions/new/proposal", form | {"target": target}, headers=HTMX))

    assert words in page
    assert 'role="alert"' in page


def test_a_claim_that_would_be_refused_is_not_drawn(ada, form):
    upside_down = form | {"lo_claim": "0.7", "hi_claim": "0.5"}

    drawn, refused = (
        ada.get("/predictions/new/proposal", said, headers=HTMX).context["preview"]["claim"]
        for said in (form, upside_down)
    )

    assert drawn["value"] == 0.6
    assert refused is None


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
    from webapp.identity.accounts.services import create_project

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


def test_what_happens_after_a_prediction_was_looked_up_is_on_its_page(claim, user):
    found = prediction_by_id(claim.project, claim.pk)
    services.withdraw(claim, user=user, reason="The data were wrong.")

    context = page_context(found, user, Permission)

    assert context["figure"]["version"] == version_of(claim)
    assert context["prediction"].withdrawn_reason == "The data were wrong."
    assert context["status"].life == "withdrawn"


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


def test_a_claim_whose_target_was_passed_offers_nothing_that_would_be_refused(ada, as_grace, claim):
    """Its score may still wait: for a rival, or for evaluations that lie closer to the target."""
    ingest.store_records(claim.run, curve_records(62, to=16.0 * 62 / 60, seed=1, first=31))

    own, others = (text_of(who.get(f"/predictions/{claim.pk}")) for who in (ada, as_grace))

    assert "Withdraw" not in own and "Make a changed claim" not in own and "Ask for a review" not in own
    assert "Give the verdict" not in others
