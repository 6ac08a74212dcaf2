"""Lists by cursor: {"items": [...], "next": cursor or null}. A page costs the same wherever it starts.

Rows of CSV downloads.

ETags of what costs something to put together, made of what it rests on: versions and newest ids, not its text.

A view names these before it reads the rest. A caller that has seen them gets 304 and no body.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError as FieldError
from django.db.models import Count, Max, Model, Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.utils.http import parse_etags
from ninja import Field, Schema
from pydantic import create_model

from webapp.base.disk import code_version
from webapp.base.errors import InvalidInput
from webapp.base.formats import whole_in
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.record.runs.points import CurvePoint
from webapp.science.curves.models import Fit
from webapp.science.predictions.models import Outcome, Pending, Prediction, Review, ReviewRequest

Payload = dict[str, Any]
NO_CURSOR = "cursor is not one that a page gave out."
DEFAULT_LIMIT = 50
MAX_LIMIT = 500
CURVE_COLUMNS = ("compute", "value", "stderr", "step", "attempt", "device_hours", "flops", "tokens", "reward")
LEADERBOARD_COLUMNS = (
    "task", "model", "unit", "rank", "tied", "recipe", "recipe_slug", "revision", "published", "identified",
    "A", "lo", "hi", "B", "B_lo", "B_hi", "c90", "c90_lo", "c90_hi", "at_budget", "at_budget_lo", "at_budget_hi",
    "seeds", "identified_seeds", "evidence", "runs", "source",
)  # fmt: skip


class PageQuery(Schema):
    cursor: str | None = Field(None, description='"next" of the page before.')
    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)


def page_of(item: Any) -> Any:
    """The schema of a page of items of this schema, as strict as they are: of RunOut, RunPage."""
    name = f"{item.__name__.removesuffix('Out')}Page"
    return create_model(name, __base__=item.__base__, items=(list[item], ...), next=(str | None, ...))


def page(
    rows: QuerySet[Any],
    query: PageQuery,
    *,
    order: Sequence[str],
    payload: Callable[[Any], Any] = lambda row: row,
) -> Payload:
    """One page of a query. `order` are columns ("-created_at", "id") that together tell any two rows apart.

    Raises InvalidInput (field cursor) for a cursor that no page gave out.
    """
    shown, following = _read(rows, order, query.cursor, query.limit)
    return {"items": [payload(row) for row in shown], "next": following}


def _read(
    rows: QuerySet[Any], order: Sequence[str], cursor: str | None, limit: int
) -> tuple[list[Any], str | None]:
    """The rows of a page, and the cursor of the next one; None where there is none."""
    found = list(rows_after(rows, order=order, cursor=cursor, limit=limit + 1))
    shown = found[:limit]
    return shown, _encode(shown[-1], order) if len(found) > limit else None


def rows_after(
    rows: QuerySet[Any], *, order: Sequence[str], cursor: str | None, limit: int | None
) -> QuerySet[Any]:
    """The rows behind a cursor, in this order; `limit` of them, or all. Raises InvalidInput (cursor)."""
    rows = rows.order_by(*order)
    if cursor:
        try:
            rows = rows.filter(_after(order, _decode(cursor, len(order))))
        except (ValueError, TypeError, FieldError, OverflowError) as error:
            raise InvalidInput("cursor", NO_CURSOR) from error
    return rows[:limit]


def page_since(rows: QuerySet[Any], query: PageQuery, *, order: Sequence[str], since: str | None) -> Payload:
    """A page of rows that only grow at their end. `since`: the cursor of the last row that was given, or of before.

    Raises InvalidInput (cursor, since) for one that no answer gave out, and (since) for both at once.
    """
    if query.cursor and since:
        raise InvalidInput("since", "since: give either cursor or since; both are a place in the same order.")
    try:
        shown, following = _read(rows, order, query.cursor or since, query.limit)
    except InvalidInput as error:
        if since:
            raise InvalidInput("since", "since is not one that an answer gave out.") from error
        raise
    last = _encode(shown[-1], order) if shown else query.cursor or since or None
    return {"items": shown, "next": following, "since": last}


def place_of(cursor: str | None) -> int:
    """A cursor that is a number, of lists that are no query: how many were given. Raises InvalidInput (cursor)."""
    if (place := whole_in(cursor or "0", 15)) is None:
        raise InvalidInput("cursor", NO_CURSOR)
    return place


def _after(order: Sequence[str], values: Sequence[Any]) -> Q:
    """Rows behind the one with these values, in this order of columns."""
    behind, equal = Q(), Q()
    for column, value in zip(order, values, strict=True):
        name = column.lstrip("-")
        behind |= equal & Q(**{f"{name}__{'lt' if column.startswith('-') else 'gt'}": value})
        equal &= Q(**{name: value})
    return behind


def _encode(row: Model, order: Sequence[str]) -> str:
    values = [getattr(row, column.lstrip("-")) for column in order]
    text = json.dumps(values, default=lambda value: value.isoformat())
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str, length: int) -> list[Any]:
    padded = cursor.encode() + b"=" * (-len(cursor) % 4)
    values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    plain = isinstance(values, list) and all(isinstance(v, str | int) and v is not True for v in values)
    if not plain or len(values) != length or any(isinstance(v, str) and "\0" in v for v in values):
        raise ValueError("not a cursor")
    if any(isinstance(v, int) and abs(v) >= 2**63 for v in values):
        raise ValueError("not a cursor")
    return values


def curve_row(point: CurvePoint, x: str) -> tuple:
    """In the order of CURVE_COLUMNS. `reward` is the value once more: `python -m scaling fit` reads it by that name."""
    return (
        getattr(point, x), point.value, point.stderr, point.step, point.attempt, point.device_hours, point.flops,
        point.tokens, point.value,
    )  # fmt: skip


def leaderboard_rows(
    groups: Iterable[dict[str, Any]], columns: Sequence[str] = LEADERBOARD_COLUMNS
) -> Iterable[list[Any]]:
    """Rows of all groups in the order of the columns; no A where the data do not identify it."""
    for group in groups:
        for row in group["rows"]:
            flat = {key: group[key] for key in ("task", "model", "unit")} | row
            flat |= {"identified": row["ceiling"]["identified"], "runs": " ".join(row["runs"] or [])}
            yield [flat.get(column) for column in columns]


class NotModified(Exception):
    """The caller has what there is."""


def unless_known(request: HttpRequest, *rests_on: Any) -> None:
    """Give the answer to this request an ETag. Raises NotModified where the caller's If-None-Match names it.

    `rests_on`: what changes whenever the answer does, and can be written as JSON; address, query, project and the code
    that answers count by themselves. It must have been read before what is answered, so that it is never the newer one.
    """
    project = request.auth.project.pk  # type: ignore[attr-defined]
    told = json.dumps([code_version(), project, request.get_full_path(), rests_on], default=str)
    etag = f'W/"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'
    request.etag = etag  # type: ignore[attr-defined]
    if request.method in ("GET", "HEAD") and _names(request.headers.get("If-None-Match", ""), etag):
        raise NotModified(etag)


def mark(request: HttpRequest, response: HttpResponse) -> None:
    """Put the ETag on what was answered."""
    etag = getattr(request, "etag", None)
    if etag and response.status_code in (200, 304):
        response["ETag"] = etag
        response["Cache-Control"] = "private, no-cache"  # kept, and asked for anew each time
        response["Vary"] = "Authorization"


def newest_fit(**which: Any) -> int | None:
    """The newest of these fits: rows of fits are added, and never change."""
    return Fit.objects.filter(**which).order_by("-id").values_list("pk", flat=True).first()


def version_of_runs(project: Project) -> list[Any]:
    """Changes whenever a run of the project comes, goes or changes. One query."""
    found = Run.objects.filter(project=project).aggregate(
        runs=Count("pk"),
        versions=Sum("version"),
        wishes=Count("refit_wanted_at"),
        wished=Max("refit_wanted_at"),
    )
    return list(found.values())


def version_of_predictions(project: Project) -> list[Any]:
    """Changes whenever a prediction, or what is said and came of it, does. Six queries over narrow indexes."""
    claims = Prediction.objects.filter(project=project).aggregate(
        count=Count("pk"), made=Max("created_at"), withdrawn=Max("withdrawn_at"), gone=Count("withdrawn_at")
    )
    around = [
        model.objects.filter(prediction__project=project).aggregate(count=Count("pk"), newest=Max("pk"))
        for model in (Review, ReviewRequest, Outcome)
    ]
    waits = Pending.objects.filter(prediction__project=project).aggregate(Count("pk"), Max("updated_at"))
    return [claims, around, waits, version_of_runs(project)]


def _names(header: str, etag: str) -> bool:
    """Whether If-None-Match names this ETag; `*` names any."""
    known = parse_etags(header)
    return known == ["*"] or etag.removeprefix("W/") in {one.removeprefix("W/") for one in known}
