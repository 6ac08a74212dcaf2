"""Outcomes from unsampled points: where the actual comes from, when there is none yet, and that it is made once."""

import logging
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.utils import timezone

from scaling.course import course_of
from tests.webapp.science.predictions.conftest import add_points, rate
from webapp.base.errors import Conflict
from webapp.record.runs.meaning import Meaning, state_meaning
from webapp.record.runs.models import Attempt, Point, Run, State
from webapp.reporting.alerts.models import Notice
from webapp.science.curves.fitting import Question, curve_of, fit_curve
from webapp.science.predictions import judging, services
from webapp.science.predictions.judging import score_all, score_run
from webapp.science.predictions.models import Outcome, Pending, Prediction
from webapp.science.predictions.selectors import prediction_by_id, status_of


def score_one(run):
    (outcome,) = score_run(run.pk)
    return outcome


def test_an_evaluation_at_the_target_is_the_actual(freeze, run):
    made = freeze(value=0.6, lo=0.59, hi=0.61)
    add_points(run, [12.0, 16.0, 20.0], [0.58, 0.62, 0.7], stderr=0.004)
    outcome = score_one(run)

    assert outcome.prediction_id == made.pk
    assert outcome.actual == 0.62
    assert outcome.error == pytest.approx(0.02)
    assert outcome.inside is False
    assert outcome.interval_score == pytest.approx(0.02 + 2 / 0.1 * 0.01)
    assert outcome.actual_lo == pytest.approx(0.62 - 1.6448536 * 0.004)
    assert outcome.how["method"] == "exact"
    assert [point["x"] for point in outcome.how["points"]] == [16.0]


def test_between_two_evaluations_it_is_interpolated_in_log_compute(freeze, run):
    freeze(value=0.6, lo=0.55, hi=0.65)
    add_points(run, [12.0, 20.0], [0.58, 0.62], stderr=0.01)
    outcome = score_one(run)
    way = math.log(16 / 12) / math.log(20 / 12)

    assert outcome.actual == pytest.approx(0.58 + way * 0.04)
    se = math.hypot((1 - way) * 0.01, way * 0.01)
    assert outcome.actual_hi - outcome.actual == pytest.approx(1.6448536 * se)
    assert outcome.inside is True
    assert outcome.interval_score == pytest.approx(0.1)
    assert [point["x"] for point in outcome.how["points"]] == [12.0, 20.0]


def test_without_reported_errors_the_scatter_around_the_fit_is_taken(freeze, run):
    made = freeze()
    add_points(run, [16.0], [0.6], stderr=None)
    outcome = score_one(run)

    reach = 1.6448536 * made.frozen["noise_sd"]
    assert outcome.actual_lo == pytest.approx(0.6 - reach)


def test_nothing_is_scored_before_the_target(freeze, run):
    freeze()
    add_points(run, [15.99], [0.6])

    assert score_run(run.pk) == []
    assert not Pending.objects.exists()


def test_an_outcome_is_made_once_and_stays(freeze, run):
    freeze()
    add_points(run, [16.0], [0.6])
    score_one(run)
    assert score_run(run.pk) == [] == score_all()

    Attempt.objects.create(
        run=run, number=2, submission_id="again", started_at=timezone.now(), resumed_from_step=8000
    )
    add_points(run, [16.0], [0.5], attempt=2)
    assert score_run(run.pk) == [] == score_all()
    stored = Outcome.objects.get()
    assert stored.actual == 0.6
    assert Notice.objects.filter(kind="prediction_scored").count() == 1


def test_superseded_points_do_not_score(freeze, run):
    freeze()
    add_points(run, [16.0], [0.9])
    Attempt.objects.create(
        run=run, number=2, submission_id="again", started_at=timezone.now(), resumed_from_step=8000
    )

    assert score_run(run.pk) == []
    add_points(run, [16.0], [0.6], attempt=2)
    assert score_one(run).actual == 0.6


