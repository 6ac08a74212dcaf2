"""Curves, series, fits, the run's figure, comparison and leaderboard."""

import json
import math
from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Query, Router

from webapp.base.errors import MOST_OF_PATH, InvalidInput, NotFound, first_of
from webapp.base.formats import csv_file
from webapp.interfaces.api.auth import READ, READ_HEAVY, project_of, run_of
from webapp.interfaces.api.curve_schemas import (
    ComparisonOut,
    CurveOut,
    FigureOut,
    FitOut,
    ForecastRecordOut,
    LeaderboardOut,
    ManyCurvesOut,
    ManySeriesOut,
    MetricList,
    PanelsOut,
    SeriesOut,
    TraceOut,
)
from webapp.interfaces.api.openapi import CSV, answers
from webapp.interfaces.api.paging import (
    CURVE_COLUMNS,
    LEADERBOARD_COLUMNS,
    curve_row,
    leaderboard_rows,
    newest_fit,
    page,
    page_of,
    rows_after,
    unless_known,
    version_of_runs,
)
from webapp.interfaces.api.parsing import unchecked
from webapp.interfaces.api.payloads import columns_payload, point_payload, sample_payload
from webapp.interfaces.api.schemas import (
    CompareQuery,
    CurveQuery,
    FigureQuery,
    FitQuery,
    ForecastRecordQuery,
    LeaderboardQuery,
    ManyCurvesQuery,
    ManySeriesQuery,
    MetricsQuery,
    PanelsQuery,
    SeriesQuery,
    TimelineQuery,
)
from webapp.record.runs import selectors
from webapp.record.runs.filtering.parsing import nearest
from webapp.record.runs.models import Run
from webapp.record.runs.points import AS_JSON, curve_columns, effective_points
from webapp.record.runs.sampling import columns_of_runs, sampled_points
from webapp.record.runs.timeline import as_trace, timeline_of
from webapp.science.curves.comparison.compare import entries_of, payload_of
from webapp.science.curves.comparison.entries import MOST_RUNS, choose
from webapp.science.curves.comparison.odds import at_budget
from webapp.science.curves.comparison.panels import panels_of
from webapp.science.curves.models import Fit
from webapp.science.curves.ranking.leaderboard import leaderboard
from webapp.science.curves.record.reading import record as record_found
from webapp.science.curves.record.recalibrating import Record, record_of
from webapp.science.curves.run.figure import run_figure
from webapp.science.curves.selectors import CSV_COLUMNS, fit_payload, fit_row, stored_fits

router = Router(tags=["curves"])


@router.get(
    "/runs/{run_id}/curve",
    auth=READ_HEAVY,
    response=CurveOut,
    summary="Every point of a curve",
    openapi_extra=answers(files=(CSV,), etag=True),
)
def get_curve(request: HttpRequest, run_id: str, query: Query[CurveQuery]) -> HttpResponse:
    """Unsampled, without superseded points. 404 for a metric that the run does not have; without evaluations the curve
    of eval/pass_rate is empty. `python -m scaling fit` reads the CSV."""
    run = run_of(request, run_id)
    check_metric(run, query.metric)
    unless_known(request, run.version)
    points = [p for p in effective_points(run, query.metric) if getattr(p, query.x) is not None]
    if not query.start:
        points = [p for p in points if getattr(p, query.x) > 0]
    if query.format == "csv":
        rows = (curve_row(point, query.x) for point in points)
        return csv_file(f"{run.pk}-curve", CURVE_COLUMNS, rows)
    return unchecked(
        {
            "run": run.pk,
            "metric": query.metric,
            "x": query.x,
            "total": len(points),
            "points": [point_payload(point, query.x) for point in points],
        }
    )


