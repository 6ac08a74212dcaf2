"""A metric that was renamed when it was stored is found by what its trainer calls it."""

import pytest

from webapp.record.runs import ingest
from webapp.record.runs.filtering import narrow
from webapp.record.runs.filtering.completing import completions
from webapp.record.runs.models import Run
from webapp.record.runs.points import curve_columns, effective_points
from webapp.record.runs.sampling import sampled_points
from webapp.record.runs.selectors import stored_name


@pytest.fixture
def renamed(tracked, make_record):
    """With the reward of a trainer, as it is stored."""
    ingest.store_records(tracked, [make_record(step, {"train/reward": step / 10}) for step in range(3)])
    return tracked


@pytest.mark.parametrize("name", ["train/reward", "reward", "critic/rewards/mean", "reward/all/mean"])
def test_it_is_read_by_each_of_its_names(renamed, project, name):
    assert stored_name(renamed, name) == "train/reward"
    assert [p.value for p in effective_points(renamed, name)] == [0.0, 0.1, 0.2]
    assert sampled_points(renamed, name, "step", 10).total == 3
    assert "0.2" in curve_columns([renamed.pk], name, "step", ["value"])[renamed.pk]
    assert narrow(Run.objects.filter(project=project), f"metric.{name} > 0.1", user=None).get() == renamed


def test_the_name_that_is_stored_goes_before(renamed, make_record):
    ingest.store_records(renamed, [make_record(3, {"reward": 7.0})])

    assert [p.value for p in effective_points(renamed, "reward")] == [7.0]
    assert stored_name(renamed, "no/such") is None


def test_it_is_offered_where_a_filter_is_typed(renamed, project, user):
    found = completions(project, user, "metric.reward/a", 15)["items"]

    assert found == [{"text": "metric.train/reward", "says": "logged as reward/all/mean"}]


def test_a_pass_rate_is_found_by_what_its_import_calls_it(tracked, project, user, make_record):
    ingest.store_records(tracked, [make_record(step, {"eval/pass_rate": step / 10}) for step in range(3)])
    tracked.series.update(logged_as="acc")

    assert stored_name(tracked, "acc") == stored_name(tracked, "eval/pass_rate") == "eval/pass_rate"
    assert [p.value for p in effective_points(tracked, "acc")] == [0.0, 0.1, 0.2]
    assert narrow(Run.objects.filter(project=project), "metric.acc > 0.1", user=None).get() == tracked
    assert completions(project, user, "metric.ac", 9)["items"] == [
        {"text": "metric.eval/pass_rate", "says": "logged as acc"}
    ]
    ingest.store_records(tracked, [make_record(3, {"acc": 7.0})])
    assert [p.value for p in effective_points(tracked, "acc")] == [7.0]
