"""`python -m tests.webapp.operation.project_transfer.filling FILE`: a project `lab` with something of everything,
in the database at hand, which is exported into the file and told of."""

import io
import sys

import django

django.setup()

import numpy as np  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402

from benchmarks.made.command import Command as MakeData  # noqa: E402
from tests.members import member  # noqa: E402
from tests.predicting import predicted  # noqa: E402
from tests.webapp.operation.project_transfer import telling  # noqa: E402
from tests.webapp.science.predictions.conftest import add_points, rate  # noqa: E402
from webapp.identity.accounts.models import Project, Role  # noqa: E402
from webapp.identity.secrets.services import set_secret  # noqa: E402
from webapp.record.artifacts.store import store  # noqa: E402
from webapp.record.runs.models import Attempt, Dispatch, Record, Run, State  # noqa: E402
from webapp.record.savedviews.services import create_view, set_default  # noqa: E402
from webapp.reporting.policies.services import set_project_policy  # noqa: E402
from webapp.reporting.reports.services import create_report, publish  # noqa: E402
from webapp.science.curves.services import refit  # noqa: E402
from webapp.science.decisions.services import decide  # noqa: E402
from webapp.science.predictions import discussion, judging, services  # noqa: E402
from webapp.science.studies.models import Arm, Study, StudyRun  # noqa: E402

SECRET = "hf_of_the_lab_1234"


def fill() -> None:
    call_command(MakeData(), runs=6, points=6000, project="lab", processes=1, seed=1, verbosity=0)
    lab = Project.objects.get(slug="lab")
    ada = member("ada", project=lab, email="ada@lab.example", first_name="Ada")
    grace = member("grace", project=lab, role=Role.REVIEWER, email="grace@lab.example")
    member("idle", project=lab, role=Role.VIEWER)
    set_secret(lab, name="HF_TOKEN", value=SECRET, user=ada)
    set_project_policy(lab, actions={"advice": "stop"}, advice_delta=0.02, user=ada)
    run = at_work(lab, ada, "Predicted")
    evaluate(lab, run, ada)
    predict(lab, run, ada, grace)
    ended = {"state": State.SUCCEEDED, "ended_at": timezone.now()}
    Run.objects.filter(pk=run.pk).update(**ended)
    Attempt.objects.filter(run=run).update(**ended)
    at_work(lab, ada, "At work")
    for path, content in (
        ("model/weights", bytes(range(256)) * 9),
        ("copy", bytes(range(256)) * 9),
        ("empty", b""),
    ):
        store(run, path, io.BytesIO(content).read)
    view = create_view(user=ada, project=lab, name="Mine", filter="by:me", shared=True)
    set_default(view.pk, user=ada, project=lab)
    report = create_report(user=grace, project=lab, title="Where it bends", text="Words.")
    publish(report, user=grace, base=1)


def at_work(lab, ada, name) -> Run:
    """A run without evaluations yet, whose hand-over to the cluster is not done."""
    revision = lab.recipes.order_by("slug").first().revisions.first()
    run = Run.objects.create(
        project=lab, revision=revision, name=name, task="math", model="8b", budget_hours=16.0,
        state=State.RUNNING, created_by=ada, config={"lr": 1e-4, "words": "tab\there\\ and ünïcode"},
    )  # fmt: skip
    Attempt.objects.create(run=run, number=1, submission_id=f"run-{run.pk}-a1", state=State.RUNNING)
    Dispatch.objects.create(run=run, attempt=1, kind=Dispatch.Kind.SUBMIT)
    Record.objects.create(
        run=run, attempt=1, seq=39, step=8000, time=run.created_at, compute={"device_hours": 8.0},
        metrics={"eval/pass_rate": 0.59},
    )  # fmt: skip
    return run


def evaluate(lab, run, ada) -> None:
    hours = np.geomspace(0.1, 8.0, 40)
    add_points(run, hours, rate(hours) + 0.004 * np.random.default_rng(0).standard_normal(40))
    refit(run.pk)
    study = Study.objects.create(
        project=lab,
        name="Seeds",
        base=run.revision,
        task="math",
        model="8b",
        budget_hours=16.0,
        created_by=ada,
    )
    arm = Arm.objects.create(
        study=study, position=0, label="Base", revision=run.revision, task="math", model="8b"
    )
    StudyRun.objects.create(study=study, run=run, arm=arm)


def predict(lab, run, ada, grace) -> None:
    """One prediction that is scored, one that is withdrawn, and entries of the decision log."""
    first, second = (predicted(user=ada, run=run, target=target) for target in (12.0, 16.0))
    discussion.ask_review(first, user=ada, reviewers=[grace])
    discussion.review(first, user=grace, verdict="approved")
    said = discussion.comment(first, user=grace, text="Why not @ada later?")
    discussion.comment(first, user=ada, text="Because.", parent=said)
    services.withdraw(second, user=ada, reason="Too soon.")
    decide(run, user=ada, kind="continue", reason="It grows.")
    decide(first, user=grace, kind="note", reason="Seen.")
    hours = np.linspace(8.4, 12.6, 12)
    add_points(run, hours, rate(hours))
    refit(run.pk)
    assert judging.score_run(run.pk)


if __name__ == "__main__":
    fill()
    call_command("export_project", "lab", sys.argv[1])
    print(telling.words())
