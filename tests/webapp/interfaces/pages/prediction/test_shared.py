"""A prediction shared by a link: the frozen claim and what came of it, for whoever has the link."""

import html
import re

import pytest

from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from webapp.identity.accounts.services import create_project
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.selectors import drawing_of
from webapp.science.predictions import claims, services

LINK = re.compile(r'data-copy="http://testserver(/s/[\w-]+)"')


@pytest.fixture
def link(ada, claim):
    """The path of a new link to the claim."""
    page = ada.post(f"/shares/new?kind=prediction&prediction={claim.pk}", {"title": "Our bet", "days": "7"})
    return LINK.search(page.content.decode())[1]


def words(answer):
    return html.unescape(answer.content.decode())


def test_a_stranger_sees_the_claim_and_neither_reasons_nor_comments(client, ada, user, claim, link):
    services.comment(claim, user=user, text="between ourselves")

    page = type(client)().get(link)

    assert page.status_code == 200 and not page.cookies
    said = words(page)
    assert claims.in_a_line(claim) in said
    assert "Claimed by ada" in said and "it cannot be changed" in said
    assert "Nothing has come since it was frozen." in said
    for hidden in (claim.reasons, "between ourselves", "/runs", "csrf", claim.data_digest, "learning_rate"):
        assert hidden not in said


def test_it_says_what_came_and_draws_it_at_the_target(client, claim, link, half_run, go_on):
    go_on(half_run)

    said = words(type(client)().get(link))
    drawing = drawing_of(Share.objects.get())

    actual = claim.outcomes.get().actual
    assert drawing.target.came == (actual,)
    assert (drawing.target.x, drawing.target.lo, drawing.target.hi) == (claim.target, claim.lo, claim.hi)
    assert drawing.x_range[1] > claim.target and drawing.y_range[0] < min(claim.lo, actual)
    assert "Scored" in said and "interval score" in said


def test_a_withdrawn_claim_is_shown_as_withdrawn_without_its_reason(client, user, claim, link):
    services.withdraw(claim, user=user, reason="I had misread the axis")

    said = words(type(client)().get(link))

    assert "Withdrawn" in said and "misread" not in said


def test_a_passing_has_no_value_to_draw_and_its_picture_is_there(client, ada, user, half_run, make_run):
    rival = make_run(24, a=0.5, seed=3, recipe="tiny-minimax")
    claim = make_prediction(user, half_run, statement="passes", rival=rival)
    page = ada.post(f"/shares/new?kind=prediction&prediction={claim.pk}", {"title": "A race", "days": ""})
    path = LINK.search(page.content.decode())[1]

    assert drawing_of(Share.objects.get()).target.value is None
    assert type(client)().get(f"{path}.png")["Content-Type"] == "image/png"
    assert "with probability" in words(type(client)().get(path))


def test_the_page_of_a_prediction_offers_it_and_the_list_names_it(ada, claim, link):
    page = words(ada.get(f"/predictions/{claim.pk}"))

    assert f"/shares/new?kind=prediction&prediction={claim.pk}" in page
    assert "a prediction" in words(ada.get("/shares"))


def test_a_prediction_of_another_project_is_not_there_to_share(ada, claim, client):
    elsewhere = create_project(slug="else", name="Else")
    eve = type(client)()
    eve.force_login(member("eve", project=elsewhere))

    assert eve.get(f"/shares/new?kind=prediction&prediction={claim.pk}").status_code == 404
    assert ada.get("/shares/new?kind=report&report=x").status_code == 422
