"""What happens by itself, on pages: the project's policies, those of a launch, and what they did in a run."""

import pytest

from tests.members import member
from webapp.identity.accounts.models import Role
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.models import Run
from webapp.reporting.policies.models import PolicyAction, RunPolicy
from webapp.reporting.policies.selectors import own_actions, project_policy

FORM = {
    "policy-budget": "warn", "policy-advice": "advise", "policy-truncation": "stop", "policy-mismatch": "warn",
    "policy-not_finite": "stop", "policy-other": "warn", "policy-advice_delta": "0.02",
}  # fmt: skip


def test_an_admin_sets_what_stops_runs(ada, project, django_assert_max_num_queries):
    answer = ada.post("/project/automation/policies", FORM)

    assert answer.status_code == 302
    policy = project_policy(project)
    assert (policy.actions["truncation"], policy.actions["budget"], policy.advice_delta) == (
        "stop",
        "warn",
        0.02,
    )
    with django_assert_max_num_queries(16):
        page = ada.get("/project/automation").content.decode()
    assert '<option value="advise" selected>' in page


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"policy-truncation": "off"}, "Select a valid choice"),
        ({"policy-advice_delta": "2"}, "a pass rate between 0 and 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_beside_its_field(ada, project, changes, says):
    answer = ada.post("/project/automation/policies", FORM | changes)

    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert project_policy(project).actions["truncation"] == "warn"


def test_members_read_the_policy_and_change_nothing(client, project):
    client.force_login(member("vera", project=project, role=Role.VIEWER))

    page = client.get("/project/automation").content.decode()
    assert "Truncation: warn: the run goes on" in page and "<select" not in page.split("<main")[1]
    assert client.post("/project/automation/policies", FORM).status_code == 403


def test_a_launch_can_do_otherwise(ada, launch_form):
    page = ada.get("/runs/new").content.decode()
    assert "What stops it by itself" in page and "as the project: warn" in page

    ada.post("/runs/new", launch_form | {"policy-advice": "stop", "policy-truncation": ""})
    run = Run.objects.get()
    assert own_actions(run) == {"advice": "stop"}
    clone = ada.get(f"/runs/new?clone={run.pk}").content.decode()
    assert '<option value="stop" selected>' in clone


def test_a_launch_with_nothing_of_its_own_stores_nothing(ada, launch_form):
    ada.post("/runs/new", launch_form)

    assert Run.objects.count() == 1 and not RunPolicy.objects.exists()


def test_a_launch_with_an_unknown_action_launches_nothing(ada, launch_form):
    answer = ada.post("/runs/new", launch_form | {"policy-advice": "explode"})

    assert answer.status_code == 422 and not Run.objects.exists()


def test_the_run_says_what_a_policy_did_and_why(ada, make_run):
    run = make_run(6)
    PolicyAction.objects.create(
        run=run, attempt=1, kind="truncation", action="stop", by_run=False, reason="Truncation is <high>."
    )

    page = ada.get(f"/runs/{run.pk}").content.decode()
    assert "Truncation is &lt;high&gt;." in page
    assert "policies_html" in ada.get(f"/runs/{run.pk}/figure").json()
    attempts = ada.get(f"/runs/{run.pk}?tab=attempts").content.decode()
    assert "stopped it" in attempts and "What stops it by itself" in attempts


RETENTION = {
    "retention-enabled": "on", "retention-keep_newest": "3", "retention-checkpoint_days": "14",
    "retention-log_days": "0", "retention-under_pressure": "",
}  # fmt: skip


def test_an_admin_sets_what_is_cleaned_up(ada, project):
    assert ada.post("/project/automation/retention", RETENTION).status_code == 302

    policy = RetentionPolicy.objects.get(project=project)
    assert (policy.enabled, policy.keep_newest, policy.log_days, policy.under_pressure) == (True, 3, 0, False)
    wrong = ada.post("/project/automation/retention", RETENTION | {"retention-keep_newest": "0"})
    assert wrong.status_code == 422 and "must be from 1 to 100" in wrong.content.decode()


def test_the_dry_run_is_a_region_for_members(client, project, make_run):
    make_run(1, ended="failed")
    client.force_login(member("vera", project=project, role=Role.VIEWER))

    region = client.get("/project/automation/preview").content.decode()
    assert "1 of 1 ended runs were looked at" in region and "The clean-up is off" in region


def test_a_launch_on_a_full_disk_says_so_and_launches_nothing(ada, launch_form, settings):
    settings.MIN_FREE_BYTES = 2**60
    answer = ada.post("/runs/new", launch_form)

    assert answer.status_code == 422
    assert "are free on the disk of HEADROOM_HOME" in answer.content.decode()
    assert not Run.objects.exists()
