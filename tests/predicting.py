"""Claims for tests, through the service that pages and API use."""

from typing import Any

from webapp.identity.accounts.models import User
from webapp.record.runs.models import Run
from webapp.science.curves.fitting import Question
from webapp.science.predictions import services
from webapp.science.predictions.claims import Claim
from webapp.science.predictions.models import Prediction

NUMBERS = ("value", "lo", "hi", "probability", "rival")


def predicted(*, user: User, run: Run, **asked: Any) -> Prediction:
    """A frozen claim about the pass rate at 16 device-hours; `question` and all else that a claim says can be given."""
    said = {"statement": "pass_rate", "target": 16.0, "level": 0.9, "reasons": "The curve has bent."} | asked
    question = Question(level=said.pop("level"), **said.pop("question", {}))
    numbers = {name: said.pop(name) for name in NUMBERS if name in said}
    claim = Claim(said.pop("statement"), said.pop("target"), question, **numbers)
    return services.freeze(claim, run=run, user=user, **said).prediction
