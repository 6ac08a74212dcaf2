"""Every field and operator against real PostgreSQL; what a condition leaves and what its opposite leaves is all."""

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings

from tests.deep import examples
from tests.launching import tracked_run
from tests.members import member
from tests.shared_rows import kept
from tests.webapp.record.runs.filtering.test_language import TREES, depth
from training.records import Record
from webapp.identity.accounts.services import create_project
from webapp.interfaces.pages.run_list.listing import SORTS, known_sort, ordering
from webapp.interfaces.tracking.models import ClientRun, Group
from webapp.record.runs.filtering import FilterError, compile_filter, narrow
from webapp.record.runs.filtering.completing import completions
from webapp.record.runs.filtering.fields import CONFIG, FIELDS, METRIC, OPERATORS, FieldType
from webapp.record.runs.filtering.parsing import MAX_DEPTH, MAX_LENGTH, Not, to_text
from webapp.record.runs.ingest import store_records
from webapp.record.runs.models import Run, State, Summary
from webapp.reporting.alarms.models import Alarm

NAMES = ("alpha", "beta", "gamma", "delta")


@pytest.fixture(scope="module")
def stored(django_db_setup, django_db_blocker):
    """(project, user, runs), made once for all tests of this module."""
    with kept(django_db_blocker):
        project = create_project(slug="math", name="Math")
        user = member(project=project)
        yield project, user, make_runs(project, user)


@pytest.fixture
def project(db, stored):
    return stored[0]


@pytest.fixture
def user(db, stored):
    return stored[1]


@pytest.fixture
def runs(db, stored):
    return stored[2]


def make_runs(project, user):
    """alpha: launched from ScaleRL, identified; beta: failed, bound only; gamma: tracked, no fit; delta: archived."""
    made = {
        name: tracked_run(user=user, project=project, name=name, task="math", model="org/qwen-8b")
        for name in NAMES
    }
    now = timezone.now()
    revision = project.recipes.get(slug="scalerl").revisions.get()
    config = {
        "loss": {"type": "cispo"},
        "lr": 3e-4,
        "on": True,
        "big": 10**400,
        "list": [1, 2],
        "nothing": None,
    }
    change(
        made["alpha"],
        revision=revision,
        origin="launched",
        seed=1,
        budget_hours=16.0,
        config=config,
        tags=["paper"],
    )
    change(made["beta"], state=State.FAILED, seed=2, task="code", config={"loss": {"type": "grpo"}, "lr": "high"},
           created_at=now - timedelta(days=3), ended_at=now - timedelta(days=1), attempt_number=2)  # fmt: skip
    change(
        made["gamma"], model="7b", created_by=None, created_at=now - timedelta(days=9), tags=["paper", "b/c"],
        notes="Node 3 was slow.",
    )  # fmt: skip
    change(made["delta"], state=State.SUCCEEDED, archived_at=now)
    Summary.objects.create(run=made["alpha"], pass_rate=0.55, used_hours=8.0, fit_status="ok", level=0.9,
                           tail=0.61, ceiling=0.61, ceiling_lo=0.6, ceiling_hi=0.63)  # fmt: skip
    Summary.objects.create(run=made["beta"], pass_rate=0.3, used_hours=0.5, fit_status="not_identified", level=0.9,
                           ceiling_lo=0.4)  # fmt: skip
    alarm(made["alpha"], "truncation_rate", active=True)
    alarm(made["beta"], "truncation_rate", active=False)
    return made


def change(run, **fields):
    Run.objects.filter(pk=run.pk).update(**fields)


def alarm(run, rule, *, active):
    Alarm.objects.create(run=run, rule=rule, metric="train/truncation_rate", level="warning", active=active,
                         first_step=1, last_step=2, times=1, raised_at=timezone.now())  # fmt: skip


