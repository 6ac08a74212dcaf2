"""What a run's page says before Resume is pressed, where that would not go on from a checkpoint."""

from django.utils.html import format_html

from webapp.identity.audit.models import Event
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import asks_the_store, begins_anew

REMOVED = "run.checkpoints_removed"
FOLLOWS = (
    "Resume begins anew, from step 0, as its next attempt: every point reported so far stays, but is superseded and "
    "in no fit."
)
STORED = (
    "The run's folder has no checkpoint. Resume takes the newest whole one of the checkpoint store; where that has "
    "none, it begins anew, from step 0, and every point reported so far stays, but is superseded and in no fit."
)


def before_resuming(run: Run) -> str:
    """As HTML, for a run that can be resumed; empty where it goes on from a checkpoint, or has not trained yet."""
    if asks_the_store(run):
        return format_html('<div class="note">{}</div>', STORED)
    if not begins_anew(run):
        return ""
    is_removed = Event.objects.filter(project=run.project_id, object_id=run.pk, verb=REMOVED).exists()
    why = "The clean-up has removed its checkpoints." if is_removed else "It has no checkpoint."
    return format_html('<div class="note warn">{} {}</div>', why, FOLLOWS)
