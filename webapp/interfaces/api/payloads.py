"""What the API says of runs, recipes and points."""

from dataclasses import asdict
from typing import Any

from webapp.record.recipes.models import Recipe, Revision
from webapp.record.runs.ingest import refused_of
from webapp.record.runs.models import Attempt, Point, Record, Run, Transition
from webapp.record.runs.points import CurvePoint
from webapp.record.runs.sampling import ROLES, Columns, Sampled
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.words import alarm_payload

Payload = dict[str, Any]


def run_payload(run: Run) -> Payload:
    """A run as in lists; needs `revision__recipe` and `created_by` selected."""
    revision = run.revision
    return {
        "id": run.pk,
        "name": run.name,
        "origin": run.origin,
        "state": run.state,
        "state_reason": run.state_reason,
        "recipe": revision.recipe.slug if revision else None,
        "revision": revision.number if revision else None,
        "task": run.task,
        "model": run.model,
        "seed": run.seed,
        "tags": run.tags,
        "notes": run.notes,
        "archived_at": run.archived_at,
        "deleted_at": run.deleted_at,
        "budget_hours": run.budget_hours,
        "priority": run.get_priority_display(),
        "retries": run.retry_limit,
        "attempt": run.attempt_number,
        "version": run.version,
        "created_by": run.created_by.get_username() if run.created_by else None,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "heartbeat_at": run.heartbeat_at,
    }


def run_detail(run: Run, attempts: list[Attempt], latest: dict[str, Point], alarms: list[Alarm]) -> Payload:
    """A run with its configuration, attempts, newest values and alarms."""
    values = {name: {"value": p.value, "stderr": p.stderr, "step": p.step} for name, p in latest.items()}
    return run_payload(run) | {
        "config": run.config,
        "meaning": run.meaning,
        "refused": asdict(refused_of(run)),
        "attempts": [attempt_payload(attempt) for attempt in attempts],
        "latest": values,
        "alarms": [alarm_payload(alarm) for alarm in alarms],
    }


def attempt_payload(attempt: Attempt) -> Payload:
    return {
        "number": attempt.number,
        "state": attempt.state,
        "message": attempt.message,
        "submission_id": attempt.submission_id,
        "resumed_from_step": attempt.resumed_from_step,
        "device": attempt.device,
        "created_at": attempt.created_at,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
    }


def transition_payload(row: Transition) -> Payload:
    return {
        "attempt": row.attempt,
        "from_state": row.from_state or None,
        "to_state": row.to_state,
        "at": row.at,
        "actor": row.actor.get_username() if row.actor else None,
        "part": row.part,
        "reason": row.reason,
    }


def recipe_payload(recipe: Recipe) -> Payload:
    """A recipe as `webapp.record.recipes.selectors.recipes_of` annotates it."""
    return {
        "slug": recipe.slug,
        "name": recipe.name,
        "description": recipe.description,
        "latest_revision": recipe.latest_number,  # type: ignore[attr-defined]
        "content_hash": recipe.latest_hash,  # type: ignore[attr-defined]
        "runs": recipe.run_count,  # type: ignore[attr-defined]
        "created_at": recipe.created_at,
    }


def revision_payload(revision: Revision, slug: str) -> Payload:
    return {
        "recipe": slug,
        "number": revision.number,
        "content_hash": revision.content_hash,
        "message": revision.message,
        "created_by": revision.created_by.get_username() if revision.created_by else None,
        "created_at": revision.created_at,
        "config": revision.config,
    }


def record_payload(record: Record) -> Payload:
    """As it was reported."""
    return {
        "attempt": record.attempt,
        "seq": record.seq,
        "step": record.step,
        "time": record.time,
        "compute": record.compute,
        "metrics": record.metrics,
    }


def sampling_payload(sample: Sampled) -> Payload:
    """How a sample was made, and of how many points."""
    return {
        "sampled": sample.sampled,
        "method": sample.method,
        "total": sample.total,
        "shown": len(sample.points),
    }


def sampled_payloads(sample: Sampled, x: str) -> list[Payload]:
    """Each shown point with what it is of its bucket: last, min, max; nothing where every point is shown."""
    roles = sample.roles or [0] * len(sample.points)
    return [
        point_payload(point, x) | {"roles": roles_in_words(role)}
        for point, role in zip(sample.points, roles, strict=True)
    ]


def columns_payload(run_id: str, columns: Columns) -> Payload:
    """A sample in columns, with how it was made."""
    return {
        "run": run_id,
        "sampled": len(columns.step) < columns.total,
        "method": columns.method,
        "total": columns.total,
        "shown": len(columns.step),
        "step": columns.step,
        "compute": columns.compute,
        "value": columns.value,
        **{role: columns.places.get(role, []) for role in ROLES.values()},
    }


def roles_in_words(role: int) -> list[str]:
    return [word for bit, word in ROLES.items() if role & bit]


def point_payload(point: CurvePoint, x: str) -> Payload:
    """A point on one axis."""
    return {
        "compute": getattr(point, x),
        "value": point.value,
        "stderr": point.stderr,
        "step": point.step,
        "attempt": point.attempt,
    }