@pytest.fixture
def found(project, user, runs):
    """found("state:failed"): the first letters of the names that a filter leaves."""

    def names(text):
        left = narrow(Run.objects.filter(project=project), text, user=user).order_by("name")
        return "".join(run.name[0] for run in left)

    return names


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", "abg"),
        ("state:failed", "b"),
        ("state:running,failed", "abg"),
        ("state != failed", "ag"),
        ("state:ended", "b"),
        ("state:unfinished", "ag"),
        ("recipe:scalerl", "a"),
        ("recipe = ScaleRL", "a"),
        ("recipe:scale*", "a"),
        ('recipe:"scale*"', ""),
        ("recipe ~ CALE", "a"),
        ("recipe != scalerl", "bg"),
        ("recipe:none", "bg"),
        ("revision = 1", "a"),
        ("revision < 1", ""),
        ("task:code", "b"),
        ("model:7b", "g"),
        ("model:org/*", "ab"),
        ("seed:1,2", "ab"),
        ("seed >= 2", "b"),
        ("seed != 0", "ab"),
        ("seed = 99999999999999999", ""),
        ("name:alpha", "a"),
        ("name ~ ET", "b"),
        ("name !=alpha", "bg"),
        ("by:ada", "ab"),
        ("by:me", "ab"),
        ('by:"me"', ""),
        ("user:none", "g"),
        ("alarm:active", "a"),
        ("alarm:any", "ab"),
        ("alarm:none", "bg"),
        ("alarm != active", "bg"),
        ("alarm:warning", "a"),
        ("alarm:critical", ""),
        ("alarm:truncation_rate", "a"),
        ("tag:paper", "ag"),
        ("tag:Paper", "ag"),
        ("tag = b/c", "g"),
        ("tag ~ pap", "ag"),
        ("tag:none", "b"),
        ("tag != paper", "b"),
        ("origin:launched", "a"),
        ("created > 2d", "a"),
        ("created < 2d", "bg"),
        ("created >= 1w", "ab"),
        ("created:today", "a"),
        ("created <= yesterday", "bg"),
        ("age > 5d", "g"),
        ("age < 5d", "ab"),
        ("ended > 2d", "b"),
        ("ended:none", "ag"),
        ("started > 1h", "abg"),
        ("attempt > 1", "b"),
        ("budget > 10", "a"),
        ("budget:none", "bg"),
        ("NOT budget > 10", "bg"),
        ("used < 1", "b"),
        ("used != 8", "bg"),
        ("pass_rate > 50%", "a"),
        ("latest <= 0.3", "b"),
        ("pass_rate:none", "g"),
        ("ceiling >= 0.6", "a"),
        ("ceiling < 0.9", "a"),
        ("NOT ceiling < 0.9", "bg"),
        ("ceiling.lo > 0.35", "ab"),
        ("ceiling.hi < 0.7", "a"),
        ("identified:yes", "a"),
        ("identified:no", "bg"),
        ('notes ~ "was slow"', "g"),
        ("deleted:no", "abg"),
        ("archived:yes", "d"),
        ("archived:no", "abg"),
        ("archived:yes OR state:failed", "bd"),
        ("config.loss.type = cispo", "a"),
        ("config.loss.type != cispo", "bg"),
        ("config.loss.type:c*", "a"),
        ("config.loss.type ~ RP", "b"),
        ("config.loss.type:none", "g"),
        ("config.nothing:none", "abg"),
        ("config.lr > 1e-4", "a"),
        ("config.lr = 0.0003", "a"),
        ("config.lr < 1", "a"),
        ("NOT config.lr < 1", "bg"),
        ("config.on = true", "a"),
        ("config.big > 1e300", "a"),
        ("config.list.1 = 2", "a"),
        ("config.loss > 1", ""),
        ("alph", "a"),
        ("scalerl", "a"),
        ("paper", "ag"),
        ("alpha OR beta", "ab"),
        ("NOT (alpha OR beta)", "g"),
        ("NOT (recipe != grpo alpha)", "bg"),
        ("NOT (recipe != scalerl OR identified:no)", "a"),
        ("recipe:scalerl OR NOT recipe:grpo", "abg"),
        ("state:running NOT tag:none seed:1", "a"),
        ("50% OR _", ""),
    ],
)
def test_what_each_filter_leaves(found, text, left):
    assert found(text) == left


def test_the_id_by_its_beginning(found, runs):
    pk = runs["beta"].pk

    assert found(f"id:{pk[:8]}") == found(f"id = {pk}") == found(f"id ~ {pk[2:]}") == found(pk[:8]) == "b"
    assert found(f"id = {pk[:8]}") == ""


def test_the_id_that_its_client_gave_it(found, runs, project):
    key = "0123456789abcdef" * 2
    group = Group.objects.create(project=project, name="elsewhere")
    ClientRun.objects.create(run=runs["beta"], group=group, client="mlflow", key=key, name="beta", start_ms=0)

    assert found(f"id:{key}") == found(f"id:{key[:6]}") == found(f"id = {key}") == "b"
    assert found(f"NOT id = {key}") == "ag"
    assert found(f"experiment:{group.name}") == found(f"experiment = {group.pk}") == "b"
    assert found("experiment:none") == found(f"NOT experiment:{group.pk}") == "ag"


def report(run, **metrics):
    for seq, values in enumerate(zip(*metrics.values(), strict=True)):
        record = {
            "attempt": 1, "seq": seq, "step": seq, "time": "2026-01-01T00:00:00Z",
            "compute": {"device_hours": 0.1, "flops": 1.0, "tokens": 1.0},
            "metrics": {name.replace("__", "/"): value for name, value in zip(metrics, values, strict=True)},
        }  # fmt: skip
        store_records(run, [Record.model_validate(record)])


