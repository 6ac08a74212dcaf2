"""Reading the decision log."""

from django.db.models import Model, QuerySet

from webapp.base.errors import InvalidInput, first_of
from webapp.identity.accounts.models import Project, User
from webapp.record.runs.models import Run
from webapp.science.decisions.models import About, DecisionKind, Entry
from webapp.science.predictions.models import Prediction
from webapp.science.studies.models import Study

Object = Run | Prediction | Study
MODELS: dict[str, type[Model]] = {About.RUN: Run, About.PREDICTION: Prediction, About.STUDY: Study}
CHOICES = {"kind": DecisionKind.values, "about": About.values}


def decisions_of(project: Project, **filters: str) -> QuerySet[Entry]:
    """The log of a project, newest first. filters: person (username), kind, about, object_id; "" filters nothing.

    Raises InvalidInput for a kind, or something to be about, that there is not.
    """
    for name, values in CHOICES.items():
        if (asked := filters.get(name)) and asked not in values:
            raise InvalidInput(name, f"{name} must be one of {', '.join(values)}.")
    columns = {"decided_by__username" if name == "person" else name: v for name, v in filters.items() if v}
    return Entry.objects.filter(project=project, **columns).select_related("decided_by")


def decision_by_id(project: Project, key: str) -> Entry:
    """One entry of this project. Raises NotFound, also for one of another project."""
    return first_of(decisions_of(project).filter(pk=key), f"There is no decision {key} in this project.")


def people_of(project: Project) -> list[str]:
    """Usernames of all who decided something, to filter by."""
    people = User.objects.filter(decisions__project=project).order_by("username").distinct()
    return list(people.values_list("username", flat=True))


def object_of(project: Project, about: str, object_id: str) -> Object:
    """What an entry would be about. Raises InvalidInput (about, object_id), also for one of another project."""
    if about not in About.values:
        raise InvalidInput("about", f"about must be one of {', '.join(About.values)}.")
    if (found := MODELS[about]._default_manager.filter(project=project, pk=object_id).first()) is None:
        raise InvalidInput("object_id", f"There is no {about} {object_id[:40]} in this project.")
    return found  # type: ignore[return-value]  # one of MODELS


def about_of(found: Object) -> About:
    """Which kind of object this is."""
    return next(About(about) for about, model in MODELS.items() if isinstance(found, model))