def test_sister_runs_score_unless_they_were_there_before(freeze, run, make_run):
    before = make_run(seed=1, to=20.0)
    made = freeze()
    after = make_run(seed=2, to=20.0)
    other_task = make_run(seed=3, to=20.0, task="code")
    other_model = make_run(seed=4, to=20.0, model="32b")

    assert [score_run(one.pk) for one in (before, other_task, other_model)] == [[], [], []]
    outcome = score_one(after)
    assert (outcome.prediction_id, outcome.run_id) == (made.pk, after.pk)
    add_points(run, [16.0], [0.6])
    assert score_one(run).run_id == run.pk
    assert Outcome.objects.count() == 2


def test_a_tracked_run_without_recipe_scores_its_own_claims_alone(freeze, make_run):
    own, other = make_run(seed=1, revision=None), make_run(seed=2, revision=None)
    freeze(run=own)
    add_points(other, [16.0], [0.6])
    add_points(own, [16.0], [0.6])

    assert score_run(other.pk) == []
    assert score_one(own).run_id == own.pk


def test_withdrawn_and_replaced_claims_are_not_scored(freeze, run, author):
    services.withdraw(freeze(target=15.0), user=author, reason="Wrong.")
    last = freeze(replaces=freeze(target=15.5))
    add_points(run, [14.0, 16.0], [0.6, 0.6])

    assert [outcome.prediction_id for outcome in score_run(run.pk)] == [last.pk]


def test_a_ceiling_is_judged_by_the_forecast_up_to_the_target(freeze, run):
    made = freeze(statement="ceiling")
    hours = np.geomspace(9.0, 24.0, 10)
    add_points(run, hours, rate(hours) + 0.002 * np.random.default_rng(7).standard_normal(10))
    outcome = score_one(run)
    stop = float(hours[hours >= 16.0][0])
    fit = fit_curve(curve_of(run), Question(cutoff=stop))

    came = course_of(fit)

    assert came.known
    assert outcome.actual == pytest.approx(came.ceiling)
    assert (outcome.actual_lo, outcome.actual_hi) == pytest.approx(came.interval)
    assert outcome.inside == (made.lo <= came.ceiling <= made.hi)
    assert outcome.how["fit_digest"] == fit.digest


def test_a_ceiling_that_stays_unknown_leaves_the_claim_open(freeze, make_run, project):
    early = make_run(to=0.5, n=12, seed=3)
    made = freeze(run=early, statement="ceiling", target=0.7, value=0.6, lo=0.5, hi=0.7)
    add_points(early, [0.72], rate([0.72]))
    Run.objects.filter(pk=early.pk).update(state=State.SUCCEEDED)

    assert score_run(early.pk) == []
    (pending,) = Pending.objects.all()
    assert "do not tell its ceiling" in pending.reason
    assert status_of(prediction_by_id(project, made.pk)).life == "open"


def test_evaluations_too_far_apart_say_nothing(freeze, make_run):
    run = make_run(to=3.0)
    freeze(run=run, target=10.0)
    add_points(run, [20.0], [0.6])

    assert score_run(run.pk) == []
    assert "too far apart" in Pending.objects.get().reason


def test_a_pending_reason_goes_with_the_outcome(freeze, make_run):
    run = make_run(to=3.0)
    freeze(run=run, target=10.0)
    add_points(run, [20.0], [0.6])
    score_run(run.pk)
    add_points(run, [9.0], [0.6])  # reported late

    assert score_one(run)
    assert not Pending.objects.exists()


@pytest.fixture
def rivals(freeze, make_run, other_revision):
    """rivals(target=..): (own, rival) at 8 hours with a claim that own lies above by the target."""

    def make(own=0.6, other=0.5, **changes):
        first, second = make_run(seed=11, a=own), make_run(seed=12, a=other, revision=other_revision)
        freeze(run=first, statement="passes", rival=second, probability=0.8, **changes)
        return first, second

    return make


