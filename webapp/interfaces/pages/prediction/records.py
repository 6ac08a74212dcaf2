"""The earlier record of a prediction's author and of its recipe, as a reviewer reads it."""

from typing import Any

from webapp.interfaces.pages.prediction.calibration import apart, headline, verdict
from webapp.science.curves import words
from webapp.science.predictions import selectors
from webapp.science.predictions.calibration import Record
from webapp.science.predictions.models import Outcome, Prediction

MOST = 8


def record_rows(prediction: Prediction) -> list[dict[str, Any]]:
    """First the author's, then the recipe's; a tracked run has no recipe."""
    project = prediction.project
    found = [
        _record(f"Of {prediction.author.username}", selectors.record_of_author(prediction.author, project))
    ]
    found[0]["earlier"] = _earlier(prediction, author=prediction.author)
    if prediction.revision is not None:
        recipe = prediction.revision.recipe
        record = selectors.record_of_recipe(prediction.revision, project=project)
        row = _record(f"Of predictions about {recipe.name}", record)
        found.append(row | {"earlier": _earlier(prediction, recipe=recipe.slug)})
    return found


def _record(title: str, record: Record) -> dict[str, Any]:
    told = record.probabilities
    probabilities = ""
    if told.n:
        probabilities = f"{words.count(told.n, 'claim')} that a rival is passed"
        probabilities += f", mean Brier score {told.brier:.3f}." if told.brier is not None else "."
    row = record.intervals
    errors = ""
    if row.mean_error is not None and row.mean_abs_error is not None:
        errors = f"Mean error {words.signed(row.mean_error)}, mean absolute error {row.mean_abs_error:.3f}."
    return {
        "title": title,
        "headline": headline(row) if row.n else "",
        "errors": errors,
        "verdict": verdict(row),
        "probabilities": probabilities,
        "apart": apart(record.counts),
        "total": record.counts.total,
    }


def _earlier(prediction: Prediction, **about: Any) -> list[tuple[Prediction, list[Outcome]]]:
    """The newest scored claims besides this one, each with what came. Three queries."""
    scored = selectors.predictions_of(prediction.project, status="scored", **about).exclude(pk=prediction.pk)
    return [(one, list(one.outcomes.all())) for one in scored[:MOST]]
