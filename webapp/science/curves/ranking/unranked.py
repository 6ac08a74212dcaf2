"""Runs that have a pass rate and stand in no ranking, because nobody knows their device-hours."""

from typing import Any
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef
from django.urls import reverse

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.science.curves.models import Fit

FILTER = "used:none ceiling.lo:none NOT pass_rate:none"  # as the list of runs understands it


def unranked(project: Project, task: str = "", model: str = "") -> dict[str, Any]:
    """How many there are of this task and model ("" is any), and where they are listed. One query."""
    fitted = Fit.objects.filter(run=OuterRef("pk"), superseded=False)
    named = {name: value for name, value in (("task", task), ("model", model)) if value}
    runs = Run.objects.filter(
        ~Exists(fitted), project=project, summary__used_hours=None, summary__pass_rate__isnull=False, **named
    )
    words = [FILTER, *(f'{name}:"{value}"' for name, value in named.items())]
    return {"count": runs.count(), "url": f"{reverse('runs')}?{urlencode({'filter': ' '.join(words)})}"}
