"""Deciding: what is kept of the moment, and what never changes."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from tests.webapp.interfaces.pages.addresses import make_prediction
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.audit.models import Event
from webapp.record.recipes.models import Revision
from webapp.science.curves import estimates
from webapp.science.decisions import selectors
from webapp.science.decisions.models import Entry
from webapp.science.decisions.services import decide, said
from webapp.science.predictions.services import withdraw
from webapp.science.studies.models import Arm, Study, StudyRun


@pytest.fixture
def choose(user):
    """choose("stop", run, ...): a stored entry."""
    return lambda kind, found, *, reason="It has bent.", **more: decide(
        found, user=user, kind=kind, reason=reason, **more
    )


@pytest.fixture
def study(user, project):
    """study(run): one with nothing but its base."""

    def make(run):
        revision = Revision.objects.get(recipe__project=project, recipe__slug="tiny-scalerl", number=1)
        common = {"task": run.task, "model": run.model}
        made = Study.objects.create(project=project, name="Seeds", base=revision, budget_hours=16.0, **common)
        arm = Arm.objects.create(study=made, position=0, label="Base", revision=revision, **common)
        StudyRun.objects.create(study=made, run=run, arm=arm)
        return made

    return make


def test_how_a_run_stood_is_kept(choose, make_run):
    run = make_run(16)
    fit = estimates.latest([run.pk])[run.pk].fit

    entry = choose("continue", run)

    state = Entry.objects.get().state
    assert (entry.about, entry.object_id, entry.name) == ("run", run.pk, "ScaleRL (tiny), seed 0")
    assert (state["used_hours"], state["budget_hours"]) == (8.0, 16.0)
    assert state["pass_rate"] == run.summary.pass_rate
    assert state["ceiling"]["lo"] < 0.6 < state["ceiling"]["hi"]
    assert state["ceiling"]["value"] == pytest.approx(fit.params["A"])
    assert state["forecast"]["at"] == 16.0
    assert state["forecast"]["lo"] < state["forecast"]["value"] < state["forecast"]["hi"]
    assert said(state).startswith("Pass rate 0.") and "8.00 of 16.0 device-hours; forecast at" in said(state)


def test_a_run_without_an_evaluation_can_be_decided_on(choose, make_run):
    state = choose("stop", make_run(0)).state

    assert (state["pass_rate"], state["forecast"]) == (None, None)
    assert said(state) == "Pass rate –; ceiling not identified yet (no fit yet); 0 of 16.0 device-hours."


def test_of_a_prediction_what_its_page_said_is_kept(choose, make_run, user):
    prediction = make_prediction(user, make_run(16), value=0.6, lo=0.58, hi=0.62)

    entry = choose("note", prediction)
    withdraw(prediction, user=user, reason="The data were wrong.")
    prediction.refresh_from_db()

    assert said(Entry.objects.get().state) == (
        "Open; nobody was asked to review it. No run has passed its target yet."
    )
    assert entry.name.startswith("ScaleRL (tiny) rev 1 on arithmetic with tiny-arithmetic: pass rate")
    assert "Withdrawn: The data were wrong." in said(choose("stop", prediction).state)


def test_of_a_study_its_progress_and_its_line_in_the_list_are_kept(choose, make_run, study):
    entry = choose("continue", study(make_run(16)))

    assert (entry.about, entry.name) == ("study", "Seeds")
    assert said(entry.state) == "0 of 1 run done, 1 running. No variant yet."


def test_the_log_never_changes(choose, make_run):
    choose("stop", make_run(10))

    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        Entry.objects.update(reason="another")

    assert Entry.objects.get().reason == "It has bent."


def test_a_deleted_run_leaves_its_entries(choose, make_run):
    run = make_run(10, name="gone")
    choose("stop", run)

    run.delete()

    assert Entry.objects.get().name == "gone, seed 0"


def test_the_same_form_decides_once(choose, make_run):
    run = make_run(0)

    first, again = choose("stop", run, key="k"), choose("stop", run, key="k")

    assert first.pk == again.pk
    assert Entry.objects.count() == 1
    with pytest.raises(Conflict):
        choose("continue", run, key="k")
    with pytest.raises(Conflict):
        choose("stop", make_run(0, seed=1), key="k")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"kind": "pause"}, "kind"),
        ({"reason": "  "}, "reason"),
        ({"reason": "x" * 4001}, "reason"),
        ({"kind": "switch"}, "to"),
        ({"to": "Wide"}, "to"),
        ({"kind": "switch", "to": "x" * 301}, "to"),
        ({"key": ""}, "key"),
    ],
)
def test_bad_input_is_refused_by_name(make_run, user, more, field):
    with pytest.raises(InvalidInput) as refused:
        decide(make_run(0), user=user, **({"kind": "stop", "reason": "why"} | more))

    assert refused.value.field == field
    assert not Entry.objects.exists()


def test_what_belongs_to_another_project_is_not_there(project, foreign_run):
    for about, key, field in (("run", foreign_run.pk, "object_id"), ("recipe", "x", "about")):
        with pytest.raises(InvalidInput) as refused:
            selectors.object_of(project, about, key)
        assert refused.value.field == field


def test_it_is_audited(choose, make_run):
    entry = choose("stop", make_run(0))

    found = Event.objects.filter(object_kind="decision").values_list("verb", "object_id")
    assert list(found) == [("decision.made", entry.pk)]


def test_the_log_is_one_query(choose, make_run, project):
    for seed in range(3):
        choose("continue", make_run(0, seed=seed))

    with CaptureQueriesContext(connection) as seen:
        assert len([one.decided_by.username for one in selectors.decisions_of(project)]) == 3
    assert len(seen) == 1
