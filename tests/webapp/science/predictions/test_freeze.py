"""Freezing: what is copied, what is refused, and that it is made before the data."""

import math

import pytest

from scaling import ranking
from scaling.course import course_of
from scaling.seeds import CORPUS
from tests.webapp.science.predictions.conftest import add_points, rate
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project
from webapp.identity.accounts.services import default_organisation
from webapp.identity.audit.models import Event
from webapp.record.runs.models import Attempt, Point, Record, Run, State
from webapp.science.curves.fitting import Question, curve_of, fit_curve
from webapp.science.curves.models import Fit
from webapp.science.predictions import services
from webapp.science.predictions.claims import Claim
from webapp.science.predictions.models import Prediction


def forecast_from(run, level=0.9, **window):
    """The same forecast, made here from the points; nothing recalibrates it in a project without a record."""
    return course_of(fit_curve(curve_of(run), Question(level=level, **window)))


def test_the_fit_is_copied_with_its_window_cutoff_and_digest(freeze, run):
    made = freeze(question={"window_lo": 0.2})
    fit = fit_curve(curve_of(run), Question(window_lo=0.2))

    assert made.frozen["params"] == fit.params
    assert made.frozen["status"] == "ok"
    assert made.frozen["forecast"]["ceiling"] == forecast_from(run, window_lo=0.2).ceiling
    assert made.data_digest == fit.digest == made.fit.data_digest
    assert made.window_lo == 0.2
    assert made.cutoff == made.known_until == pytest.approx(8.0)
    assert made.frozen["fitted_lo"] >= 0.2
    assert Fit.objects.get(pk=made.fit_id).window_lo == 0.2
    assert Event.objects.get(verb="prediction.frozen").object_id == made.pk


def test_without_numbers_it_claims_what_the_forecast_says_with_the_noise_of_one_evaluation(freeze, run):
    made = freeze()
    value, lo, hi = forecast_from(run).value_at(16.0)
    noise = 1.6449 * fit_curve(curve_of(run), Question()).noise_sd

    assert made.value == pytest.approx(value)
    assert made.lo == pytest.approx(value - math.hypot(value - lo, noise), abs=1e-5)
    assert made.hi == pytest.approx(value + math.hypot(hi - value, noise), abs=1e-5)
    assert made.lo < rate(16.0) < made.hi


def test_a_target_beyond_all_that_is_forecast_needs_numbers_of_ones_own(freeze):
    with pytest.raises(InvalidInput, match="Nothing is forecast beyond 20 times") as refused:
        freeze(target=200.0)
    made = freeze(target=200.0, value=0.6, lo=0.5, hi=0.7)

    assert refused.value.field == "value"
    assert made.frozen["own"]["value"] is None


def test_a_fit_may_leave_out_known_points_and_the_claim_says_so(freeze):
    made = freeze(question={"cutoff": 4.0})

    assert made.cutoff <= 4.0
    assert made.known_until == made.frozen["known_until"] == pytest.approx(8.0)


def test_ones_own_numbers_are_kept(freeze):
    made = freeze(value=0.61, lo=0.6, hi=0.63, level=0.8)

    assert (made.value, made.lo, made.hi, made.level) == (0.61, 0.6, 0.63, 0.8)
    assert made.frozen["own"]["value"] != 0.61


def test_a_ceiling_is_the_forecast_one_where_it_is_known(freeze, run):
    made = freeze(statement="ceiling")
    said = forecast_from(run)

    assert said.known
    assert (made.value, (made.lo, made.hi)) == (said.ceiling, said.interval)


def test_a_ceiling_that_is_not_known_needs_an_interval_of_ones_own(freeze, make_run):
    early = make_run(to=0.9, n=12, seed=3)
    with pytest.raises(InvalidInput) as refused:
        freeze(run=early, statement="ceiling", target=10.0)
    made = freeze(run=early, statement="ceiling", target=10.0, value=0.6, lo=0.5, hi=0.7)

    assert refused.value.field == "value"
    assert "does not know the ceiling" in refused.value.message
    assert made.frozen["forecast"]["status"] == "not_identified"
    assert made.frozen["own"]["value"] is None


