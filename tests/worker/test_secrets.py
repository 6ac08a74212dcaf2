"""A project's secrets on their way to the driver, and in nothing else."""

import json
import logging
import os
import stat
from pathlib import Path

import pytest
from django.test import Client

from tests.members import member
from tests.worker.fake_ray import FakeRay
from webapp.identity.accounts.services import create_token
from webapp.identity.audit.models import Event
from webapp.identity.secrets.models import ProjectSecret
from webapp.identity.secrets.services import delete_secret, set_secret
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Attempt, Dispatch, Run, State
from worker.dispatch import send_dispatches
from worker.reconcile import observe_jobs, reconcile_all

pytestmark = pytest.mark.django_db
VALUE = "hf_NobodyMayReadThis42"


@pytest.fixture
def secret(run: Run) -> str:
    set_secret(run.project, name="HF_TOKEN", value=VALUE, user=member("ada"))
    return VALUE


def file_of(run: Run, home: Path, attempt: int = 1) -> Path:
    return home / "runs" / run.pk / f"run-{run.pk}-a{attempt}.secrets.json"


def test_the_driver_finds_them_in_a_file_of_its_owner_only(
    run: Run, ray: FakeRay, tmp_path: Path, secret: str
) -> None:
    assert send_dispatches() == 1

    path = file_of(run, tmp_path)
    assert json.loads(path.read_text()) == {"HF_TOKEN": VALUE}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    submission = ray.jobs[f"run-{run.pk}-a1"].submission
    assert submission["runtime_env"]["env_vars"]["HEADROOM_SECRETS_FILE"] == str(path)
    assert VALUE not in str(submission) and "HF_TOKEN" not in str(submission)
    assert ProjectSecret.objects.get().last_used_at is not None


def test_without_secrets_there_is_no_file(run: Run, ray: FakeRay, tmp_path: Path) -> None:
    send_dispatches()

    assert "HEADROOM_SECRETS_FILE" not in str(ray.jobs[f"run-{run.pk}-a1"].submission)
    assert not list((tmp_path / "runs" / run.pk).glob("*secrets*"))


def test_a_refused_job_leaves_no_file(run: Run, ray: FakeRay, tmp_path: Path, secret: str) -> None:
    ray.refuse_submissions = (400, f"Traceback\nValueError: no such thing as {VALUE}.")
    send_dispatches()

    run.refresh_from_db()
    assert run.state == State.FAILED and VALUE not in run.state_reason and "•••" in run.state_reason
    assert VALUE not in Dispatch.objects.get().error
    assert not file_of(run, tmp_path).exists()


def test_a_secret_that_cannot_be_opened_waits_and_says_so(
    run: Run, ray: FakeRay, secret: str, settings
) -> None:
    settings.SECRETS_KEY = "the key was lost"
    assert send_dispatches() == 0

    run.refresh_from_db()
    assert run.state == State.QUEUED and "HF_TOKEN" in run.state_reason
    assert not ray.jobs


def test_the_value_is_in_no_page_no_answer_no_log_and_no_row(
    run: Run, ray: FakeRay, secret: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    send_dispatches()
    job = ray.jobs[f"run-{run.pk}-a1"]
    job.status, job.message = "FAILED", f"failed with exit code 1: 401 for token {VALUE}"
    job.log = f"{VALUE[5:]} cut\nGET https://hub/?token={VALUE}\nerror: 401 {VALUE}\n"
    observe_jobs()
    ada = run.project.members.get(username="ada")
    client.force_login(ada)
    token = create_token(user=ada, project=run.project, scope="launch")
    api = {"HTTP_AUTHORIZATION": f"Bearer {token}"}

    seen = [b"".join(client.get(path)).decode() for path in (
        f"/runs/{run.pk}", f"/runs/{run.pk}?tab=log", f"/runs/{run.pk}/log/1", "/runs", "/project/settings", "/audit",
        "/project/members",
    )]  # fmt: skip
    seen += [b"".join(client.get(f"/audit.{form}").streaming_content).decode() for form in ("csv", "jsonl")]
    seen += [client.get(path, **api).content.decode() for path in (f"/api/v1/runs/{run.pk}", "/api/v1/runs")]
    assert "HF_TOKEN" in seen[4] and "•••" in seen[2]
    rows = [
        *Attempt.objects.values(),
        *Run.objects.values(),
        *Event.objects.values(),
        *Dispatch.objects.values(),
    ]
    for text in (*seen, str(rows), caplog.text):
        assert VALUE not in text and VALUE[5:] not in text
    assert Attempt.objects.get().log_tail.endswith("error: 401 •••\n")


def test_what_the_driver_reports_is_cleaned(run: Run, ray: FakeRay, secret: str) -> None:
    send_dispatches()
    lifecycle.report_started(run, attempt=1)
    lifecycle.report_finished(run, attempt=1, state="failed", message=f"the hub refused {VALUE}")

    run.refresh_from_db()
    assert run.state_reason == "the hub refused •••"


def test_a_deleted_value_is_forgotten_when_its_last_job_has_ended(
    run: Run, ray: FakeRay, secret: str, settings
) -> None:
    send_dispatches()
    ray.jobs[f"run-{run.pk}-a1"].status = "RUNNING"
    delete_secret(run.project, name="HF_TOKEN", user=run.project.members.get(username="ada"))
    ray.jobs[f"run-{run.pk}-a1"].log = f"with {VALUE}\n"
    reconcile_all()
    assert Attempt.objects.get().log_tail == "with •••\n"
    assert ProjectSecret.objects.count() == 1

    ray.jobs[f"run-{run.pk}-a1"].status = "SUCCEEDED"
    reconcile_all()
    assert not ProjectSecret.objects.exists()


def test_the_specification_of_a_job_does_not_print_them(run: Run, secret: str) -> None:
    from webapp.record.runs.launch import job_spec

    spec = job_spec(Dispatch.objects.get())

    assert spec.secrets == {"HF_TOKEN": VALUE}
    assert VALUE not in repr(spec) and spec.token not in repr(spec) and VALUE not in str(spec.env)
