"""Deciding: what is frozen, what never changes, and what came of it."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from tests.deciding import decided
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.interfaces.pages.data import curve_records
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.audit.models import Event
from webapp.record.recipes.models import Revision
from webapp.record.runs import ingest
from webapp.record.runs.models import Run
from webapp.science.curves.selectors import latest_fits
from webapp.science.curves.services import refit
from webapp.science.decisions import selectors
from webapp.science.decisions.models import Decision, Note, Subject
from webapp.science.decisions.services import add_note
from webapp.science.predictions.models import Outcome, Pending
from webapp.science.predictions.services import withdraw


def go_on(run, first, last, *, to=8.0, n=16, **curve):
    """More evaluations of a run, half a device-hour apart."""
    ingest.store_records(run, [r for r in curve_records(n, to=to, **curve) if first <= r.seq <= last])


@pytest.fixture
def choose(user, project):
    """choose("stop", run, ...): a stored decision."""

    def make(kind, *runs, reason="It has bent.", **more):
        return decided(user=user, project=project, kind=kind, runs=runs, reason=reason, **more)

    return make


def came(decision):
    """The sentences about it, as a page would read them."""
    found = selectors.decision_by_id(decision.project, decision.pk)
    return selectors.entries([found])[0].came


def test_how_things_stood_is_frozen(choose, make_run):
    run = make_run(16)
    fit = latest_fits([run.pk], outlooks=True)[run.pk]

    state = Subject.objects.get(decision=choose("continue", run)).state

    assert state["used_hours"] == 8.0
    assert state["budget_hours"] == 16.0
    assert state["pass_rate"] == run.summary.pass_rate
    assert state["ceiling"]["lo"] < 0.6 < state["ceiling"]["hi"]
    assert state["ceiling"]["value"] == pytest.approx(fit.params["A"])
    assert state["forecast"]["at"] == 16.0
    assert state["forecast"]["lo"] < state["forecast"]["value"] < state["forecast"]["hi"]


def test_a_run_without_an_evaluation_can_be_decided_on(choose, make_run):
    state = Subject.objects.get(decision=choose("stop", make_run(0))).state

    assert state["pass_rate"] is None
    assert state["forecast"] is None
    assert not state["ceiling"]["identified"]


def test_what_came_after_continue_is_held_against_the_fit_of_then(choose, make_run):
    run = make_run(10, to=5.0)
    decision = choose("continue", run)
    assert came(decision)[0].sentence == "No evaluation came since."

    go_on(run, 11, 16)
    refit(run.pk)

    found = came(decision)[0]
    assert "now, after 8.00 device-hours; the fit then said" in found.sentence
    assert found.held is True


def test_a_curve_that_breaks_down_did_not_hold(choose, make_run):
    run = make_run(16)
    decision = choose("continue", run)

    go_on(run, 17, 18, n=18, to=9.0, a=0.1)

    assert came(decision)[0].held is False
    assert "outside" in came(decision)[0].sentence


def test_after_stop_it_says_what_was_spent_since(choose, make_run):
    run = make_run(16)
    decision = choose("stop", run)

    assert came(decision)[0].held is False
    assert "Not stopped: it is running" in came(decision)[0].sentence
    Run.objects.filter(pk=run.pk).update(state="cancelled")
    assert came(decision)[0].sentence == (
        "Stopped, nothing more was spent. 8.00 device-hours of its budget were not spent."
    )


def test_a_switch_is_compared_at_equal_compute(choose, make_run):
    left, taken = (
        make_run(16, name="left", noise=0),
        make_run(6, to=3.0, a=0.8, seed=1, name="taken", noise=0),
    )

    found = came(choose("switch", left, to_run=taken))[0]

    assert found.sentence.startswith("At 3.00 device-hours taken, seed 1 has 0.740, this run 0.560: +0.180")
    assert found.held is True


def test_a_switch_to_a_recipe_is_judged_by_its_runs_on_the_same_task(choose, make_run):
    left = make_run(16, noise=0)
    other = Revision.objects.get(recipe__slug="tiny-deepseek-grpo", number=1)
    decision = choose("switch", left, to_revision=other)
    assert came(decision)[0].sentence == f"No run of {other} was launched yet."

    make_run(16, recipe="tiny-deepseek-grpo", a=0.5, seed=1, noise=0)
    make_run(16, recipe="tiny-deepseek-grpo", a=0.6, seed=2, noise=0)

    assert (
        f"At 8.00 device-hours {other} has 0.545 (mean of 2 runs), this run 0.594"
        in came(decision)[0].sentence
    )
    assert came(decision)[0].held is False


def test_the_predictions_outcome_is_said(choose, make_run, user, project):
    run = make_run(16)
    prediction = make_prediction(user, run, value=0.6, lo=0.58, hi=0.62)
    decision = choose("continue", run, prediction=prediction)
    assert came(decision)[1].sentence == "The prediction: no run has passed its target yet."

    Pending.objects.create(prediction=prediction, run=run, reason="Its evaluations are too far apart.")
    assert came(decision)[1].sentence == "The prediction: a run has passed its target, but cannot tell yet."

    Outcome.objects.create(prediction=prediction, run=run, actual=0.55, inside=False)

    assert came(decision)[1].sentence == "The prediction: 0.550 came: outside its interval."
    assert came(decision)[1].held is False


def test_a_claim_that_was_replaced_waits_for_nothing(choose, make_run, user):
    run = make_run(16)
    prediction = make_prediction(user, run, value=0.6, lo=0.58, hi=0.62)
    decision = choose("continue", run, prediction=prediction)
    make_prediction(user, run, value=0.6, lo=0.55, hi=0.65, replaces=prediction)

    assert came(decision)[1].sentence == "The prediction: replaced by a newer claim, so it is not scored."


@pytest.mark.parametrize("change", ["decision", "note", "subject"])
def test_the_log_never_changes(choose, make_run, user, change):
    decision = choose("stop", make_run(10))
    add_note(decision, user=user, text="later")
    rows = {
        "decision": Decision.objects.filter(pk=decision.pk),
        "note": Note.objects.all(),
        "subject": Subject.objects.all(),
    }[change]
    fields = {"decision": {"reason": "another"}, "note": {"text": "another"}, "subject": {"state": {}}}[
        change
    ]

    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        rows.update(**fields)

    assert Decision.objects.get().reason == "It has bent."


def test_a_deleted_run_leaves_its_decision(choose, make_run):
    run = make_run(10, name="gone")
    decision = choose("stop", run)

    run.delete()

    assert Subject.objects.get().name == "gone, seed 0"
    assert came(decision)[0].sentence == "The run was deleted: nothing more can be said."


def test_a_decision_is_revised_once_by_a_new_one(choose, make_run):
    run = make_run(10)
    first = choose("stop", run)

    second = choose("continue", run, revises=first, reason="It climbs again.")

    assert selectors.decision_by_id(first.project, first.pk).revised_by == second
    with pytest.raises(Conflict, match=f"by {second.pk}"):
        choose("stop", run, revises=first)


def test_the_same_form_decides_once(choose, make_run):
    run = make_run(0)

    first, again = choose("stop", run, key="k"), choose("stop", run, key="k")

    assert first.pk == again.pk
    assert Decision.objects.count() == 1
    with pytest.raises(Conflict):
        choose("continue", run, key="k")


def test_a_revision_sent_twice_is_one(choose, make_run):
    run = make_run(0)
    first = choose("stop", run)

    second, again = (choose("continue", run, revises=first, key="k") for _ in range(2))

    assert second.pk == again.pk
    assert Decision.objects.count() == 2


def test_a_decision_does_not_rest_on_a_withdrawn_prediction(choose, make_run, user):
    run = make_run(10)
    prediction = make_prediction(user, run)
    before = choose("continue", run, prediction=prediction, key="k")
    withdraw(prediction, user=user, reason="The data were wrong.")

    with pytest.raises(InvalidInput, match="withdrawn") as refused:
        choose("stop", run, prediction=prediction)

    assert refused.value.field == "prediction"
    assert choose("continue", run, prediction=prediction, key="k") == before
    assert list(Decision.objects.all()) == [before]


def test_a_decision_does_not_rest_on_a_replaced_prediction(choose, make_run, user):
    run = make_run(10)
    old = make_prediction(user, run)
    new = make_prediction(user, run, replaces=old)

    with pytest.raises(InvalidInput, match="replaced by a newer claim") as refused:
        choose("stop", run, prediction=old)

    assert refused.value.field == "prediction"
    assert choose("stop", run, prediction=new).prediction == new


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"kind": "pause"}, "kind"),
        ({"runs": []}, "runs"),
        ({"reason": "  "}, "reason"),
        ({"reason": "x" * 4001}, "reason"),
        ({"kind": "switch"}, "to"),
        ({"key": ""}, "key"),
    ],
)
def test_bad_input_is_refused_by_name(make_run, user, project, more, field):
    asked = {"kind": "stop", "runs": [make_run(0)], "reason": "why"} | more

    with pytest.raises(InvalidInput) as refused:
        decided(user=user, project=project, **asked)

    assert refused.value.field == field
    assert not Decision.objects.exists()


def test_what_belongs_to_another_project_is_refused(choose, make_run, foreign_run):
    run = make_run(0)

    for asked in ({"to_run": foreign_run}, {"to_run": run}):
        with pytest.raises(InvalidInput, match="another run of this project"):
            choose("switch", run, **asked)
    with pytest.raises(InvalidInput, match="runs of one project"):
        choose("stop", run, foreign_run)
    with pytest.raises(InvalidInput, match="Only a switch"):
        choose("stop", run, to_run=make_run(0, seed=1))


def test_it_is_audited(choose, make_run, user):
    decision = choose("stop", make_run(0))
    add_note(decision, user=user, text="later")
    add_note(decision, user=user, text="later")

    assert Note.objects.count() == 1
    assert list(Event.objects.filter(object_kind="decision").order_by("pk").values_list("verb", "object_id")) == [
        ("decision.made", decision.pk), ("decision.noted", decision.pk),
    ]  # fmt: skip


def test_the_number_of_queries_does_not_grow(choose, make_run, project):
    runs = [make_run(8, to=4.0, seed=seed) for seed in range(3)]
    recipe = Revision.objects.get(recipe__slug="tiny-deepseek-grpo", number=1)

    def queries():
        with CaptureQueriesContext(connection) as seen:
            assert selectors.entries(selectors.decisions_of(project))
        return len(seen)

    choose("switch", runs[0], to_run=runs[1])
    choose("switch", runs[0], to_revision=recipe)
    few = queries()
    for run in runs:
        choose("continue", run)
        choose("switch", run, to_revision=recipe)
    assert queries() == few <= 8