def test_passing_a_rival_has_the_chance_that_comparisons_say(freeze, run, make_run, other_revision):
    worse = make_run(a=0.5, seed=1, revision=other_revision)
    made = freeze(statement="passes", rival=worse)
    said = ranking.compared([[forecast_from(run)], [forecast_from(worse)]], CORPUS, 16.0)

    assert made.probability == pytest.approx(min(said.here.standings[0].chance, 0.999), abs=1e-4)
    assert made.probability > 0.95
    assert made.value is made.lo is made.hi is None
    assert made.rival_frozen["params"]["A"] == pytest.approx(0.5, abs=0.02)


def test_one_seed_of_a_rival_that_is_hardly_worse_proves_nothing(freeze, make_run, other_revision):
    """Seeds differ by about 0.01: one run 0.005 ahead is no sign of a better recipe, however exact both curves are."""
    near = make_run(a=0.595, seed=1, noise=0.0005, revision=other_revision)
    exact = make_run(a=0.6, seed=2, noise=0.0005)

    assert 0.5 < freeze(run=exact, statement="passes", rival=near).probability < 0.8


def test_a_rival_that_has_hardly_begun_gives_no_probability(freeze, make_run, other_revision):
    young = make_run(to=0.5, n=12, seed=1, revision=other_revision)
    with pytest.raises(
        InvalidInput, match="cannot be compared there: the rival is seen to less than"
    ) as refused:
        freeze(statement="passes", rival=young)

    assert refused.value.field == "probability"


def test_a_shown_probability_is_held_to_that_of_the_curves(freeze, make_run, other_revision):
    worse = make_run(a=0.5, seed=1, revision=other_revision)
    exact = freeze(statement="passes", rival=worse).probability

    made = freeze(statement="passes", rival=worse, probability=float(f"{exact:.3g}"), is_proposed=True)
    with pytest.raises(Conflict, match="by now the forecast says") as refused:
        freeze(statement="passes", rival=worse, probability=exact / 2, is_proposed=True)

    assert made.probability == exact
    assert refused.value.field == "probability"


