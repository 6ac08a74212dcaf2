"""Telling people about a prediction: only who may still see its project."""

from webapp.identity.accounts.events import notify
from webapp.identity.accounts.models import User
from webapp.identity.accounts.permissions import Permission, may
from webapp.science.predictions.models import Prediction


def address(prediction: Prediction) -> str:
    """The path of the prediction's page."""
    return f"/predictions/{prediction.pk}"


def tell(person: User, prediction: Prediction, kind: str, text: str, *, at: str = "") -> bool:
    """A notice for this person, with a link to the prediction, at `at` ("#comment-3"). False for no member."""
    if not may(person, prediction.project, Permission.VIEW):
        return False
    words = " ".join(text.split())
    notify(person, project=prediction.project, kind=kind, text=words, url=address(prediction) + at)
    return True
