"""One change of a prediction at a time, and which predictions take no change any more."""

from webapp.base.errors import Conflict
from webapp.science.predictions.frozen import passed_already
from webapp.science.predictions.models import Outcome, Prediction


def locked(prediction: Prediction) -> Prediction:
    """The prediction as it is now, until this transaction ends nobody else's."""
    rows = Prediction.objects.select_for_update(of=("self",)).select_related("project", "run", "author")
    return rows.get(pk=prediction.pk)


def refuse_closed(prediction: Prediction, verb: str, field: str | None = None) -> None:
    """Raises Conflict where it was withdrawn, replaced or scored, or where a run has passed its target."""
    said = f"{field}: " if field else ""
    if prediction.withdrawn_at is not None:
        raise Conflict(f"{said}this prediction was withdrawn; it cannot be {verb}.", field=field)
    if Prediction.objects.filter(replaces=prediction).exists():
        raise Conflict(f"{said}this prediction was replaced; it cannot be {verb}.", field=field)
    if Outcome.objects.filter(prediction=prediction).exists():
        raise Conflict(f"{said}this prediction was scored; it cannot be {verb}.", field=field)
    if newly_passed(prediction):
        raise Conflict(f"{said}a run has passed its target; the claim cannot be {verb}.", field=field)


def newly_passed(prediction: Prediction) -> list[str]:
    """The runs of its recipe that passed the target after the claim was made."""
    seen = set(prediction.frozen["seen"])
    return [pk for pk in passed_already(prediction.run, prediction.x, prediction.target) if pk not in seen]
