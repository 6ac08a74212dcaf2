"""Reading the decision log: the rows, and what came of them, in a number of queries that does not grow."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import Count, Prefetch, Q, QuerySet

from webapp.base.errors import InvalidInput, NotFound
from webapp.identity.accounts.models import Project, User
from webapp.record.runs.models import Point, Run, Summary
from webapp.record.runs.selectors import PASS_RATE, latest_of_runs
from webapp.science.decisions.models import Decision, DecisionKind, Subject
from webapp.science.decisions.outcomes import Came, Now, Reached, came_of

FOLLOWERS = 5  # newest runs of a recipe that stand for it after a switch


@dataclass(frozen=True)
class Entry:
    """A decision as pages and the API show it."""

    decision: Decision
    of: list[Subject]
    to: Subject | None
    came: list[Came]


def decisions_of(project: Project, *, person: str = "", run: str = "", kind: str = "") -> QuerySet[Decision]:
    """The log of a project, newest first, filtered by username, run id and kind ("" filters nothing).

    Raises InvalidInput for a kind that there is not.
    """
    rows = Decision.objects.filter(project=project)
    if kind and kind not in DecisionKind.values:
        raise InvalidInput("kind", f"kind must be one of {', '.join(DecisionKind.values)}.")
    if kind:
        rows = rows.filter(kind=kind)
    if person:
        rows = rows.filter(decided_by__username=person)
    if run:
        rows = rows.filter(pk__in=Subject.objects.filter(run_key=run).values("decision"))
    subjects = Prefetch("subjects", Subject.objects.select_related("run", "fit").defer("run__config"))
    rows = rows.select_related(
        "decided_by",
        "prediction__rival__revision__recipe",
        "prediction__author",
        "prediction__replaced_by",
        "to_revision__recipe",
        "revises",
        "revised_by",
    ).defer("to_revision__config", "prediction__rival__config", "prediction__rival__revision__config")
    rows = rows.annotate(num_notes=Count("notes"))
    return rows.prefetch_related(subjects, "prediction__outcomes", "prediction__pendings").order_by(
        "-decided_at", "id"
    )


def decision_by_id(project: Project, key: str) -> Decision:
    """One decision of this project. Raises NotFound, also for one of another project."""
    found = decisions_of(project).filter(pk=key).first()
    if found is None:
        raise NotFound(f"There is no decision {key} in this project.")
    return found


def people_of(project: Project) -> list[str]:
    """Usernames of all who decided something, to filter by."""
    people = User.objects.filter(decisions__project=project).order_by("username").distinct()
    return list(people.values_list("username", flat=True))


def entries(decisions: Iterable[Decision]) -> list[Entry]:
    """Decisions of `decisions_of` with what came of each: four queries more, whatever their number."""
    rows = list(decisions)
    now = _now(rows)
    return [_entry(decision, now) for decision in rows]


def _entry(decision: Decision, now: Now) -> Entry:
    subjects = list(decision.subjects.all())
    of = [one for one in subjects if one.part == Subject.Part.OF]
    to = next((one for one in subjects if one.part == Subject.Part.TO), None)
    return Entry(decision, of, to, came_of(decision, now))


def _now(decisions: Sequence[Decision]) -> Now:
    subjects = [one for decision in decisions for one in decision.subjects.all() if one.run is not None]
    followers = _followers(decisions)
    ids = {one.run_key for one in subjects} | {run.pk for runs in followers.values() for run in runs}
    newest = latest_of_runs(ids)
    used = Summary.objects.filter(run__in=ids).values_list("run_id", "used_hours")
    return Now(newest, reached(_pairs(decisions, newest, followers)), dict(used), followers)


def _followers(decisions: Sequence[Decision]) -> dict[tuple[int, str, str], list[Run]]:
    """Runs of the recipes that were switched to, on the same task and model, the newest first. One query."""
    wanted = {
        (decision.to_revision_id, one.task, one.model)
        for decision in decisions
        if decision.to_revision_id
        for one in decision.subjects.all()
    }
    if not wanted:
        return {}
    condition = Q()
    for revision, task, model in wanted:
        condition |= Q(revision=revision, task=task, model=model)
    found: dict[tuple[int, str, str], list[Run]] = defaultdict(list)
    for run in Run.objects.filter(condition).defer("config").order_by("-created_at", "id"):
        runs = found[run.revision_id, run.task, run.model]  # type: ignore[index]  # the filter has a revision
        if len(runs) < FOLLOWERS:
            runs.append(run)
    return dict(found)


def _pairs(
    decisions: Sequence[Decision],
    newest: dict[str, Point],
    followers: dict[tuple[int, str, str], list[Run]],
) -> set[tuple[str, float]]:
    """(run, hours) at which pass rates are compared after switches: the most compute that both have."""
    found: set[tuple[str, float]] = set()
    for decision in decisions:
        subjects = list(decision.subjects.all()) if decision.kind == DecisionKind.SWITCH else []
        to = [one.run_key for one in subjects if one.part == Subject.Part.TO and one.run is not None]
        for one in subjects:
            if one.part == Subject.Part.TO:
                continue
            key = (decision.to_revision_id or 0, one.task, one.model)
            others = to or [run.pk for run in followers.get(key, []) if run.pk != one.run_key]
            hours = [h for pk in others if pk in newest and (h := newest[pk].device_hours)]
            mine = newest[one.run_key].device_hours if one.run_key in newest else None
            if hours and mine:
                found |= {(pk, min(mine, max(hours))) for pk in [one.run_key, *others]}
    return found


def reached(pairs: Iterable[tuple[str, float]]) -> dict[tuple[str, float], Reached]:
    """(run, hours) -> the last effective evaluation up to that many device-hours. One query, one index range a pair."""
    wanted = sorted(pairs)
    if not wanted:
        return {}
    values: dict[str, list[str] | list[float] | str] = {
        "runs": [run for run, _ in wanted],
        "hours": [h for _, h in wanted],
        "metric": PASS_RATE,
    }
    with connection.cursor() as cursor:
        cursor.execute(_REACHED, values)
        rows = cursor.fetchall()
    return {(run, most): Reached(value, stderr, hours) for run, most, value, stderr, hours in rows}


_REACHED = """
SELECT wanted.run_id, wanted.most, last.value, last.stderr, last.device_hours
FROM unnest(%(runs)s::text[], %(hours)s::float8[]) AS wanted(run_id, most)
JOIN LATERAL (
    SELECT p.value, p.stderr, p.device_hours FROM runs_series AS s JOIN runs_point AS p ON p.series_id = s.id
    WHERE s.run_id = wanted.run_id AND s.metric = %(metric)s AND p.device_hours <= wanted.most AND NOT EXISTS (
        SELECT 1 FROM runs_attempt AS a
        WHERE a.run_id = s.run_id AND a.number > p.attempt AND a.started_at IS NOT NULL
            AND (a.resumed_from_step IS NULL OR a.resumed_from_step < p.step))
    ORDER BY p.attempt DESC, p.seq DESC LIMIT 1
) AS last ON true
"""