def test_a_shown_ceiling_that_is_not_known_any_more_is_refused(freeze, make_run):
    early = make_run(to=0.9, n=12, seed=3)
    shown = {"value": 0.6, "lo": 0.5, "hi": 0.7}

    with pytest.raises(Conflict, match="says nothing") as refused:
        freeze(run=early, statement="ceiling", target=10.0, **shown, is_proposed=True)

    assert refused.value.field == "value"
    assert not Prediction.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"target": 3.0, "question": {"cutoff": 4.0}}, "target"),
        ({"target": 0}, "target"),
        ({"target": -1.0}, "target"),
        ({"target": math.nan}, "target"),
        ({"target": math.inf}, "target"),
        ({"target": "16"}, "target"),
        ({"target": True}, "target"),
        ({"target": 10**400}, "target"),
        ({"target": 1e5}, "target"),
        ({"level": 0.0}, "level"),
        ({"level": 1.0}, "level"),
        ({"level": math.nan}, "level"),
        ({"value": 0.6}, "lo"),
        ({"value": 0.6, "lo": 0.5}, "hi"),
        ({"lo": 0.5, "hi": 0.7}, "value"),
        ({"value": 0.6, "lo": 0.7, "hi": 0.5}, "hi"),
        ({"value": 0.6, "lo": 0.6, "hi": 0.6}, "hi"),
        ({"value": 0.8, "lo": 0.5, "hi": 0.7}, "value"),
        ({"value": 0.6, "lo": -0.1, "hi": 0.7}, "lo"),
        ({"value": 0.6, "lo": 0.5, "hi": 1.1}, "hi"),
        ({"value": 0.6, "lo": math.nan, "hi": 0.7}, "lo"),
        ({"probability": 0.5}, "probability"),
        ({"statement": "wins"}, "statement"),
        ({"statement": "passes"}, "rival"),
        ({"reasons": ""}, "reasons"),
        ({"reasons": "  \n "}, "reasons"),
        ({"reasons": "x" * 10_001}, "reasons"),
        ({"reasons": "a\0b"}, "reasons"),
        ({"reasons": None}, "reasons"),
        ({"question": {"x": "hours"}}, "x"),
        ({"question": {"metric": "train/reward"}}, "metric"),
        ({"question": {"form": "line"}}, "form"),
        ({"question": {"window_lo": 5.0, "cutoff": 4.0}}, "cutoff"),
        ({"question": {"window_lo": 7.9}}, "cutoff"),
        ({"question": {"cutoff": 0.11}}, "cutoff"),
        ({"question": {"metric": "eval/none/pass_rate"}}, "cutoff"),
        ({"key": "x" * 201}, "Idempotency-Key"),
    ],
)  # fmt: skip
def test_what_cannot_be_claimed_is_refused_and_nothing_is_stored(freeze, changes, field):
    with pytest.raises(InvalidInput) as refused:
        freeze(**changes)

    assert refused.value.field == field
    assert not Prediction.objects.exists()
    assert not Fit.objects.exists()
    assert not Event.objects.exists()


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 1.1, math.nan, "0.5"])
def test_a_probability_lies_strictly_between_0_and_1(freeze, make_run, other_revision, probability):
    rival = make_run(a=0.5, seed=1, revision=other_revision)
    with pytest.raises(InvalidInput) as refused:
        freeze(statement="passes", rival=rival, probability=probability)

    assert refused.value.field == "probability"


def test_rivals_that_do_not_compare(freeze, run, make_run, other_revision, project):
    elsewhere = Project.objects.create(slug="code", name="Code", organisation=default_organisation())
    rivals = [
        run,
        make_run(seed=1),
        make_run(seed=2, revision=other_revision, task="code"),
        make_run(seed=3, revision=None, project=elsewhere),
    ]
    for rival in rivals:
        with pytest.raises(InvalidInput) as refused:
            freeze(statement="passes", rival=rival, probability=0.5)
        assert refused.value.field == "rival"
    with pytest.raises(InvalidInput) as refused:
        freeze(rival=make_run(seed=4, revision=other_revision))
    assert refused.value.field == "rival"


def test_a_target_that_was_passed_is_refused(freeze, run):
    for target in (7.9, 8.0):
        with pytest.raises(Conflict) as refused:
            freeze(target=target)
        assert refused.value.field == "target"
        assert "before the data" in refused.value.message


def test_a_shortened_window_does_not_make_the_past_a_future(freeze):
    with pytest.raises(Conflict):
        freeze(target=6.0, question={"cutoff": 4.0})


def test_superseded_points_were_seen_too(freeze, run):
    add_points(run, [20.0], [0.6])
    Attempt.objects.create(
        run=run, number=2, submission_id="again", started_at="2026-01-01T00:00:00Z", resumed_from_step=8000
    )
    assert curve_of(run).x[-1] == pytest.approx(8.0)

    with pytest.raises(Conflict):
        freeze(target=16.0)


def test_training_past_the_target_is_past_it_even_without_an_evaluation(freeze, run):
    Record.objects.create(
        run=run, attempt=1, seq=1, step=17_000, time="2026-01-01T00:00:00Z", metrics={"train/reward": 0.5},
        compute={"device_hours": 17.0, "flops": None, "tokens": None},
    )  # fmt: skip

    with pytest.raises(Conflict):
        freeze(target=16.0)
    assert freeze(target=18.0)


def test_a_part_of_a_mixture_that_was_there_counts(freeze, run):
    add_points(run, [17.0], [0.6], metric="eval/code/pass_rate")

    with pytest.raises(Conflict):
        freeze(target=16.0)


