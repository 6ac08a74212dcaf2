"""What the API says of runs, recipes and points.

Predictions, reviews, comments and outcomes as JSON and CSV.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from webapp.base.formats import utc
from webapp.interfaces.api.paging import Payload
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.runs.ingest import refused_of
from webapp.record.runs.models import Attempt, Point, Run, Transition
from webapp.record.runs.points import CurvePoint
from webapp.record.runs.sampling import ROLES, Columns, Sampled
from webapp.reporting.alarms.judge import alarm_payload
from webapp.reporting.alarms.models import Alarm
from webapp.science.predictions.models import Comment, Outcome, Prediction
from webapp.science.predictions.selectors import status_of

COLUMNS = (
    "id", "run", "recipe", "revision", "task", "model", "author", "created_at", "life", "review", "statement", "x",
    "metric", "target", "level", "value", "lo", "hi", "rival", "probability", "cutoff", "known_until", "horizon",
    "outcome_run", "actual", "actual_lo", "actual_hi", "error", "inside", "interval_score", "happened",
    "probability_score", "log_score", "outcomes", "withdrawn_at", "withdrawn_reason", "replaces", "replaced_by",
    "reasons",
)  # fmt: skip


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
    return run_payload(run) | {
        "config": run.config,
        "meaning": run.meaning,
        "refused": asdict(refused_of(run)),
        "attempts": attempts,
        "latest": latest,
        "alarms": [alarm_payload(alarm) for alarm in alarms],
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


def sample_payload(sample: Sampled, x: str) -> Payload:
    """How a sample was made, and of how many points; each shown point with what it is of its bucket: last, min, max;
    nothing where every point is shown."""
    roles = sample.roles or [0] * len(sample.points)
    return {
        "sampled": sample.sampled,
        "method": sample.method,
        "total": sample.total,
        "shown": len(sample.points),
        "points": [
            point_payload(point, x) | {"roles": [word for bit, word in ROLES.items() if role & bit]}
            for point, role in zip(sample.points, roles, strict=True)
        ],
    }


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


def point_payload(point: CurvePoint, x: str) -> Payload:
    """A point on one axis."""
    return {
        "compute": getattr(point, x),
        "value": point.value,
        "stderr": point.stderr,
        "step": point.step,
        "attempt": point.attempt,
    }


def prediction_payload(prediction: Prediction) -> Payload:
    """A prediction as in lists; out of `webapp.science.predictions.selectors`."""
    status, revision = status_of(prediction), prediction.revision
    newer = getattr(prediction, "replaced_by", None)
    return {
        "id": prediction.pk,
        "run": prediction.run_id,
        "recipe": revision.recipe.slug if revision else None,
        "revision": revision.number if revision else None,
        "task": prediction.task,
        "model": prediction.model,
        "author": prediction.author.get_username(),
        "created_at": prediction.created_at,
        "life": status.life,
        "review": status.review,
        "statement": prediction.statement,
        "x": prediction.x,
        "metric": prediction.metric,
        "target": prediction.target,
        "level": prediction.level,
        "value": prediction.value,
        "lo": prediction.lo,
        "hi": prediction.hi,
        "rival": prediction.rival_id,
        "probability": prediction.probability,
        "cutoff": prediction.cutoff,
        "known_until": prediction.known_until,
        "horizon": prediction.target / prediction.known_until,
        "reasons": prediction.reasons,
        "replaces": prediction.replaces_id,
        "replaced_by": newer.pk if newer else None,
        "withdrawn_at": prediction.withdrawn_at,
        "withdrawn_reason": prediction.withdrawn_reason,
        "outcomes": outcome_payloads(prediction),
        "waits": [pending.reason for pending in prediction.pendings.all()],
    }


def prediction_detail(prediction: Prediction) -> Payload:
    """With all that was frozen."""
    return prediction_payload(prediction) | {
        "fit": prediction.fit_id,
        "data_digest": prediction.data_digest,
        "frozen": prediction.frozen,
        "rival_frozen": prediction.rival_frozen,
    }


def prediction_row(prediction: Prediction) -> list[Any]:
    """In the order of COLUMNS; with the primary outcome."""
    flat = prediction_payload(prediction)
    primary: Payload = next((outcome for outcome in flat["outcomes"] if outcome["primary"]), {})
    flat = primary | flat | {"outcome_run": primary.get("run"), "outcomes": len(flat["outcomes"])}
    return [flat.get(column) for column in COLUMNS]


def outcome_payloads(prediction: Prediction) -> list[Payload]:
    """In the order in which they were made; the primary one is that of the run itself, else the first."""
    outcomes = sorted(prediction.outcomes.all(), key=lambda outcome: outcome.pk)
    own = next((outcome for outcome in outcomes if outcome.run_id == prediction.run_id), None)
    primary = own or (outcomes[0] if outcomes else None)
    return [_outcome(outcome, outcome is primary) for outcome in outcomes]


def _outcome(outcome: Outcome, primary: bool) -> Payload:
    return {
        "run": outcome.run_id,
        "primary": primary,
        "actual": outcome.actual,
        "actual_lo": outcome.actual_lo,
        "actual_hi": outcome.actual_hi,
        "error": outcome.error,
        "inside": outcome.inside,
        "interval_score": outcome.interval_score,
        "happened": outcome.happened,
        "probability_score": outcome.probability_score,
        "log_score": outcome.log_score,
        "how": outcome.how | {"points": [_in_utc(point, "time") for point in outcome.how.get("points", ())]},
        "created_at": outcome.created_at,
    }


def _in_utc(stored: Payload, name: str) -> Payload:
    """The same, its time written as all others are."""
    return stored | {name: utc(datetime.fromisoformat(stored[name]))}


def reviews_payload(prediction: Prediction) -> Payload:
    """Every verdict and request, oldest first."""
    rows = list(prediction.reviews.select_related("reviewer").order_by("id"))
    latest = {row.reviewer_id: row.pk for row in rows}
    return {
        "review": status_of(prediction).review,
        "requests": [
            {
                "reviewer": one.reviewer.get_username(),
                "asked_by": one.asked_by.get_username(),
                "asked_at": one.asked_at,
            }
            for one in prediction.requests.select_related("reviewer", "asked_by").order_by("id")
        ],
        "items": [
            {
                "id": row.pk,
                "reviewer": row.reviewer.get_username(),
                "verdict": row.verdict,
                "reason": row.reason,
                "counts": latest[row.reviewer_id] == row.pk,
                "created_at": row.created_at,
            }
            for row in rows
        ],
    }


def comment_payload(comment: Comment) -> Payload:
    """A comment with what it said before."""
    return {
        "id": comment.pk,
        "author": comment.author.get_username(),
        "parent": comment.parent_id,
        "text": comment.text,
        "anchor": None if comment.anchor_x is None else [comment.anchor_x, comment.anchor_y],
        "mentions": sorted(person.get_username() for person in comment.mentions.all()),
        "created_at": comment.created_at,
        "edited_at": comment.edited_at,
        "earlier": [_in_utc(one, "until") for one in comment.earlier],
        "resolved_at": comment.resolved_at,
    }