def check_metric(run: Run, metric: str) -> None:
    """Raises NotFound for a metric that the run does not have; every run will have a pass rate, if none yet."""
    if metric == selectors.PASS_RATE or selectors.stored_name(run, metric) is not None:
        return
    hint = nearest(metric, selectors.metric_names(run)) or "its metrics are listed beside it, under /metrics."
    raise NotFound(f"Run {run.pk} has no metric {metric[:MOST_OF_PATH]}; {hint}", field="metric")


@router.get(
    "/panels",
    auth=READ_HEAVY,
    response=PanelsOut,
    summary="Any metrics of many runs",
    openapi_extra=answers(404, etag=True),
)
def get_panels(request: HttpRequest, query: Query[PanelsQuery]) -> HttpResponse:
    """Small multiples: of each metric that a pattern means a line for each run, or for each recipe the mean over its
    runs with their range. Of a long series one point in 2^k is there, and none is moved; null is a break. 422 for an x
    that is no axis and no metric of these runs."""
    wanted = known_runs(request, query.run)
    found = {run.pk: run for run in selectors.runs_of(project_of(request)).filter(pk__in=wanted)}
    window = (-math.inf if query.lo is None else query.lo, math.inf if query.hi is None else query.hi)
    runs = [found[pk] for pk in wanted]
    return JsonResponse(panels_of(runs, query.metric, x=query.x, by=query.by, window=window))


@router.get(
    "/curves",
    auth=READ_HEAVY,
    response=ManyCurvesOut,
    summary="Every point of a curve of many runs",
    openapi_extra=answers(404, etag=True),
)
def get_curves(request: HttpRequest, query: Query[ManyCurvesQuery]) -> HttpResponse:
    """Unsampled, without superseded points, in columns. Points without this x are left out; so are unknown series."""
    wanted = known_runs(request, query.run)
    found = curve_columns(wanted, query.metric, query.x, query.column or AS_JSON)
    # Put together as text: to read tens of thousands of numbers and write them again takes longer than to find them.
    items = ", ".join(f'{{"run": {json.dumps(pk)}, {found[pk].removeprefix("{")}' for pk in wanted)
    head = json.dumps({"metric": query.metric, "x": query.x}).removesuffix("}")
    return HttpResponse(f'{head}, "items": [{items}]}}', content_type="application/json")


def known_runs(request: HttpRequest, run_ids: list[str]) -> list[str]:
    """The runs that were asked for, each once; the answer gets an ETag of their versions. Raises NotFound for one that
    the token's project does not have, and NotModified."""
    wanted = list(dict.fromkeys(run_ids))
    found = Run.objects.filter(project=project_of(request), pk__in=wanted)
    known = dict(found.values_list("pk", "version"))
    unknown = next((run_id for run_id in wanted if run_id not in known), None)
    if unknown is not None:
        raise NotFound(f"There is no run {unknown}.")
    unless_known(request, [known[run_id] for run_id in wanted])
    return wanted


@router.get(
    "/runs/{run_id}/series",
    auth=READ_HEAVY,
    response=SeriesOut,
    summary="A sampled series",
    openapi_extra=answers(etag=True),
)
def get_series(request: HttpRequest, run_id: str, query: Query[SeriesQuery]) -> HttpResponse:
    """For charts. Says how the points were chosen and of how many; more data never moves a shown point. 404 for a
    metric that the run does not have."""
    run = run_of(request, run_id)
    check_metric(run, query.metric)
    unless_known(request, run.version)
    sample = sampled_points(run, query.metric, query.x, query.points, lo=query.lo, hi=query.hi)
    head = {"run": run.pk, "metric": query.metric, "x": query.x}
    return unchecked(head | sample_payload(sample, query.x))


