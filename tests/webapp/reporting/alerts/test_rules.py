"""Rules: what is refused and why, versions, rights; the dry run of a form."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.members import member
from tests.webapp.reporting.alerts.data import entropy_below, make_rule, report
from webapp.base.errors import Conflict, Forbidden, InvalidInput, NotFound
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.services import create_project
from webapp.identity.audit.models import Event
from webapp.record.runs import lifecycle
from webapp.record.runs.filtering import FilterError
from webapp.reporting.alerts import channels, conditions, rules
from webapp.reporting.alerts.models import AlertRule
from webapp.reporting.alerts.preview import preview
from webapp.reporting.alerts.rules import Wanted, ensure_defaults

pytestmark = pytest.mark.django_db

GOOD = {
    "state": {"states": ["failed"]},
    "metric": entropy_below(),
    "alarm": {"level": "critical", "rule": "kl"},
    "fit": {"event": "ceiling_below", "value": 0.6, "certain": True, "in_a_row": 3},
    "budget": {"percent": 80},
    "outcome": {"scored": "outside"},
}


def wanted(on="metric", condition=None, **fields):
    return Wanted(
        **{"name": "a rule", "on": on, "condition": GOOD[on] if condition is None else condition} | fields
    )


@pytest.mark.parametrize("on", GOOD)
def test_each_kind_is_made_and_reads_the_same_again(user, project, on):
    rule = rules.create_rule(user=user, project=project, wanted=wanted(on))
    assert conditions.read(on, rule.condition).model_dump(mode="json") == rule.condition
    assert Event.objects.get(verb="alert_rule.created").object_id == str(rule.pk)


@pytest.mark.parametrize(
    ("on", "change", "field"),
    [
        ("state", {"states": []}, "states"),
        ("state", {"states": ["exploded"]}, "states.0"),
        ("metric", {"metric": "  "}, "metric"),
        ("metric", {"metric": "x" * 251}, "metric"),
        ("metric", {"comparison": "=="}, "comparison"),
        ("metric", {"threshold": "much"}, "threshold"),
        ("metric", {"threshold": "nan"}, "threshold"),
        ("metric", {"threshold": "1e999"}, "threshold"),
        ("metric", {"metric": "eval/pass_rate", "threshold": -0.1}, "threshold"),
        ("metric", {"in_a_row": 0}, "in_a_row"),
        ("metric", {"in_a_row": "1.5"}, "in_a_row"),
        ("metric", {"extra": 1}, "extra"),
        ("alarm", {"rule": "nothing"}, "rule"),
        ("fit", {"value": None}, "value"),
        ("fit", {"value": -0.6}, "value"),
        ("fit", {"value": 60}, "value"),
        ("budget", {"percent": -5}, "percent"),
        ("budget", {"percent": 101}, "percent"),
        ("outcome", {"scored": "beside"}, "scored"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_at_its_field(user, project, on, change, field):
    with pytest.raises(InvalidInput) as refused:
        rules.create_rule(user=user, project=project, wanted=wanted(on, GOOD[on] | change))
    assert refused.value.field == field and not AlertRule.objects.exists()


def test_a_negative_threshold_of_another_metric_and_an_unknown_metric_are_fine(user, project):
    rule = rules.create_rule(
        user=user, project=project, wanted=wanted(condition=entropy_below(-1.5) | {"metric": "mine/logp"})
    )
    assert rule.condition["threshold"] == -1.5


def test_a_bad_filter_says_where(user, project):
    with pytest.raises(rules.RunsError) as refused:
        rules.create_rule(user=user, project=project, wanted=wanted(runs="state:running stat:x"))
    assert refused.value.field == "runs"
    assert refused.value.message.startswith("runs, character 15: ") and "state" in refused.value.message
    assert refused.value.pointer.splitlines()[1].index("^") == 14


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"cooldown_minutes": -1}, "cooldown_minutes"),
        ({"to_page": False}, "channels"),
        ({"channels": [10**9]}, "channels"),
        ({"on": "prediction", "condition": {"event": "mention"}}, "on"),
        ({"on": "weather"}, "on"),
    ],
)
def test_what_else_is_refused(user, project, changes, field):
    with pytest.raises(InvalidInput) as refused:
        rules.create_rule(
            user=user,
            project=project,
            wanted=Wanted(**{"name": "a", "on": "budget", "condition": GOOD["budget"]} | changes),
        )
    assert refused.value.field == field


def test_me_means_nobody_in_a_rule_of_the_project(user, project):
    with pytest.raises(InvalidInput, match="belongs to nobody"):
        rules.create_rule(user=user, project=project, wanted=wanted(runs="by:me"), shared=True)
    rules.create_rule(user=user, project=project, wanted=wanted(runs='by:ada name ~ "me"'), shared=True)


def test_two_rules_of_one_name_and_a_double_submit_are_refused(user, project):
    rules.create_rule(user=user, project=project, wanted=wanted())
    with pytest.raises(Conflict):
        rules.create_rule(user=user, project=project, wanted=wanted(name="A  RULE"))
    rules.create_rule(user=user, project=project, wanted=wanted(), shared=True)  # another owner
    with pytest.raises(Conflict):
        rules.create_rule(user=user, project=project, wanted=wanted(), shared=True)


def test_of_two_tabs_the_second_is_told(user, project):
    rule = make_rule(user, project, "budget", {"percent": 50})
    change = lambda **fields: rules.change_rule(
        rule.pk, user=user, project=project, version=rule.version, wanted=wanted("budget", **fields)
    )
    change(name="first")
    with pytest.raises(Conflict, match="another tab"):
        change(name="second")
    assert AlertRule.objects.get().name == "first"


def test_another_condition_watches_anew_another_name_does_not(user, project):
    rule = make_rule(user, project, "budget", {"percent": 80.0})
    since = rule.since
    rule = rules.change_rule(
        rule.pk,
        user=user,
        project=project,
        version=1,
        wanted=wanted("budget", {"percent": 80.0}, name="new name"),
    )
    assert rule.since == since
    rule = rules.change_rule(
        rule.pk, user=user, project=project, version=2, wanted=wanted("budget", {"percent": 90})
    )
    assert rule.since > since


def test_others_rules_are_not_there_and_the_projects_need_an_admin(user, project):
    ben = member("ben", project=project, role=Role.REVIEWER)
    mine = make_rule(user, project, "budget", {"percent": 50})
    shared = make_rule(user, project, "budget", {"percent": 50}, shared=True)
    with pytest.raises(NotFound):
        rules.turn(mine.pk, user=ben, project=project, on=False)
    with pytest.raises(Forbidden):
        rules.turn(shared.pk, user=ben, project=project, on=False)
    with pytest.raises(Forbidden):
        rules.create_rule(user=ben, project=project, wanted=wanted(), shared=True)
    with pytest.raises(NotFound):
        rules.create_rule(user=ben, project=create_project(slug="secret", name="Secret"), wanted=wanted())
    rules.delete_rule(shared.pk, user=user, project=project)
    with pytest.raises(NotFound):
        rules.delete_rule(shared.pk, user=user, project=project)


def test_a_rule_uses_channels_of_its_own_side(user, project, receiver):
    ben = member("ben", project=project)
    his, _ = channels.create_channel(
        user=ben, project=project, kind="webhook", name="x", address=receiver.url
    )
    team, _ = channels.create_channel(
        user=user, project=project, kind="slack", name="t", address=receiver.url, shared=True
    )
    for channel in (his, team):
        with pytest.raises(InvalidInput):
            rules.create_rule(user=user, project=project, wanted=wanted(channels=[channel.pk]))
    rule = rules.create_rule(
        user=user, project=project, wanted=wanted(channels=[team.pk], to_page=False), shared=True
    )
    assert list(rule.channels.all()) == [team]


def test_a_default_rule_can_be_turned_off_and_not_deleted(user, project):
    ensure_defaults(user, project)
    rule = AlertRule.objects.get(default_key="mention")
    with pytest.raises(Conflict):
        rules.delete_rule(rule.pk, user=user, project=project)
    assert not rules.turn(rule.pk, user=user, project=project, on=False).enabled


# --- the dry run ----------------------------------------------------------------------------------------------


def test_the_dry_run_says_when_it_would_have_fired_and_stores_nothing(user, project, make_run):
    one, other = make_run(0, name="one"), make_run(0, seed=1)
    report(one, [0.05] * 3 + [0.5] + [0.05] * 3, minutes=10)
    report(other, [0.5] * 5)
    condition = conditions.read("metric", entropy_below())
    found = preview(project=project, user=user, condition=condition, runs="", cooldown_minutes=0)

    assert (found.watched, found.unfinished, found.active, found.looked) == (2, 2, 2, 2)
    assert [(hit.run, hit.event.episode, hit.muted) for hit in found.hits] == [
        (one, "step:5", False),
        (one, "step:1", False),
    ]
    muted = preview(project=project, user=user, condition=condition, runs="by:me", cooldown_minutes=60)
    assert [hit.muted for hit in muted.hits] == [True, False]
    later = preview(
        project=project, user=user, condition=condition, runs="", now=timezone.now() + timedelta(days=8)
    )
    assert later.hits == [] and later.active == 0


def test_the_dry_run_hints_at_a_misspelt_metric_and_at_a_bad_filter(user, project, make_run):
    report(make_run(0), [0.5])
    misspelt = conditions.read("metric", entropy_below() | {"metric": "train/entropi"})
    note = preview(project=project, user=user, condition=misspelt, runs="").note
    assert "Did you mean train/entropy?" in note
    with pytest.raises(FilterError):
        preview(project=project, user=user, condition=misspelt, runs="foo:")


def test_the_dry_run_counts_ends_of_runs(user, project, make_run):
    run = make_run(0)
    lifecycle.report_started(run, attempt=1)
    lifecycle.report_finished(run, attempt=1, state="failed")
    found = preview(project=project, user=user, condition=conditions.read("state", GOOD["state"]), runs="")
    assert len(found.hits) == 1 and found.unfinished == 0