def test_sister_runs_that_were_there_are_told(freeze, make_run, run):
    before = make_run(seed=1, to=20.0, state=State.SUCCEEDED)
    make_run(seed=2, to=4.0)

    assert freeze().frozen["seen"] == [before.pk]


@pytest.mark.parametrize("x", ["flops", "tokens", "step"])
def test_on_other_axes_the_target_is_compared_with_budgets_in_proportion(freeze, x):
    scale = {"flops": 1e15, "tokens": 1e6, "step": 1e3}[x]
    made = freeze(question={"x": x}, target=16.0 * scale)

    assert made.target_hours == pytest.approx(16.0, rel=1e-3)
    assert made.known_until == pytest.approx(8.0 * scale)


def test_a_repeated_request_is_the_same_prediction(freeze):
    first = freeze(key="k")
    again = freeze(key="k")
    with pytest.raises(Conflict) as refused:
        freeze(key="k", reasons="Other reasons.")

    assert first.pk == again.pk
    assert refused.value.field == "Idempotency-Key"
    assert Prediction.objects.count() == 1


def test_a_key_belongs_to_its_person(freeze, admin):
    assert freeze(key="k").pk != freeze(key="k", user=admin).pk


def test_a_run_without_a_curve(freeze, make_run):
    flat = make_run(seed=5, a=0.2, noise=0.0)
    with pytest.raises(InvalidInput) as refused:
        freeze(run=flat)

    assert refused.value.field == "cutoff"


def test_the_proposal_prefills_what_freezing_would_store(freeze, run):
    said = services.proposal(run, Claim("pass_rate", 16.0))
    made = freeze()

    assert (said.value, said.lo, said.hi) == (made.value, made.lo, made.hi)
    assert said.horizon == pytest.approx(2.0)
    assert said.problem == ""


def test_the_proposal_says_why_there_is_none(make_run):
    early = make_run(to=0.9, n=12, seed=3)

    assert "does not know the ceiling" in services.proposal(early, Claim("ceiling", 10.0)).problem
    assert "No fit yet" in services.proposal(early, Claim("pass_rate", 10.0, Question(cutoff=0.11))).problem


def test_the_truth_is_inside_most_claims(freeze, make_run):
    """The default interval is honest on curves that follow the law."""
    inside = 0
    for seed in range(10, 30):
        made = freeze(run=make_run(seed=seed))
        inside += made.lo <= float(rate(16.0)) <= made.hi

    assert inside >= 15


def forget_hours(points):
    points.update(device_hours=None, flops=None)


def test_newer_evaluations_of_unknown_compute_may_lie_beyond_any_target(freeze, run):
    newest = Point.objects.order_by("-step").values_list("pk", flat=True)[:3]
    forget_hours(Point.objects.filter(pk__in=list(newest)))

    with pytest.raises(Conflict) as refused:
        freeze(target=9.0)

    assert refused.value.field == "target"
    assert "3 newer evaluations of this run have no known device-hours" in refused.value.message
    assert freeze(target=9000, question={"x": "step"})


def test_older_evaluations_of_unknown_compute_keep_nobody_from_a_claim(freeze, run):
    oldest = Point.objects.order_by("step").values_list("pk", flat=True)[:3]
    forget_hours(Point.objects.filter(pk__in=list(oldest)))

    assert freeze(target=16.0).frozen["n"] == 37


def test_training_of_a_run_whose_hours_were_worked_out_counts_by_its_points(freeze, run):
    Run.objects.filter(pk=run.pk).update(meaning={"devices": 8.0})
    add_points(run, [17.0], [0.5], metric="train/reward")

    with pytest.raises(Conflict):
        freeze(target=16.0)
    assert freeze(target=18.0)


def test_nothing_is_claimed_of_points_that_are_being_made_anew(freeze, run):
    Run.objects.filter(pk=run.pk).update(remaking={"undo": ["devices"], "after": 0})

    with pytest.raises(Conflict, match="being made anew"):
        freeze(target=18.0)
