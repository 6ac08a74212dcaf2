"""The overview: runs, identified ceilings, alarms, queue, ended runs, leaders. A constant number of queries."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.core.cache import cache
from django.utils import timezone

from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.marks import duration, shared_scale
from webapp.interfaces.pages.run.attempts import last_line
from webapp.interfaces.pages.run_list.columns import Row, rows_of
from webapp.record.alarm_rules import Level
from webapp.record.evaluations.selectors import open_of
from webapp.record.runs.models import Point, Run, State
from webapp.record.runs.pace import time_left
from webapp.record.runs.places import waiting_of
from webapp.record.runs.selectors import span_of_runs
from webapp.record.runs.states import ACTIVE, ENDED, WAITING
from webapp.reporting.alarms.judge import alarm_payload
from webapp.science.curves import words
from webapp.science.curves.models import Fit
from webapp.science.curves.ranking.leaderboard import leaderboard
from webapp.science.curves.selectors import newly_identified

Payload = dict[str, Any]
IDENTIFIED_SINCE = timedelta(days=7)
ENDED_SINCE = timedelta(days=1)
MOST = 12  # rows of a section
FEW = 10  # runs of a project that is new
LEADERS_SECONDS = 60
PARTS = ("alarms", "running", "waiting", "identified", "ended", "leaders", "reviews")


def overview(project: Project) -> Payload:
    """Everything but the cluster. The number of queries does not grow with the number of runs."""
    now = timezone.now()
    running = _runs(project).filter(state__in=ACTIVE - WAITING).order_by("-started_at", "pk")
    ended = (
        _runs(project).filter(state__in=ENDED, ended_at__gte=now - ENDED_SINCE).order_by("-ended_at", "pk")
    )
    running_runs, ended_runs = list(running[: MOST + 1]), list(ended[: MOST + 1])
    rows = {row.run.pk: row for row in rows_of(running_runs[:MOST] + ended_runs[:MOST])}
    running_rows = [rows[run.pk] for run in running_runs[:MOST]]
    spans = span_of_runs([row.run.pk for row in running_rows])
    return {
        **beginning(project),
        "scale": shared_scale([row.ceiling for row in rows.values()]),
        "running": [(row, _to_the_end(row, spans.get(row.run.pk))) for row in running_rows],
        "more_running": len(running_runs) > MOST,
        "alarms": raised(running_rows),
        **queued(project),
        "identified": _identified(project),
        "ended": [_ended(rows[run.pk]) for run in sorted(ended_runs[:MOST], key=_went_well)],
        "more_ended": len(ended_runs) > MOST,
        "leaders": leaders(project),
    }


def beginning(project: Project) -> Payload:
    """Whether there is a run, and whether to say how one begins: few are there, and none of a trainer elsewhere."""
    origins = list(Run.objects.filter(project=project).values_list("origin", flat=True)[:FEW])
    return {"has_runs": bool(origins), "begins": len(origins) < FEW and Run.Origin.TRACKED not in origins}


def _runs(project: Project) -> Any:
    runs = Run.objects.filter(project=project).select_related("revision__recipe")
    return runs.defer("config", "revision__config")


def _to_the_end(row: Row, span: tuple[Point, Point] | None) -> str:
    """ "ends in about 25 min"; empty where not known."""
    left = time_left(row.run, row.used_hours, span)
    return f"ends in about {duration(left)}" if left is not None else ""


def raised(rows: Sequence[Row]) -> list[Payload]:
    """The active alarms of runs at work: critical ones first, then the newest."""
    found = [(alarm, row.run) for row in rows for alarm in row.alarms]
    found.sort(key=lambda pair: (pair[0].level != Level.CRITICAL, -pair[0].raised_at.timestamp()))
    return [alarm_payload(alarm) | {"alarm": alarm, "run": run} for alarm, run in found]


def queued(project: Project) -> Payload:
    """The project's runs that wait, each with what for, and benchmarks of its checkpoints in the same queue. Two
    queries."""
    waiting = waiting_of(project)
    return {
        "benchmarks": open_of(project, MOST),
        "waiting": [(run, why(run)) for run in waiting[:MOST]],
        "more_waiting": max(0, len(waiting) - MOST),
    }


def why(run: Run) -> str:
    """What a queued run waits for, as a worker has said it."""
    said = run.state_reason or "waits for a worker"
    return said if said.endswith((".", "!", "?")) else f"{said}."


def _identified(project: Project) -> list[Payload]:
    """Runs of which Eq. 1 became identified, at what compute, with the forecast ceiling as it is now."""
    began = newly_identified(project, timezone.now() - IDENTIFIED_SINCE, MOST)
    ceilings = [row.ceiling for row in rows_of([fit.run for fit in began])]
    scale = shared_scale(ceilings)
    return [
        {
            "run": fit.run,
            "at": words.amount(fit.fitted_hi),
            "when": fit.created_at,
            "ceiling": ceiling,
            "scale": scale,
        }
        for fit, ceiling in zip(began, ceilings, strict=True)
    ]


def _ended(row: Row) -> Payload:
    """A run that ended, what came of it, and what to do next."""
    run, said = row.run, last_line(row.run.state_reason)
    if run.state == State.SUCCEEDED:
        return {"row": row, "result": _outcome(row)}
    if run.state == State.CANCELLED:
        return {"row": row, "result": f"{said or 'Cancelled.'} {_outcome(row)}"}
    relaunch = False
    if run.origin == Run.Origin.TRACKED:
        next_step = "Look at its trainer."
    elif row.used_hours:
        next_step = "Read its log, then resume it: it goes on from its last checkpoint."
    else:
        next_step, relaunch = "Nothing was trained. Mend the cause, then launch it again.", True
    reason = said or "No reason was given; its log may say."
    return {"row": row, "result": reason, "next_step": next_step, "relaunch": relaunch}


def _outcome(row: Row) -> str:
    """The pass rate reached and the ceiling with its interval, in a line."""
    if row.latest is None:
        return "No evaluation was reported."
    rate = words.measured(row.latest, row.latest_stderr)
    if row.ceiling is None:
        why = "nothing could be forecast" if row.spent is not None else "its device-hours are not known"
        return f"Reached {rate}; {why}."
    if not row.ceiling["identified"]:
        return f"Reached {rate}; its ceiling is not known yet ({row.ceiling['interval_text']})."
    return f"Reached {rate}; ceiling {row.ceiling['text']} ({row.ceiling['interval_text']})."


def _went_well(run: Run) -> bool:
    """What failed or was lost stands above the others, which stay in their order."""
    return run.state not in (State.FAILED, State.LOST)


def leaders(project: Project) -> list[Payload]:
    """Of each task and model one sentence on who leads; remembered until the next fit, at most a minute."""
    newest = Fit.objects.filter(run__project=project).order_by("-id").values_list("id", "created_at").first()
    if newest is None:
        return []
    key = f"leaders-{project.pk}-{newest[0]}-{newest[1].timestamp()}"
    compute = lambda: [leader(group) for group in leaderboard(project, published=False)]
    return cache.get_or_set(key, compute, LEADERS_SECONDS) or []


def leader(group: Payload) -> Payload:
    """One sentence on a group of the leaderboard: who leads, or why nobody does yet."""
    first = group["rows"][0] if group["rows"] else None
    return {
        "task": group["task"],
        "model": group["model"],
        "sentence": group["headline"],
        "ceiling": first["forecast_ceiling"] if first and first["rank"] == 1 else None,
        "scale": tuple(group["scale"]),
    }


def seeds_words(row: Payload) -> str:
    """ "3 seeds", or "2 of 3 seeds" where only those have an identified ceiling, of which the row's is made."""
    all_of_them = words.count(row["seeds"], "seed")
    identified = row.get("identified_seeds")
    return all_of_them if identified in (None, 0, row["seeds"]) else f"{identified} of {all_of_them}"
