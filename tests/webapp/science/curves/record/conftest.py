"""Judged runs without the time that judging takes: rows as they would be stored."""

import pytest
from django.utils import timezone

from webapp.record.runs.models import Run, State
from webapp.science.curves.models import ForecastOrigin, ForecastOutcome
from webapp.science.curves.record.recalibrating import note_changed


@pytest.fixture
def judged(project, revision):
    """judged(ratio, ...): a run whose four forecasts said 0.5 +- 0.01 to 0.03, and which came `ratio` 90 % half widths
    above that."""

    def make(ratio, *, task="math", cuts=(0.25, 0.375, 0.5, 0.75), project=project, revision=revision):
        run = Run.objects.create(
            project=project, revision=revision, name="judged", task=task, model="8b", state=State.SUCCEEDED
        )
        came = 0.5 + 0.03 * ratio
        ForecastOutcome.objects.create(
            run=run, data_digest="0" * 64, last=1.0, target=0.94, came=came, judged_at=timezone.now()
        )
        levels = {"0.5": [0.49, 0.51], "0.8": [0.48, 0.52], "0.9": [0.47, 0.53]}
        said = {
            "forecast": {"value": 0.5, "levels": levels},
            "last": {"value": 0.4, "levels": levels},
            "eq1": None,
        }
        ForecastOrigin.objects.bulk_create(
            ForecastOrigin(
                run=run, data_digest=f"{cut}", cut=cut, seen=cut, n=9, as_it_went=False, status="ok", said=said,
                ratios={"0.5": 3 * ratio, "0.8": 1.5 * ratio, "0.9": ratio},
            )
            for cut in cuts
        )  # fmt: skip
        note_changed(project)
        return run

    return make