@router.get(
    "/runs/{run_id}/timeline",
    auth=READ_HEAVY,
    response=TraceOut,
    summary="Where the time of a run's steps went",
    openapi_extra=answers(etag=True),
)
def get_timeline(request: HttpRequest, run_id: str, query: Query[TimelineQuery]) -> HttpResponse:
    """Spans of generation, rewards, weights, updates, waiting and evaluation, as Perfetto and Chrome's tracing read
    them: times are microseconds, `ts` since 1970. Empty where the trainer tells no times."""
    run = run_of(request, run_id)
    unless_known(request, run.version)
    return JsonResponse(as_trace(run, timeline_of(run, query.until, query.steps)))


@router.get(
    "/series",
    auth=READ_HEAVY,
    response=ManySeriesOut,
    summary="Sampled series of many runs",
    openapi_extra=answers(404, etag=True),
)
def get_many_series(request: HttpRequest, query: Query[ManySeriesQuery]) -> HttpResponse:
    """For charts, in columns: of each run's series at most `points`. Runs without such a series are left out; last, min
    and max are places in the columns, empty where every point is shown."""
    wanted = known_runs(request, query.run)
    found = columns_of_runs(wanted, query.metric, query.x, query.points, lo=query.lo, hi=query.hi)
    items = [columns_payload(pk, found[pk]) for pk in wanted if pk in found]
    return JsonResponse({"metric": query.metric, "x": query.x, "items": items})


@router.get(
    "/runs/{run_id}/metrics",
    auth=READ,
    response=MetricList,
    summary="Names of a run's series",
    openapi_extra=answers(etag=True),
)
def get_metrics(request: HttpRequest, run_id: str, query: Query[MetricsQuery]) -> HttpResponse:
    """By name. Each can be asked for as a curve or as a series."""
    run = run_of(request, run_id)
    unless_known(request, run.version)
    names = selectors.series_of(run)
    return unchecked(page(names, query, order=["metric"], payload=str))


@router.get(
    "/runs/{run_id}/figure", auth=READ_HEAVY, response={200: FigureOut, 204: None}, summary="A run's figure"
)
def get_figure(request: HttpRequest, run_id: str, query: Query[FigureQuery]) -> HttpResponse:
    """Points, fit, extrapolation and what they say in words: what the run's page shows."""
    run = run_of(request, run_id)
    if query.since is not None and query.since >= run.version:
        return HttpResponse(status=204)
    return unchecked(run_figure(run, query.question))


@router.get(
    "/runs/{run_id}/fits",
    auth=READ_HEAVY,
    response=page_of(FitOut),
    summary="A run's stored fits",
    openapi_extra=answers(files=(CSV,), etag=True),
)
def list_run_fits(request: HttpRequest, run_id: str, query: Query[FitQuery]) -> HttpResponse:
    """Newest first. With format=csv as a table."""
    run = run_of(request, run_id)
    record = record_of(project_of(request))
    unless_known(request, newest_fit(run=run), record.stamp, record.is_on)
    return _fits(stored_fits(run), record, query, f"{run.pk}-fits")


@router.get(
    "/fits",
    auth=READ_HEAVY,
    response=page_of(FitOut),
    summary="Stored fits of all runs",
    openapi_extra=answers(404, files=(CSV,), etag=True),
)
def list_fits(request: HttpRequest, query: Query[FitQuery]) -> HttpResponse:
    """Newest first. With format=csv as a table."""
    project = project_of(request)
    record = record_of(project)
    unless_known(request, newest_fit(run__project=project), record.stamp, record.is_on)
    fits = Fit.objects.filter(run__project=project, run__deleted_at=None)
    if query.run:
        fits = fits.filter(run=run_of(request, query.run))
    return _fits(fits, record, query, "fits")


def _fits(fits: Any, record: Record, query: FitQuery, name: str) -> HttpResponse:
    if query.metric:
        fits = fits.filter(metric=query.metric)
    if query.format == "csv":
        found = rows_after(fits, order=["-id"], cursor=query.cursor, limit=query.most_rows)
        rows = (fit_row(fit, record) for fit in found.iterator())
        return csv_file(name, CSV_COLUMNS, rows)
    payload = lambda fit: fit_payload(fit, record)
    return unchecked(page(fits, query, order=["-id"], payload=payload))


