"""The text that an empty list of reports offers to begin with."""

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.reporting.reports.blocks import text_of

TITLE = "Where this recipe tops out"
BEFORE = """## What we asked

Does the recipe still gain, and where does its curve bend? Write the answer first, then the evidence.

"""
AFTER = """

## What we read from it

- The **ceiling** comes with its interval, or it is said not to be identified.
- What lies beyond the last evaluation is an extrapolation.

| Choice | Kept | Why |
|---|---|---|
| Loss | yes | the ceilings tie, the curve climbs faster |
| Batch | no | nothing gained |

> Numbers in the blocks are read from the runs: nobody types them.
"""


def example(project: Project) -> str:
    """The example about the project's newest fitted run; without a run its blocks say what to put in."""
    runs = Run.objects.filter(project=project, archived_at=None)
    run = (
        runs.filter(fits__isnull=False).order_by("-created_at").first()
        or runs.order_by("-created_at").first()
    )
    key = run.pk if run else "ID-OF-A-RUN"
    blocks = [
        text_of({"number": "ceiling", "run": key}),
        text_of({"chart": "run", "run": key, "caption": "The curve so far."}),
    ]
    return BEFORE + "\n\n".join(blocks) + AFTER
