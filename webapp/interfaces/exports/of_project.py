"""All runs that a filter finds as one file: the runs themselves, their curves, or their records."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.interfaces.exports import forms
from webapp.interfaces.exports.columns import ABOUT
from webapp.interfaces.exports.forms import Kind
from webapp.interfaces.exports.of_run import (
    OF_RECORD,
    OF_VALUE,
    about,
    line,
    long_rows,
)
from webapp.interfaces.exports.reading import Span, StoredPoint, StoredRecord, points, records, spans_of
from webapp.record.runs.filtering import narrow
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import pass_rates_of

MOST_RUNS = 20_000
RUNS_AT_A_TIME = 100
OF_POINT = {"metric": Kind.TEXT} | OF_RECORD | {"value": Kind.NUMBER, "stderr": Kind.NUMBER}
OF_RUN = {
    "id": Kind.TEXT,
    "name": Kind.TEXT,
    "origin": Kind.TEXT,
    "state": Kind.TEXT,
    "recipe": Kind.TEXT,
    "revision": Kind.WHOLE,
    "task": Kind.TEXT,
    "model": Kind.TEXT,
    "seed": Kind.WHOLE,
    "budget_hours": Kind.NUMBER,
    "attempts": Kind.WHOLE,
    "tags": Kind.TEXT,  # joined by blanks, which no tag holds
    "created_by": Kind.TEXT,
    "created_at": Kind.TIME,
    "started_at": Kind.TIME,
    "ended_at": Kind.TIME,
    "config": Kind.TEXT,  # JSON
}


def project_pieces(
    project: Project, user: User | None, form: str, *, content: str, text: str = "", metrics: Sequence[str] = (),
    superseded: bool = False,
) -> Iterator[bytes]:  # fmt: skip
    """Of all runs that the filter `text` finds, newest first: `content` is "runs" (with their configuration), "curves"
    (every point of `metrics`, else of each pass rate) or "records" (of all metrics, or `metrics`).

    form: csv, jsonl or parquet; a table of records has one row a value. Raises FilterError, and InvalidInput (filter)
    where more than MOST_RUNS fit.
    """
    ids = _ids(project, user, text)
    if content == "runs":
        found: Iterator[Any] = _of_runs(project, ids)
        if form == "jsonl":
            return forms.jsonl_pieces(found)
        return forms.pieces(form, OF_RUN, (_run_row(item) for item in found))
    columns, read, as_line, as_rows = _CONTENT[content]
    spans = ((run, spans_of(run, superseded=superseded)) for run in _runs(project, ids))
    if form == "jsonl":
        return forms.jsonl_pieces(
            each for run, own in spans for each in _lines(run, own, read(run, own, metrics), as_line)
        )
    rows = (row for run, own in spans for row in _rows(run, own, read(run, own, metrics), as_rows))
    return forms.pieces(form, {"run": Kind.TEXT} | columns | {ABOUT: Kind.TEXT}, rows)


def _lines(
    run: Run, spans: Sequence[Span], items: Iterator[Any], as_line: Callable[[Any], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    for place, item in enumerate(items):
        said = {} if place else {ABOUT: about(run, spans)}
        yield {"run": run.pk} | as_line(item) | said


def _rows(
    run: Run, spans: Sequence[Span], items: Iterator[Any], as_rows: Callable[[Any], Iterator[Any]]
) -> Iterator[tuple[Any, ...]]:
    for place, row in enumerate(row for item in items for row in as_rows(item)):
        yield (run.pk, *row, None if place else forms.as_json(about(run, spans)))


def _ids(project: Project, user: User | None, text: str) -> list[str]:
    found = narrow(Run.objects.filter(project=project), text, user=user).order_by("-created_at", "id")
    ids = list(found.values_list("pk", flat=True)[: MOST_RUNS + 1])
    if len(ids) > MOST_RUNS:
        raise InvalidInput("filter", f"filter: more than {MOST_RUNS:,} runs fit; narrow it.")
    return ids


def _runs(project: Project, ids: Sequence[str]) -> Iterator[Run]:
    """The runs in this order, some at a time; one that is gone by now is left out."""
    for start in range(0, len(ids), RUNS_AT_A_TIME):
        some = ids[start : start + RUNS_AT_A_TIME]
        found = (
            Run.objects.filter(project=project)
            .select_related("revision__recipe", "created_by")
            .defer("revision__config")
            .in_bulk(some)
        )
        yield from (found[pk] for pk in some if pk in found)


def _of_runs(project: Project, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    for run in _runs(project, ids):
        revision = run.revision
        yield {
            "id": run.pk,
            "name": run.name,
            "origin": run.origin,
            "state": run.state,
            "recipe": revision.recipe.slug if revision else None,
            "revision": revision.number if revision else None,
            "task": run.task,
            "model": run.model,
            "seed": run.seed,
            "budget_hours": run.budget_hours,
            "attempts": run.attempt_number,
            "tags": run.tags,
            "created_by": run.created_by.get_username() if run.created_by else None,
            "created_at": run.created_at,
            "started_at": run.started_at,
            "ended_at": run.ended_at,
            "config": run.config,
        }


def _run_row(item: dict[str, Any]) -> list[Any]:
    flat = item | {"tags": " ".join(item["tags"]), "config": forms.as_json(item["config"])}
    return [flat[name] for name in OF_RUN]


def _points(run: Run, spans: Sequence[Span], metrics: Sequence[str]) -> Iterator[tuple[str, StoredPoint]]:
    for metric in metrics or pass_rates_of(run):
        yield from ((metric, point) for point in points(run, spans, metric))


def _records(run: Run, spans: Sequence[Span], metrics: Sequence[str]) -> Iterator[StoredRecord]:
    return records(run, spans, metrics=metrics)


def _point_line(item: tuple[str, StoredPoint]) -> dict[str, Any]:
    metric, point = item
    return {"metric": metric} | point._asdict()


def _point_rows(item: tuple[str, StoredPoint]) -> Iterator[tuple[Any, ...]]:
    metric, point = item
    yield (metric, *point)


Read = Callable[[Run, Sequence[Span], Sequence[str]], Iterator[Any]]
_CONTENT: dict[
    str, tuple[dict[str, Kind], Read, Callable[[Any], dict[str, Any]], Callable[[Any], Iterator[Any]]]
] = {
    "curves": (OF_POINT, _points, _point_line, _point_rows),
    "records": (OF_RECORD | OF_VALUE, _records, line, long_rows),
}