@router.get(
    "/fits/{int:fit_id}",
    auth=READ,
    response=FitOut,
    summary="One stored fit",
    openapi_extra=answers(etag=True),
)
def get_fit(request: HttpRequest, fit_id: int) -> HttpResponse:
    """Its parameters never change; `superseded`, and the intervals of its forecast, may."""
    project = project_of(request)
    rows = Fit.objects.filter(pk=fit_id, run__project=project, run__deleted_at=None)
    fit = first_of(rows, f"There is no fit {fit_id}.")
    record = record_of(project)
    unless_known(request, fit.pk, fit.superseded, fit.forecast is None, record.stamp, record.is_on)
    return unchecked(fit_payload(fit, record))


@router.get(
    "/forecasts/record", auth=READ_HEAVY, response=ForecastRecordOut, summary="How good forecasts were"
)
def get_forecast_record(request: HttpRequest, query: Query[ForecastRecordQuery]) -> HttpResponse:
    """Every run forecast from parts of its compute and judged by its last eighth, beside simpler methods; of the newest
    500 runs. `by` has the same for each share of the compute, task and recipe."""
    found = record_found(project_of(request), task=query.task, recipe=query.recipe)
    rows = {kind: [asdict(row) for row in of_kind] for kind, of_kind in found.by.items()}
    return unchecked(
        {
            "runs": found.runs,
            "forecasts": found.forecasts,
            "as_it_went": found.as_it_went,
            "waiting": found.waiting,
            "unjudged": [{"why": why, "runs": n} for why, n in found.unjudged],
            "recalibrates": found.is_on,
            "factors": found.factors,
            "methods": [asdict(row) for row in found.methods],
            "levels": [asdict(level) for level in found.levels],
            "by": rows,
        }
    )


@router.get(
    "/compare",
    auth=READ_HEAVY,
    response=ComparisonOut,
    summary="Runs and published curves side by side",
    openapi_extra=answers(404),
)
def get_comparison(request: HttpRequest, query: Query[CompareQuery]) -> HttpResponse:
    """Each run alone, or `by` recipe: runs of one revision, task and model together. With a budget, `odds` says what is
    forecast there, and how likely each is the best."""
    if not (query.run or query.recipe):
        raise InvalidInput("run", "run or recipe is needed: what to compare.")
    choice = choose(project_of(request), runs=query.run, recipes=query.recipe, references=query.reference)
    if choice.missing:
        raise NotFound(f"There is no run, recipe or published curve {choice.missing[0]}.")
    if choice.dropped:
        raise InvalidInput(
            "recipe", f"recipe: these have more than the {MOST_RUNS} runs that can be compared."
        )
    entries = entries_of(choice.runs, choice.references, x=query.x, by=query.by)
    payload = payload_of(entries, x=query.x, view=query.view, by=query.by)
    if query.budget is not None:
        payload |= {"odds": at_budget(entries, query.budget, query.x)}
    return unchecked(payload)


@router.get(
    "/leaderboard",
    auth=READ_HEAVY,
    response=LeaderboardOut,
    summary="Recipes ranked",
    openapi_extra=answers(files=(CSV,), etag=True),
)
def get_leaderboard(request: HttpRequest, query: Query[LeaderboardQuery]) -> HttpResponse:
    """Per task and model, each ceiling with its interval; recipes that cannot be told apart share a rank."""
    project = project_of(request)
    unless_known(request, newest_fit(run__project=project), version_of_runs(project))
    groups = leaderboard(
        project,
        budget=query.budget,
        x=query.x,
        published=query.published,
        task=query.task,
        model=query.model,
    )
    if query.format == "csv":
        return csv_file("leaderboard", LEADERBOARD_COLUMNS, leaderboard_rows(groups))
    return unchecked({"groups": groups})