def test_passing_waits_for_the_rival_and_is_told_by_it(rivals):
    own, rival = rivals()
    add_points(own, [16.0], [0.6])
    assert score_run(own.pk) == []
    assert "cannot be read there" in Pending.objects.get().reason
    add_points(rival, [16.0], [0.5])
    outcome = score_one(rival)

    assert (outcome.run_id, outcome.happened, outcome.actual) == (own.pk, True, None)
    assert outcome.probability_score == pytest.approx(0.04)
    assert outcome.log_score == pytest.approx(-math.log(0.8))
    assert outcome.how["difference"] == pytest.approx(0.1)
    assert not Pending.objects.exists()


def test_a_rival_that_stayed_above(rivals):
    own, rival = rivals(own=0.5, other=0.6)
    add_points(own, [16.0], [0.5])
    add_points(rival, [16.0], [0.6])
    outcome = score_one(own)

    assert outcome.happened is False
    assert outcome.probability_score == pytest.approx(0.64)
    assert outcome.log_score == pytest.approx(-math.log(0.2))


def test_a_difference_within_its_error_tells_nothing(rivals):
    own, rival = rivals()
    add_points(own, [16.0], [0.60], stderr=0.01)
    add_points(rival, [16.0], [0.59], stderr=0.01)

    assert score_run(own.pk) == []
    assert "cannot be told apart: +0.01" in Pending.objects.get().reason


def test_evaluations_older_than_the_claim_are_marked(freeze, run):
    freeze()
    add_points(run, [16.0], [0.6], time=datetime(2026, 1, 1, tzinfo=UTC))
    old = score_one(run)
    freeze(target=30.0)
    add_points(run, [20.0, 30.0], [0.6, 0.6], time=timezone.now() + timedelta(minutes=1))

    assert old.how["measured_before_claim"] is True
    assert score_one(run).how["measured_before_claim"] is False


def test_one_broken_claim_keeps_no_other_from_its_score(freeze, run, monkeypatch, caplog):
    broken, sound = freeze(target=15.0), freeze()
    add_points(run, [15.0, 16.0], [0.6, 0.6])
    whole = judging.judge

    def judge(prediction, by):
        if prediction.pk == broken.pk:
            raise RuntimeError("broken")
        return whole(prediction, by)

    monkeypatch.setattr("webapp.science.predictions.judging.judge", judge)
    with caplog.at_level(logging.CRITICAL):
        made = score_run(run.pk)

    assert [outcome.prediction_id for outcome in made] == [sound.pk]


def test_the_sweep_finds_what_was_missed(freeze, run, make_run):
    freeze()
    add_points(run, [16.0], [0.6])
    make_run(seed=2, to=20.0)

    assert len(score_all()) == 2
    assert score_all() == []


def test_reading_a_page_makes_no_outcome(freeze, run, project):
    made = freeze()
    add_points(run, [16.0], [0.6])
    prediction_by_id(project, made.pk)

    assert not Outcome.objects.exists()


def test_a_refit_without_claims_asks_little(run, django_assert_max_num_queries):
    with django_assert_max_num_queries(4):
        assert score_run(run.pk) == []
    assert score_run("nothing") == []
    assert Point.objects.exists() and not Prediction.objects.exists()


@pytest.mark.parametrize("as_rival", [False, True])
def test_what_the_points_of_a_run_mean_stays_while_a_claim_about_it_is_open(
    freeze, make_run, author, as_rival
):
    run, rival = (make_run(seed=seed, revision=None, origin=Run.Origin.TRACKED) for seed in (5, 6))
    add_points(run, [9.0], [0.5], metric="val/acc")
    claim = freeze(run=run, statement="passes", rival=rival, probability=0.5)
    before = list(Point.objects.order_by("pk").values())

    with pytest.raises(Conflict, match="A prediction about this run is open"):
        state_meaning(rival if as_rival else run, Meaning(devices=16.0), user=author)
    assert list(Point.objects.order_by("pk").values()) == before

    services.withdraw(claim, user=author, reason="Its devices were not known.")
    assert state_meaning(rival if as_rival else run, Meaning(devices=16.0), user=author)
