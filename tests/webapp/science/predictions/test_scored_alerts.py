"""A rule of the project hears of every prediction that its runs score."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.science.predictions.conftest import add_points
from webapp.reporting.alerts import firing
from webapp.reporting.alerts.models import AlertRule, Firing
from webapp.reporting.alerts.rules import Wanted, create_rule
from webapp.science.curves import words
from webapp.science.predictions.judging import score_run


@pytest.fixture
def watch(admin, project):
    """watch("inside"): a rule of the project that has watched for an hour."""

    def make(scored):
        wanted = Wanted(name=scored, on="outcome", condition={"scored": scored})
        rule = create_rule(user=admin, project=project, wanted=wanted, shared=True)
        AlertRule.objects.filter(pk=rule.pk).update(since=timezone.now() - timedelta(hours=1))

    return make


@pytest.mark.parametrize(
    ("scored", "actual", "fires"),
    [
        ("any", 0.6, True),
        ("any", 0.7, True),
        ("inside", 0.6, True),
        ("inside", 0.7, False),
        ("outside", 0.7, True),
    ],
)
def test_a_score_fires_once_in_the_run_that_made_it(freeze, run, watch, scored, actual, fires):
    made = freeze(value=0.6, lo=0.55, hi=0.65)
    watch(scored)
    firing.check_changed(seconds=60)
    add_points(run, [16.0], [actual], stderr=0.004)
    score_run(run.pk)

    firing.check_changed(seconds=60)
    firing.check_changed(seconds=60)

    found = list(Firing.objects.values_list("run", "episode", "text"))
    side = "inside" if actual == 0.6 else "outside"
    said = f"{words.rate(actual, (made.lo, made.hi))} came, 0.6"
    assert [(pk, episode) for pk, episode, _ in found] == [(run.pk, f"prediction:{made.pk}")] * fires
    assert all(
        f"a prediction of ada was scored: {said}" in text and text.endswith(f", {side} the interval")
        for *_, text in found
    )
