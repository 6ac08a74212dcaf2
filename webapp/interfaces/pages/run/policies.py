"""What a run's page says of policies that acted in its current attempt."""

from django.template.loader import render_to_string

from webapp.record.runs.models import Run
from webapp.reporting.policies.selectors import acted_on


def acted(run: Run) -> str:
    """As HTML; empty where none did. What was done in earlier attempts is in their tab."""
    actions = [action for action in acted_on(run) if action.attempt == run.attempt_number]
    return render_to_string("run/_policies.html", {"actions": actions}).strip() if actions else ""
