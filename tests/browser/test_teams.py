"""A team in a real browser: an invitation, roles, secrets, a new project, and the log of it all."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.look import look
from tests.members import member
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.permissions import role_in
from webapp.identity.audit.services import record_each
from webapp.record.runs.bulk import act

VALUE = "hf_a_value_that_nobody_reads"


@pytest.fixture
def owned(user, project):
    project.organisation.owners.add(user)
    return project


def test_a_colleague_is_invited_makes_an_account_and_gets_another_role(page, new_page, owned, settings):
    member("bob", role=Role.REVIEWER)
    page.goto("/project/members")
    page.get_by_label("As").select_option("contributor")
    page.get_by_label("Mail address, optional").fill("grace@example.org")
    look(page, "members")
    page.get_by_role("button", name="Make an invitation").click()
    link = page.locator(".note.good code").inner_text()
    expect(page.get_by_role("cell", name="grace@example.org", exact=True)).to_be_visible()
    look(page, "invitation-made")

    stranger = new_page()
    stranger.goto(link)
    look(stranger, "invitation")
    stranger.get_by_label("Name").fill("grace")
    stranger.get_by_label("Password", exact=True).fill("a-long-password")
    stranger.get_by_label("Password, once more").fill("a-long-passwort")
    stranger.watch.expect("422")
    stranger.get_by_role("button", name="Make an account and join").click()
    expect(stranger.get_by_text("The two passwords differ.")).to_be_visible()
    look(stranger, "invitation-refused-form")
    stranger.get_by_label("Password", exact=True).fill("a-long-password")
    stranger.get_by_label("Password, once more").fill("a-long-password")
    stranger.get_by_role("button", name="Make an account and join").click()
    expect(stranger.get_by_role("status").filter(has_text="You are contributor in Default")).to_be_visible()

    late = new_page()
    late.watch.expect("410")
    late.goto(link)
    expect(late.get_by_text("used already")).to_be_visible()
    look(late, "invitation-used")

    page.goto("/project/members")
    page.get_by_label("Role of grace").select_option("launcher")
    page.get_by_role("button", name="Change the role of grace").click()
    expect(page.get_by_role("status").filter(has_text="grace is launcher now.")).to_be_visible()
    page.get_by_role("button", name="Remove bob").click()
    expect(page.get_by_role("heading", name="Remove bob?")).to_be_visible()
    look(page, "member-remove")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("status").filter(has_text="bob is no member any more.")).to_be_visible()

    stranger.goto("/project/members")
    look(stranger, "members-seen-by-a-launcher")
    expect(stranger.get_by_role("button", name="Make an invitation")).to_have_count(0)
    stranger.get_by_role("button", name="Leave the project").click()
    stranger.watch.expect("404", "422")
    stranger.get_by_role("dialog").get_by_role("button", name="Leave").click()
    expect(stranger.get_by_role("heading", name="No project yet")).to_be_visible()
    look(stranger, "no-project-left")


def test_who_has_an_account_joins_with_a_press(new_page, user, project, live_server):
    from django.contrib.auth import get_user_model

    from webapp.identity.accounts.invitations import invite

    _, token = invite(project, role="viewer", actor=user)
    grace = get_user_model().objects.create_user("grace")
    page = new_page(signed_in=grace)
    page.goto(f"/invitations/{token}")
    look(page, "invitation-signed-in")
    page.get_by_role("button", name="Join as grace").click()
    expect(page.get_by_role("status").filter(has_text="You are viewer in Default now.")).to_be_visible()
    assert role_in(grace, project) == Role.VIEWER


@pytest.mark.deep
def test_secrets_are_set_by_name_and_never_seen_again(page, project):
    page.goto("/project/settings")
    look(page, "project-settings-empty")
    page.get_by_role("region", name="Secrets").get_by_label("Name").fill("PATH")
    page.get_by_label("Value").fill(VALUE)
    page.watch.expect("422")
    page.get_by_role("button", name="Set the secret").click()
    expect(page.get_by_text("could change what a job runs")).to_be_visible()
    look(page, "secret-refused")
    page.get_by_role("region", name="Secrets").get_by_label("Name").fill("HF_TOKEN")
    page.get_by_label("Value").fill(VALUE)
    page.get_by_role("button", name="Set the secret").click()

    expect(page.get_by_role("cell", name="HF_TOKEN", exact=True)).to_be_visible()
    assert VALUE not in page.content()
    look(page, "project-settings")
    page.get_by_role("button", name="Delete HF_TOKEN").click()
    look(page, "secret-delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No secret yet")).to_be_visible()


@pytest.mark.deep
def test_an_owner_makes_a_project(page, owned):
    member("bob", role=Role.REVIEWER)
    page.goto("/organisation")
    look(page, "organisation")
    section = page.get_by_role("region", name="New project")
    section.get_by_label("Name").fill("Mathematics")
    section.get_by_label("Slug").fill("math")
    section.get_by_role("button", name="Make the project").click()
    expect(page.locator("main .crumbs")).to_have_text("Mathematics")

    page.goto("/organisation")
    page.get_by_role("button", name="Make an owner").click()
    page.get_by_role("button", name="End ownership of bob").click()
    look(page, "organisation-owner-dialog")
    page.get_by_role("dialog").get_by_role("button", name="End ownership").click()
    page.get_by_role("button", name="Work here in Default").click()
    page.wait_for_url(re.compile("localhost:[0-9]+/$"))


@pytest.mark.deep
def test_the_log_is_narrowed_paged_and_taken_away(page, owned, user, make_run):
    page.goto("/audit")
    look(page, "audit-empty")
    runs = [make_run(2, seed=seed, ended="succeeded", name=f"ScaleRL, seed {seed}") for seed in range(2)]
    act(user=user, project=owned, action="tag", run_ids=[run.pk for run in runs], key="k", tag="paper")
    record_each(
        "run.archived",
        actor=user,
        project=owned,
        kind="run",
        things=[(f"r{i}", f"An old run {i}") for i in range(60)],
    )
    page.goto("/audit")
    look(page, "audit")
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_role("link", name="Newest")).to_be_visible()
    expect(page.get_by_text("launched run").first).to_be_visible()

    page.goto("/audit")
    page.get_by_label("What", exact=True).fill("run.tagged")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row")).to_have_count(3)
    look(page, "audit-narrowed")
    with page.expect_download() as taken:
        page.get_by_role("link", name="CSV").click()
    text = taken.value.path().read_text()
    assert text.count("run.tagged") == 2 and "run.archived" not in text
    page.get_by_role("link", name="Organisation", exact=True).first.click()
    page.goto("/audit?of=organisation&person=nobody")
    look(page, "audit-nothing-found")


def test_the_menu_leads_there(page, project):
    page.goto("/runs")
    for name, heading in (
        ("Members", "Members"), ("Project settings", "Project settings"), ("Audit log", "Audit log"),
        ("Organisation", "Default organisation"),
    ):  # fmt: skip
        page.locator("#settings-button").click()
        page.locator("#all-pages").get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", name=heading, exact=True, level=1)).to_be_visible()
    look(page, "organisation-seen-by-an-admin")
