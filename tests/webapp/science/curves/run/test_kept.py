"""What a run's page says is kept by the refit; what was said of other points is never shown as the answer."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from training.records import Record
from webapp.record.runs.ingest import store_records
from webapp.record.runs.models import Attempt, Point, Run, Series
from webapp.science.curves import services
from webapp.science.curves.fitting import Question
from webapp.science.curves.models import KeptFigure
from webapp.science.curves.run.figure import LATE, keep, run_figure


def report(run, hours, rate, *, seq=1000, attempt=1):
    """One more evaluation, and the wish for a refit."""
    series = Series.objects.get(run=run)
    Point.objects.create(
        series=series, attempt=attempt, seq=seq, step=seq, time=datetime(2026, 1, 2, tzinfo=UTC), value=rate,
        device_hours=hours, flops=hours * 1e15, tokens=hours * 1e6, stderr=0.01,
    )  # fmt: skip
    Run.objects.filter(pk=run.pk).update(refit_wanted_at=timezone.now())
    return Run.objects.get(pk=run.pk)


def as_json(figure):
    return json.loads(json.dumps(figure))


def test_the_refit_keeps_what_the_page_would_say(make_run):
    run = make_run()
    said = as_json(run_figure(run))
    KeptFigure.objects.all().delete()

    services.refit(run.pk)
    kept = KeptFigure.objects.get(run=run).said

    basis = kept.pop("basis")
    assert kept == {name: said[name] for name in kept}
    assert {"points", "fit", "ceiling"} <= kept.keys()
    assert basis["forecast"]["ceiling"] == said["forecast"]["ceiling"]["value"]


def test_what_is_kept_is_read_and_not_made_again(make_run):
    run = make_run()
    services.refit(run.pk)
    KeptFigure.objects.update(said=KeptFigure.objects.get().said | {"fit_title": "as it was kept"})

    assert run_figure(run)["fit_title"] == "as it was kept"


@pytest.mark.parametrize(
    "question",
    [
        {"x": "tokens"},
        {"cutoff": 3.0},
        {"window_lo": 0.3},
        {"level": 0.8},
        {"robust": True},
        {"view": "slope"},
    ],
)
def test_another_question_is_answered_by_itself(make_run, question):
    run = make_run()
    services.refit(run.pk)
    KeptFigure.objects.update(said=KeptFigure.objects.get().said | {"fit_title": "of the whole curve"})

    view = question.get("view", "curve")
    asked = Question(**{name: value for name, value in question.items() if name != "view"})
    assert run_figure(run, asked, view=view)["fit_title"] != "of the whole curve"
    assert KeptFigure.objects.get().said["fit_title"] == "of the whole curve"


@pytest.mark.parametrize("change", [{"name": "Renamed"}, {"budget_hours": 99.0}, {"state": "succeeded"}])
def test_what_it_mentions_of_the_run_is_part_of_the_key(make_run, change):
    run = make_run()
    services.refit(run.pk)
    before = KeptFigure.objects.get().key
    Run.objects.filter(pk=run.pk).update(**change)

    run_figure(Run.objects.get(pk=run.pk))

    assert KeptFigure.objects.get().key != before


def test_a_changed_point_is_never_answered_from_what_is_kept(make_run):
    run = make_run()
    services.refit(run.pk)
    Point.objects.filter(series__run=run, seq=20).update(value=0.9)

    figure = run_figure(run)

    assert 0.9 in figure["points"]["y"]
    assert figure["fit"]["digest"] == services.refit(run.pk).fit.data_digest


def test_what_another_release_kept_is_not_shown(make_run):
    run = make_run()
    services.refit(run.pk)
    row = KeptFigure.objects.get()
    other = f"0.0.1 {row.key.partition(' ')[2]}"
    KeptFigure.objects.update(key=other, said=row.said | {"fit_title": "of another version"})

    assert run_figure(run)["fit_title"] != "of another version"
    assert KeptFigure.objects.get().key == row.key

    KeptFigure.objects.update(key=other)
    assert run_figure(report(run, 8.5, 0.6), may_wait=True)["waiting"] == 0


def test_a_new_evaluation_is_shown_beside_the_fit_that_does_not_know_it(make_run):
    run = make_run()
    services.refit(run.pk)
    before = run_figure(run)

    figure = run_figure(report(run, 8.5, 0.61), may_wait=True)

    newest = [figure["points"][name][-1] for name in ("x", "y", "role")]
    assert newest == [8.5, 0.61, "waiting"]
    assert set(figure["points"]["role"][:-1]) == {"fitted"}
    assert (figure["waiting"], figure["version"]) == (1, None)  # whoever sees it asks again
    assert figure["fit"] == before["fit"]
    assert figure["ceiling"] == before["ceiling"]
    assert figure["now"]["value_text"].startswith("0.61")
    assert "newer than the forecast" in figure["now"]["sentence"]
    assert "1 newer evaluation is not in it yet" in figure["fit_sentence"]


def test_the_refit_brings_the_fit_of_all_points(make_run):
    run = make_run()
    services.refit(run.pk)
    report(run, 8.5, 0.61)
    fit = services.refit(run.pk).fit

    figure = run_figure(Run.objects.get(pk=run.pk), may_wait=True)

    assert figure["waiting"] == 0
    assert set(figure["points"]["role"]) == {"fitted"}
    assert figure["fit"]["digest"] == fit.data_digest
    assert figure["version"] == Run.objects.get(pk=run.pk).version


def test_nobody_waits_for_a_worker_that_does_not_come(make_run):
    run = make_run()
    services.refit(run.pk)
    run = report(run, 8.5, 0.61)
    run.refit_wanted_at -= LATE + timedelta(seconds=1)

    figure = run_figure(run, may_wait=True)

    assert figure["waiting"] == 0
    assert figure["fit"]["n"] == len(figure["points"]["x"])


def test_without_leave_to_wait_the_fit_is_made(make_run):
    run = make_run()
    services.refit(run.pk)

    figure = run_figure(report(run, 8.5, 0.61))

    assert figure["waiting"] == 0
    assert figure["fit"]["n"] == len(figure["points"]["x"])


def test_superseded_points_take_their_fit_with_them(make_run):
    run = make_run()
    services.refit(run.pk)
    Attempt.objects.create(
        run=run, number=2, submission_id=f"run-{run.pk}-a2", resumed_from_step=300, started_at=timezone.now()
    )
    run = report(run, 4.0, 0.58, attempt=2)

    figure = run_figure(run, may_wait=True)

    assert figure["waiting"] == 0
    assert figure["fit"]["n"] == len(figure["points"]["x"]) < 40


def test_too_few_points_keep_nothing(make_run):
    run = make_run(n=3)

    services.refit(run.pk)
    run_figure(run, may_wait=True)

    assert not KeptFigure.objects.exists()


def test_the_first_of_several_evaluations_sets_the_wish(make_run):
    run = make_run()
    wanted = []
    for seq in (2000, 2001):
        made = {
            "attempt": 1, "seq": seq, "step": seq, "time": "2026-01-01T00:00:00+00:00",
            "compute": {"device_hours": seq / 100, "flops": 1e18, "tokens": 1e6}, "metrics": {"eval/pass_rate": 0.6},
        }  # fmt: skip
        store_records(run, [Record.model_validate(made)])
        wanted.append(Run.objects.get(pk=run.pk).refit_wanted_at)

    assert wanted[0] is not None
    assert wanted[0] == wanted[1]  # else whoever waits would wait as long as evaluations keep coming


@pytest.mark.django_db(transaction=True)
def test_a_run_that_is_deleted_meanwhile_is_no_error(make_run):
    run = make_run()
    gone = Run.objects.get(pk=run.pk)
    figure = run_figure(run)
    run.delete()

    keep(gone, "0" * 80, figure)

    assert not KeptFigure.objects.exists()
