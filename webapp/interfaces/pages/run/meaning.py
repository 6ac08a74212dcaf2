"""What the page of a run that trains elsewhere says and asks about its metrics (`webapp.record.runs.meaning`).

What the form says that puts right what is said of runs (`webapp.record.runs.editing`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from django.db.models import Case, Max, Value, When

from headroom.adapters.naming import originals_of
from webapp.base.errors import Conflict, InvalidInput
from webapp.base.formats import NoAmount, amount_in, whole_in
from webapp.record.runs.meaning import METRICS, Meaning, as_if_said, meaning_of
from webapp.record.runs.models import Point, Run, Series
from webapp.record.runs.points import effective_points
from webapp.record.runs.states import ENDED
from webapp.reporting.shares.drawing import side_by_side
from webapp.science.curves.answers import UNITS
from webapp.science.curves.fitting import Question
from webapp.science.curves.words import AXES, DEFAULT_AXIS, DEFAULT_METRIC, count

MOST_NAMES = 300  # that the form suggests
PREFERRED = ("eval", "val", "test")  # how names of held-out metrics begin
NOT_YET = {
    "title": "No evaluation yet",
    "text": "The first comes before the first update, the next after a few steps. Points and the fit appear here by "
    "themselves.",
}
NEVER = {
    "title": "No evaluation",
    "text": "It ended before the first one. A resume goes on to it, and points and the fit appear here by themselves.",
}
BEING_MADE = {
    "title": "Its points are being made anew",
    "text": "So many that it takes a minute. The curve follows what was said of its metrics by itself.",
}
ELSEWHERE = {
    "title": "No evaluation yet",
    "text": f"A point of the curve is a value of {DEFAULT_METRIC}. If another metric of this run is its held-out pass "
    "rate, say so under Metrics: what was reported before counts, too.",
}
TEXTS = ("name", "notes", "task", "model")
OF_MANY = ("notes", "task", "model", "seed")


def known_axis(run: Run, metric: str = DEFAULT_METRIC) -> str | None:
    """The first axis on which the run's evaluations lie, beyond a start at nothing; None without any. One query."""
    points = Point.objects.filter(series__run=run, series__metric=metric)
    most = points.aggregate(**{f"most_{key}": Max(key) for key in AXES})
    return next((key for key in AXES if most[f"most_{key}"]), None)


def nothing_to_draw(run: Run, question: Question) -> dict[str, str]:
    """Heading and sentence for a chart without a point."""
    if run.origin == Run.Origin.LAUNCHED:
        return NEVER if run.state in ENDED else NOT_YET
    if run.remaking is not None:
        return BEING_MADE
    if (known := known_axis(run, question.metric)) is None:
        return ELSEWHERE
    wanted, other = UNITS[question.x], UNITS[known]
    hint = " Say under Metrics on how many devices it trains, and" if question.x == DEFAULT_AXIS else ""
    told = f"{hint} they are worked out from its times." if hint else ""
    return {
        "title": f"Its {wanted} are not known",
        "text": f"No evaluation of this run was reported with its {wanted}; by {other} they can be drawn.{told}",
    }


def form_of(run: Run) -> dict[str, Any]:
    """What the form of the page shows: what was said, and names to choose from."""
    return {"said": meaning_of(run), "names": names_of([run])}


def names_of(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Metrics of these runs, likely ones first, each with what trainers call it."""
    preferred = Case(
        *(When(metric__startswith=start, then=Value(0)) for start in PREFERRED), default=Value(1)
    )
    names = Series.objects.filter(run__in=runs).exclude(metric=DEFAULT_METRIC).order_by(preferred, "metric")
    found = names.values_list("metric", flat=True).distinct()[:MOST_NAMES]
    return [(name, ", ".join(originals_of(name))) for name in found]


def meaning_in(sent: Mapping[str, str]) -> Meaning:
    """What the form sent. Raises InvalidInput (n_prompts, devices)."""
    n_prompts = _amount(sent, "n_prompts", "Prompts of each evaluation")
    if n_prompts is not None and n_prompts != int(n_prompts):
        raise InvalidInput("n_prompts", "Prompts of each evaluation: a whole number.")
    named = {field: sent.get(field, "").strip() for field in METRICS}
    return Meaning(
        **named,
        percent=sent.get("percent") == "on",
        n_prompts=None if n_prompts is None else int(n_prompts),
        devices=_amount(sent, "devices", "Devices"),
    )


def preview(run: Run, meaning: Meaning) -> dict[str, Any]:
    """The curve as it would be if this were said. Raises what `state_meaning` raises."""
    with as_if_said(run, meaning) as changed:
        axis = known_axis(changed) or "step"
        found = [point for point in effective_points(changed) if getattr(point, axis) is not None]
    rows = [{"x": getattr(point, axis), "value": point.value, "stderr": point.stderr} for point in found]
    for row in rows:
        row["x_text"] = AXES[axis].amount(row["x"])
    return {
        "run": run,
        "rows": [rows[0], rows[-1]] if len(rows) > 1 else rows,
        "count": count(len(rows), "evaluation"),
        "unit": UNITS[axis],
        "has_errors": any(row["stderr"] is not None for row in rows),
        "x": [row["x"] for row in rows],
        "values": [row["value"] for row in rows],
        "table": side_by_side(
            UNITS[axis].capitalize(),
            [("Pass rate", {r["x"]: f"{r['value']:.3f}" for r in rows})],
            [r["x"] for r in rows],
        ),
    }


def previews(runs: Iterable[Run], said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of several runs, where `said` are fields of `Meaning` and the others stay. One that cannot be changed so
    has its `problem`."""
    found: list[dict[str, Any]] = []
    for run in runs:
        try:
            found.append(preview(run, replace(meaning_of(run), **said)))
        except (Conflict, InvalidInput) as error:
            found.append({"run": run, "problem": str(error)})
    return found


def _amount(sent: Mapping[str, str], field: str, label: str) -> float | None:
    if not (text := sent.get(field, "").strip()):
        return None
    try:
        return amount_in(text)
    except NoAmount as error:
        raise InvalidInput(field, f"{label}: {error}.") from None


def changes_in(sent: Mapping[str, str]) -> dict[str, Any]:
    """What was sent of the fields. Raises InvalidInput (seed)."""
    changes: dict[str, Any] = {field: sent[field] for field in TEXTS if field in sent}
    if "tags" in sent:
        changes["tags"] = sent["tags"].replace(",", " ").split()
    if "seed" in sent:
        changes["seed"] = whole_in(sent["seed"].strip(), 19)
        if changes["seed"] is None:
            raise InvalidInput("seed", "Seed: a whole number from 0.")
    return changes


def many_changes_in(sent: Mapping[str, str]) -> dict[str, Any]:
    """The same of many runs: what is empty stays as it is in each. Raises InvalidInput (seed, n_prompts, devices)."""
    changes = changes_in(
        {field: value for field, value in sent.items() if value.strip() and field in OF_MANY}
    )
    said = {field: value for field, value in asdict(meaning_in(sent)).items() if value}
    return changes | ({"meaning": said} if said else {})
