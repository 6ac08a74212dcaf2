"""Pages of members, project settings and the organisation, as each role sees them."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.core import mail

from tests.members import member
from webapp.identity.accounts.models import Invitation, Membership, Organisation, Project, Role
from webapp.identity.accounts.permissions import role_in
from webapp.identity.accounts.services import create_project
from webapp.identity.audit.models import Event
from webapp.identity.secrets.models import ProjectSecret
from webapp.identity.secrets.services import hand_to_job

LINK = re.compile(r'data-copy="http://testserver(/invitations/[\w-]+)"')
VALUE = "hf_a_value_of_a_secret"


@pytest.fixture
def bob(user):
    return member("bob", role=Role.VIEWER)


def text_of(answer):
    return answer.content.decode()


# --- members --------------------------------------------------------------------------------------------------


def test_everybody_sees_who_is_there_and_admins_can_change_it(ada, bob, client):
    page = text_of(ada.get("/project/members"))
    assert f'action="/project/members/{bob.pk}/role"' in page and "Make an invitation" in page

    client.force_login(bob)
    page = text_of(client.get("/project/members"))
    assert "ada" in page and "Leave the project" in page
    assert "/role" not in page and "Make an invitation" not in page and "Open invitations" not in page


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    ("method", "address", "needed"),
    [
        ("get", "/project/members", Role.VIEWER),
        ("post", "/project/members", Role.ADMIN),
        ("post", "/project/members/{bob}/role", Role.ADMIN),
        ("post", "/project/members/{bob}/remove", Role.ADMIN),
        ("post", "/project/leave", Role.VIEWER),
        ("post", "/project/invitations/{invitation}/revoke", Role.ADMIN),
        ("get", "/project/settings", Role.ADMIN),
        ("post", "/project/settings", Role.ADMIN),
        ("post", "/project/secrets", Role.ADMIN),
        ("post", "/project/secrets/HF_TOKEN/delete", Role.ADMIN),
        ("get", "/organisation", Role.VIEWER),
        ("get", "/audit", Role.ADMIN),
        ("get", "/audit.csv", Role.ADMIN),
        ("get", "/audit.jsonl", Role.ADMIN),
    ],
)
def test_each_role_at_each_address(client, user, bob, project, role, method, address, needed):
    from webapp.identity.accounts.invitations import invite

    invitation, _ = invite(project, role="viewer", actor=user)
    client.force_login(member("eve", role=role))
    before = Event.objects.count(), Membership.objects.count()

    answer = getattr(client, method)(address.format(bob=bob.pk, invitation=invitation.pk))

    order = list(Role)
    if order.index(role) < order.index(needed):
        assert answer.status_code == 403
        assert (Event.objects.count(), Membership.objects.count()) == before
    else:
        assert answer.status_code in (200, 302, 422)


@pytest.mark.parametrize("address", ["/organisation/projects", "/organisation/name", "/organisation/owners"])
def test_only_owners_change_the_organisation(client, user, project, address):
    for role in Role:
        client.force_login(member(f"a-{role}", role=role))
        body = {"slug": "new", "name": "New", "username": "ada"}
        assert client.post(address, body).status_code == 403
    assert Project.objects.count() == 1 and not project.organisation.owners.exists()


def test_of_a_stranger_there_is_no_project(client, user, bob):
    client.force_login(get_user_model().objects.create_user("eve"))

    for address in ("/project/members", "/project/settings", "/organisation", "/audit"):
        assert client.get(address).status_code == 404
    assert client.post(f"/project/members/{bob.pk}/role", {"role": "admin"}).status_code == 404


def test_a_role_is_changed_and_a_member_removed(ada, bob, project):
    ada.post(f"/project/members/{bob.pk}/role", {"role": "launcher"})
    assert role_in(bob, project) == Role.LAUNCHER

    page = text_of(ada.post(f"/project/members/{bob.pk}/remove", follow=True))
    assert role_in(bob, project) is None and "bob is no member any more." in page
    assert ada.post(f"/project/members/{bob.pk}/remove").status_code == 404


def test_the_last_admin_is_told_why(ada, user, project):
    page = text_of(ada.post(f"/project/members/{user.pk}/role", {"role": "viewer"}, follow=True))
    assert "last admin" in page
    page = text_of(ada.post("/project/leave", follow=True))
    assert "last admin" in page and role_in(user, project) == Role.ADMIN


def test_nobody_of_another_project_is_touched(ada, project):
    other = create_project(slug="other", name="Other")
    eve = member("eve", project=other)

    assert ada.post(f"/project/members/{eve.pk}/role", {"role": "viewer"}).status_code == 404
    assert ada.post(f"/project/members/{eve.pk}/remove").status_code == 404
    assert role_in(eve, other) == Role.ADMIN


def test_a_member_leaves(client, bob, project):
    client.force_login(bob)
    answer = client.post("/project/leave", follow=True)

    assert role_in(bob, project) is None and answer.status_code == 404  # of their pages none is left


def test_the_list_takes_few_queries(ada, project, django_assert_max_num_queries):
    for number in range(30):
        member(f"person{number}", role=Role.VIEWER)
    with django_assert_max_num_queries(14):
        ada.get("/project/members")


# --- invitations ----------------------------------------------------------------------------------------------


def test_a_link_is_shown_once_and_leads_to_an_account(ada, client, project):
    page = text_of(ada.post("/project/members", {"role": "contributor", "email": "", "days": "7"}))
    path = LINK.search(page)[1]
    assert path not in text_of(ada.get("/project/members"))

    stranger = type(client)()
    page = stranger.get(path)
    assert "Join Default" in text_of(page) and "contributor" in text_of(page)
    assert page["Referrer-Policy"] == "same-origin" and page["X-Robots-Tag"] == "noindex"
    answer = stranger.post(
        path, {"username": "grace", "password": "a-long-password", "again": "a-long-password"}
    )
    assert answer.status_code == 302
    assert "grace" in text_of(stranger.get("/"))
    assert role_in(get_user_model().objects.get(username="grace"), project) == Role.CONTRIBUTOR

    late = type(client)()
    answer = late.post(path, {"username": "eve", "password": "a-long-password", "again": "a-long-password"})
    assert answer.status_code == 410 and "used already" in text_of(answer)
    assert not get_user_model().objects.filter(username="eve").exists()


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (
            {"username": "grace", "password": "a-long-password", "again": "another"},
            "The two passwords differ.",
        ),
        ({"username": "grace", "password": "short", "again": "short"}, "at least 10 characters"),
        (
            {"username": "ada", "password": "a-long-password", "again": "a-long-password"},
            "already; choose another",
        ),
        ({}, "This field is required."),
    ],
)
def test_a_wrong_form_says_so_and_uses_nothing_up(ada, client, form, words):
    page = text_of(ada.post("/project/members", {"role": "viewer", "email": "", "days": "7"}))
    stranger = type(client)()
    answer = stranger.post(LINK.search(page)[1], form)

    assert answer.status_code == 422 and words in text_of(answer)
    assert "a-long-password" not in text_of(answer)
    assert Invitation.objects.get().accepted_at is None
    assert not get_user_model().objects.filter(username="grace").exists()


def test_who_is_signed_in_joins_with_a_press(ada, client, project):
    page = text_of(ada.post("/project/members", {"role": "reviewer", "email": "", "days": "7"}))
    path = LINK.search(page)[1]
    grace = get_user_model().objects.create_user("grace")
    browser = type(client)()
    browser.force_login(grace)

    assert "Join as grace" in text_of(browser.get(path))
    assert browser.get(path).status_code == 200 and role_in(grace, project) is None  # looking joins nobody
    assert browser.post(path).url == "/"
    assert role_in(grace, project) == Role.REVIEWER
    assert browser.post(path).status_code == 410


def test_a_member_who_follows_a_link_is_told(ada, project):
    page = text_of(ada.post("/project/members", {"role": "viewer", "email": "", "days": "7"}))
    answer = ada.post(LINK.search(page)[1])

    assert answer.status_code == 409 and "member of Default already" in text_of(answer)
    assert Invitation.objects.get().accepted_at is None


def test_a_link_that_is_none(client, db):
    answer = client.get("/invitations/of-my-own-making")

    assert answer.status_code == 404 and "There is no such invitation" in text_of(answer)


def test_it_is_taken_back_on_the_page(ada):
    page = text_of(ada.post("/project/members", {"role": "viewer", "email": "", "days": "7"}))
    row = Invitation.objects.get()
    ada.post(f"/project/invitations/{row.pk}/revoke")

    answer = ada.get(LINK.search(page)[1])
    assert answer.status_code == 410 and "taken back" in text_of(answer)


def test_an_invitation_of_another_project_is_none(ada, user):
    from webapp.identity.accounts.invitations import invite

    other = create_project(slug="other", name="Other")
    row, _ = invite(other, role="viewer", actor=member("eve", project=other))

    assert ada.post(f"/project/invitations/{row.pk}/revoke").status_code == 404
    row.refresh_from_db()
    assert row.revoked_at is None


def test_it_is_mailed_where_mail_is_set_up(ada, settings):
    form = {"role": "viewer", "email": "grace@example.org", "days": "7"}
    page = text_of(ada.post("/project/members", form))
    assert mail.outbox == [] and "mailed" not in page

    settings.EMAIL_CONFIGURED = True
    page = text_of(ada.post("/project/members", form))
    (sent,) = mail.outbox
    assert sent.to == ["grace@example.org"] and LINK.search(page)[1] in sent.body
    assert "It was also mailed to grace@example.org." in page


def test_a_mail_server_that_is_away_is_said_and_the_link_is_there(ada, settings):
    settings.EMAIL_CONFIGURED = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    page = text_of(ada.post("/project/members", {"role": "viewer", "email": "g@example.org", "days": "7"}))

    assert "did not take the mail" in page and LINK.search(page)


# --- settings and secrets -------------------------------------------------------------------------------------


def test_the_project_is_renamed(ada, project):
    page = text_of(ada.post("/project/settings", {"name": "Sums", "ranks_forecasters": "on"}, follow=True))

    project.refresh_from_db()
    assert (project.name, project.ranks_forecasters) == ("Sums", True) and "Sums" in page
    assert ada.post("/project/settings", {"name": " "}).status_code == 422


def test_a_secret_is_set_replaced_and_deleted_and_never_shown(ada, project):
    answers = [ada.post("/project/secrets", {"name": "HF_TOKEN", "value": VALUE}, follow=True)]
    assert hand_to_job(project) == {"HF_TOKEN": VALUE}
    answers += [ada.post("/project/secrets", {"name": "HF_TOKEN", "value": VALUE + "2"}, follow=True)]
    answers += [ada.get("/project/settings"), ada.get("/audit")]
    answers += [ada.post("/project/secrets", {"name": "PATH", "value": VALUE})]
    assert answers[-1].status_code == 422 and "could change what a job runs" in text_of(answers[-1])
    answers += [ada.post("/project/secrets/HF_TOKEN/delete", follow=True)]
    answers += [ada.post("/project/secrets/HF_TOKEN/delete", follow=True)]

    assert not ProjectSecret.objects.filter(retired_at=None).exists()
    assert not any(VALUE in text_of(answer) for answer in answers)
    assert "has another value" in text_of(answers[1]) and "no secret HF_TOKEN any more" in text_of(
        answers[-1]
    )


# --- the organisation -----------------------------------------------------------------------------------------


@pytest.fixture
def owner(client, user, project):
    project.organisation.owners.add(user)
    client.force_login(user)
    return client


def test_an_owner_makes_a_project_and_stands_in_it(owner, user):
    page = text_of(owner.post("/organisation/projects", {"name": "Mathematics", "slug": "math"}, follow=True))

    project = Project.objects.get(slug="math")
    assert role_in(user, project) == Role.ADMIN and '<div class="crumbs">Mathematics</div>' in page
    answer = owner.post("/organisation/projects", {"name": "Again", "slug": "math"})
    assert answer.status_code == 422 and "already a project math" in text_of(answer)


def test_owners_come_and_go(owner, bob, project):
    owner.post("/organisation/owners", {"username": "bob"})
    assert role_in(bob, project) == Role.ADMIN
    owner.post(f"/organisation/owners/{bob.pk}/remove")
    assert role_in(bob, project) == Role.VIEWER
    user = get_user_model().objects.get(username="ada")
    page = text_of(owner.post(f"/organisation/owners/{user.pk}/remove", follow=True))
    assert "last owner" in page
    owner.post("/organisation/name", {"name": "Sums & Co"})
    assert Organisation.objects.get().name == "Sums & Co"


def test_of_who_is_nobody_here_not_even_the_name_is_told(owner, user):
    stranger = get_user_model().objects.create_user("eve-of-another-lab")

    pages = [
        text_of(owner.post(f"/organisation/owners/{pk}/remove", follow=True))
        for pk in (stranger.pk, stranger.pk + 1000, 2**63)
    ]

    assert all("There is no such person in this organisation." in page for page in pages)
    assert "eve-of-another-lab" not in pages[0]


def test_others_see_their_own_projects_only(client, bob, project):
    create_project(slug="hidden", name="A hidden one", organisation=project.organisation)
    client.force_login(bob)
    page = text_of(client.get("/organisation"))

    assert "Default" in page and "A hidden one" not in page
    assert "Make the project" not in page and "Make an owner" not in page
