"""What is said of a run changes; what was predicted of it, and the study it is in, stay."""

import pytest

from webapp.base.errors import Conflict
from webapp.record.runs.editing import change_run, delete_run
from webapp.record.runs.models import Run, State
from webapp.science.predictions.models import Prediction
from webapp.science.studies.models import Arm, Study, StudyRun


@pytest.fixture
def elsewhere(run):
    """A run that trained elsewhere and has ended."""
    run.origin, run.state = Run.Origin.TRACKED, State.SUCCEEDED
    run.save()
    return run


def test_a_prediction_keeps_what_it_was_made_for(run, freeze, author):
    Run.objects.filter(pk=run.pk).update(origin=Run.Origin.TRACKED)
    made = freeze()
    before = Prediction.objects.values().get(pk=made.pk)

    change_run(run, {"name": "other", "task": "code", "model": "70b", "seed": 9}, user=author)

    assert Prediction.objects.values().get(pk=made.pk) == before
    assert (before["task"], Run.objects.get(pk=run.pk).task) == ("math", "code")
    with pytest.raises(Conflict, match="open"):
        change_run(run, {"name": "third", "meaning": {"devices": 8.0}}, user=author)
    assert Run.objects.get(pk=run.pk).name == "other"


def test_a_run_that_a_prediction_rests_on_is_not_deleted(run, freeze):
    freeze()
    Run.objects.filter(pk=run.pk).update(origin=Run.Origin.TRACKED, state=State.SUCCEEDED)

    with pytest.raises(Conflict, match="A prediction rests"):
        delete_run(Run.objects.get(pk=run.pk), user=None)
    assert Run.objects.filter(pk=run.pk).exists()


def test_a_run_in_a_study_is_not_deleted(elsewhere, project, revision):
    study = Study.objects.create(project=project, name="What matters", base=revision, budget_hours=1.0)
    arm = Arm.objects.create(study=study, label="base", position=0)
    place = StudyRun.objects.create(study=study, arm=arm, run=elsewhere)

    with pytest.raises(Conflict, match="in a study"):
        delete_run(elsewhere, user=None)
    place.delete()
    assert delete_run(elsewhere, user=None).deleted_at is not None
