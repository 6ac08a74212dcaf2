"""Links that show one chart without an account."""

import html
import re
from datetime import timedelta
from io import BytesIO

import pytest
from django.utils import timezone
from PIL import Image

from tests.members import member
from webapp.identity.accounts.services import create_project
from webapp.record.runs.models import Run
from webapp.reporting.shares.models import Share
from webapp.science.curves.models import ReferenceFit

LINK = re.compile(r'data-copy="http://testserver(/s/[\w-]+)"')


@pytest.fixture
def share(ada, make_run):
    """share(query, **form): the path of a new link, e.g. "/s/TOKEN"."""

    def make(query: str = "", **form) -> str:
        query = query or f"kind=run&run={make_run(30, name='hidden seed').pk}"
        page = ada.post(f"/shares/new?{query}", {"title": "A curve", "days": ""} | form).content.decode()
        return LINK.search(page)[1]

    return make


@pytest.fixture
def stranger(client):
    """A browser without an account, beside Ada's."""
    return type(client)()


def test_a_link_shows_the_chart_to_a_stranger(share, stranger):
    page = stranger.get(share(title="Where ScaleRL tops out"))

    words = html.unescape(page.content.decode())
    assert page.status_code == 200
    assert "Where ScaleRL tops out" in words
    assert re.search(r"Forecast ceiling 0\.\d+, 90 % 0\.\d+ to 0\.\d+", words)
    assert 'id="drawing"' in words
    assert page["X-Robots-Tag"] == "noindex"
    assert not stranger.cookies


def test_nothing_but_the_chart_is_in_it(share, stranger):
    words = stranger.get(share()).content.decode()

    for secret in ("ada", "/runs", "/recipes", "csrf", "eps_max", "learning_rate", "digest"):
        assert secret not in words


def test_the_same_page_for_members_and_strangers(share, stranger, ada):
    path = share()
    without_time = lambda page: re.sub(r"<time.*?</time>", "", page.content.decode())

    assert without_time(stranger.get(path)) == without_time(ada.get(path))


def test_the_page_unfurls_to_a_picture(share, stranger):
    path = share()
    words = stranger.get(path).content.decode()

    meta = dict(re.findall(r'<meta (?:property|name)="((?:og|twitter):[\w:]+)" content="([^"]*)"', words))
    assert meta["og:title"] == "A curve"
    assert meta["og:image"] == f"http://testserver{path}.png"
    assert meta["twitter:card"] == "summary_large_image"
    assert "Forecast ceiling" in meta["og:description"]
    picture = stranger.get(f"{path}.png")
    assert picture["Content-Type"] == "image/png"
    assert Image.open(BytesIO(picture.content)).size == (1200, 630)


def test_the_embed_may_be_framed_and_nothing_else_may(share, stranger, ada):
    path = share()
    embed = stranger.get(path.replace("/s/", "/embed/"))

    assert "X-Frame-Options" not in embed
    assert "frame-ancestors *" in embed["Content-Security-Policy"]
    assert "script-src 'self'" in embed["Content-Security-Policy"]
    assert stranger.get(path)["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in stranger.get(path)["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in ada.get("/runs")["Content-Security-Policy"]


def test_the_token_is_not_stored(share):
    token = share().removeprefix("/s/")

    stored = Share.objects.get()
    assert token not in (stored.digest, str(stored.question), stored.title)
    assert len(stored.digest) == 64


@pytest.mark.parametrize("suffix", ["", ".png"])
def test_a_closed_link_shows_nothing(share, stranger, ada, suffix):
    path = share()
    ada.post(f"/shares/{Share.objects.get().pk}/revoke")

    answer = stranger.get(path + suffix)

    assert answer.status_code == 410
    assert "This link was closed" in answer.content.decode()
    assert "hidden seed" not in answer.content.decode()
    assert stranger.get(path.replace("/s/", "/embed/")).status_code == 410


def test_an_expired_link_says_until_when_it_was_open(share, stranger):
    path = share(days="7")
    Share.objects.update(expires_at=timezone.now() - timedelta(days=1))

    answer = stranger.get(path)

    assert answer.status_code == 410
    assert "It was open until" in answer.content.decode()


@pytest.mark.parametrize("path", ["/s/no-such-token", "/embed/no-such-token", "/s/no-such-token.png"])
def test_an_unknown_link_is_404(stranger, db, path):
    answer = stranger.get(path)

    assert answer.status_code == 404
    assert "There is no such link" in answer.content.decode()


def test_a_run_that_was_deleted_is_gone(share, stranger):
    path = share()
    Run.objects.get().delete()

    answer = stranger.get(path)

    assert answer.status_code == 410
    assert "has been deleted" in answer.content.decode()


def test_a_run_that_moved_to_another_project_does_not_leak(share, stranger):
    path = share()
    Run.objects.update(project=create_project(slug="secret", name="Secret"))

    assert stranger.get(path).status_code == 410


def test_the_question_of_the_address_is_kept(share, stranger, make_run):
    run = make_run(30)
    page = stranger.get(share(f"kind=run&run={run.pk}&x=tokens&scale=linear&cutoff=4000000"))

    words = page.content.decode()
    assert '"x_label": "Tokens"' in words
    assert '"scale": "linear"' in words


def test_a_comparison_can_be_shared(share, stranger, make_run):
    ReferenceFit.objects.create(
        slug="ours",
        name="Ours",
        source="paper",
        task="t",
        model="m",
        a=0.61,
        b=1.9,
        c_mid=2500.0,
        margin=0.02,
    )
    runs = [make_run(20, a=0.7, name="better"), make_run(20, a=0.5, seed=1, name="worse")]

    path = share(f"kind=comparison&run={runs[0].pk}&run={runs[1].pk}&ref=ours&view=share")

    words = html.unescape(stranger.get(path).content.decode())
    assert "better" in words
    assert "worse" in words
    assert "Ours (published)" in words
    assert stranger.get(f"{path}.png").status_code == 200


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("", 422, "kind must be one of"),
        ("kind=log&run=RUN", 422, "kind must be one of"),
        ("kind=run&run=RUN&x=miles", 422, "x must be one of"),
        ("kind=run&run=RUN&scale=cube", 422, "scale must be one of"),
        ("kind=run&run=RUN&cutoff=soon", 422, "cutoff must be a number above 0"),
        ("kind=run&run=RUN&cutoff=nan", 422, "cutoff must be a number above 0"),
        ("kind=run&run=RUN&metric=train/loss", 422, "metric must be"),
        ("kind=comparison", 422, "Choose at least one curve"),
        ("kind=comparison&run=RUN&view=tall", 422, "view must be one of"),
        ("kind=run&run=nothere", 404, "Nothing here"),
        ("kind=run&run=%00", 404, "Nothing here"),
        ("kind=comparison&run=nothere", 404, "Nothing here"),
        ("kind=comparison&ref=nothere", 404, "Nothing here"),
    ],
)
def test_a_question_that_cannot_be_shared_is_refused_by_name(ada, make_run, query, status, reason):
    answer = ada.post(f"/shares/new?{query.replace('RUN', make_run(0).pk)}", {"title": "x", "days": ""})

    assert answer.status_code == status
    assert reason in html.unescape(answer.content.decode())
    assert not Share.objects.exists()