def test_the_newest_value_of_a_metric(found, runs):
    report(runs["alpha"], train__entropy=[0.9, 0.1])
    report(runs["beta"], train__entropy=[0.05, 0.3], **{"two words (2.5)": [1.0, -2.0]})

    assert found("metric.train/entropy < 0.2") == "a"
    assert found("metric.train/entropy >= 10%") == "ab"
    assert found("metric.train/entropy = 0.1,0.3") == "ab"
    assert found("METRIC.train/entropy != 0.1") == found("NOT metric.train/entropy:0.1") == "bg"
    assert found("metric.train/entropy:none") == "g"
    assert found('metric."two words (2.5)" < 0 OR name:alpha') == "ab"
    assert found("metric.Train/entropy < 1") == ""
    assert found("(metric.train/entropy > 0.2 AND NOT config.loss.type:cispo) OR seed:1") == "ab"


def test_a_newest_value_reads_one_index_entry_a_run(found, runs, django_assert_num_queries):
    report(runs["alpha"], train__entropy=[0.9, 0.1])
    with django_assert_num_queries(1):
        found("metric.train/entropy < 0.2")


def test_a_setting_whose_key_has_a_dot_or_a_blank(found, runs):
    change(runs["gamma"], config={"actor.lr": 1e-6, "optim": {"warm up": 10}})

    assert found('config."actor.lr" <= 1e-6') == "g"
    assert found('config.optim."warm up" = 10') == "g"
    assert found("config.actor.lr:none") == "abg"


@pytest.mark.parametrize("text", ["metric. > 1", "metric.a ~ 1", "metric.a > high", 'metric."a > 1'])
def test_what_is_no_comparison_of_a_metric(found, text):
    with pytest.raises(FilterError):
        found(text)


def test_a_run_that_spends_compute_is_never_hidden(found, runs):
    change(runs["delta"], state=State.RUNNING)

    assert found("") == "abdg"


EVERY = [
    (field, op)
    for field in FIELDS
    for op in OPERATORS[field.kind]
]  # fmt: skip
SAMPLES = {FieldType.CHOICE: "running", FieldType.NUMBER: "0.5", FieldType.WHOLE: "1", FieldType.TIME: "today",
           FieldType.AGE: "2d",
           FieldType.FLAG: "yes", FieldType.ALARM: "active", FieldType.CONFIG: "0.0003",
           FieldType.METRIC: "0.2"}  # fmt: skip


@pytest.mark.parametrize(("field", "op"), EVERY, ids=lambda x: getattr(x, "name", x))
def test_a_condition_and_its_opposite_are_everything(found, field, op):
    name = {CONFIG: "config.lr", METRIC: "metric.train/entropy"}.get(field, field.name)
    sample = "launched" if field.name == "origin" else SAMPLES.get(field.kind, "paper")
    condition = f"{name} {op} {sample}"
    everything = "(archived:yes OR archived:no)"

    inside, outside = found(f"{everything} {condition}"), found(f"{everything} NOT {condition}")

    assert sorted(inside + outside) == sorted("abgd")


@given(TREES)
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_tree_runs_and_splits_the_runs_in_two(found, tree):
    text = to_text(tree)
    if len(text) > MAX_LENGTH - 40 or depth(tree) > MAX_DEPTH - 2:
        return
    try:
        compile_filter(text, user=None)
    except FilterError:
        return
    everything = "(archived:yes OR archived:no)"

    inside, outside = found(f"{everything} ({text})"), found(f"{everything} {to_text(Not(tree))}")

    assert sorted(inside + outside) == sorted("abgd")


@pytest.mark.parametrize("sort", [*SORTS, "config.lr", "config.loss.type"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_every_order_holds_every_run_once(project, runs, sort, sign):
    listed = list(Run.objects.filter(project=project).order_by(*ordering(sign + sort)))

    assert len({run.pk for run in listed}) == len(listed) == 4


def test_by_ceiling_what_is_identified_comes_first(project, runs):
    names = lambda sort: [run.name for run in Run.objects.filter(project=project).order_by(*ordering(sort))]

    assert names("-ceiling")[:2] == names("ceiling")[:2] == ["alpha", "beta"]
    assert known_sort("nothing") == known_sort("config.") == "-created"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("sta", "state"),
        ("state:run", "running"),
        ("state:running,fai", "failed"),
        ("recipe = scal", "scalerl"),
        ("tag:p", "paper"),
        ("by:", "me"),
        ("alarm:act", "active"),
        ("model:", '"7b"'.strip('"')),
        ("config.lo", "config.loss.type"),
        ("config.loss.type = ", "cispo"),
        ("created > ", "1h"),
        ("NOT (task:c", "code"),
    ],
)
def test_completions(project, user, runs, text, first):
    offered = completions(project, user, text, len(text))

    assert offered["items"][0]["text"] == first
    assert offered["to"] == len(text)


@pytest.mark.parametrize("text", ["", "nothing:", '"', "config..:", "\0", "name:x", "state > "])
def test_completions_of_anything(project, user, runs, text):
    assert isinstance(completions(project, user, text, len(text))["items"], list)