@pytest.mark.parametrize(
    ("form", "field"), [({"title": ""}, "title"), ({"title": "x" * 161}, "title"), ({"days": "-3"}, "days")]
)
def test_a_wrong_form_says_what_is_wrong(ada, make_run, form, field):
    answer = ada.post(f"/shares/new?kind=run&run={make_run(0).pk}", {"title": "x", "days": ""} | form)

    assert answer.status_code == 422
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert not Share.objects.exists()


def test_runs_of_others_cannot_be_shared(ada, foreign_run):
    assert ada.get(f"/shares/new?kind=run&run={foreign_run.pk}").status_code == 404


def test_links_of_other_projects_are_neither_seen_nor_closed(share, ada, client):
    share(title="Ours only")
    other = member("eve", project=create_project(slug="elsewhere", name="Elsewhere"))
    eve = type(client)()
    eve.force_login(other)

    assert "Ours only" not in eve.get("/shares").content.decode()
    assert eve.post(f"/shares/{Share.objects.get().pk}/revoke").status_code == 404
    assert Share.objects.get().revoked_at is None


def test_the_list_says_what_is_open_and_when_it_was_seen(share, stranger, ada, django_assert_max_num_queries):
    path = share(title="Weekly report")
    assert ">never<" in ada.get("/shares").content.decode()
    stranger.get(path)

    with django_assert_max_num_queries(8):
        words = ada.get("/shares").content.decode()

    assert "Weekly report" in words
    assert ">never<" not in words
    assert path not in words


def test_what_a_stranger_costs_in_queries(share, stranger, django_assert_max_num_queries):
    path = share()
    stranger.get(path)

    with django_assert_max_num_queries(6):
        stranger.get(path)


def test_the_chart_of_a_run_offers_to_share_it_as_it_is(ada, make_run):
    run = make_run(12)
    words = html.unescape(ada.get(f"/runs/{run.pk}?x=tokens").content.decode())

    assert f'href="/shares/new?x=tokens&kind=run&run={run.pk}"' in words
    assert "/shares/new" not in ada.get("/compare").content.decode()


def test_titles_are_escaped_everywhere(share, stranger, ada):
    path = share(title='<script>"&')

    for words in (stranger.get(path), stranger.get(path.replace("/s/", "/embed/")), ada.get("/shares")):
        assert "<script>&quot;" not in words.content.decode()
        assert '<script>"' not in words.content.decode()


def test_recipes_are_shared_with_the_runs_that_they_have_now(share, stranger, make_run):
    make_run(20, a=0.7, seed=0)
    make_run(20, a=0.7, seed=1)

    page = stranger.get(share("kind=comparison&recipe=tiny-scalerl@1"))

    assert len(Share.objects.get().question["runs"]) == 2
    assert page.status_code == 200


@pytest.mark.parametrize(("token", "status"), [("tiny-scalerl", 422), ("@2", 422), ("nothere@1", 404)])
def test_a_recipe_that_cannot_be_read_is_refused(ada, project, token, status):
    answer = ada.post(f"/shares/new?kind=comparison&recipe={token}", {"title": "x", "days": ""})

    assert answer.status_code == status
