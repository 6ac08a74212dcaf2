import json
import shlex
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from tests.checkpoints import whole_checkpoint
from tests.worker.fake_ray import FakeRay
from webapp.record.evaluations.models import Evaluation
from webapp.record.evaluations.services import EvaluationRequest, ask_for, cancel
from webapp.record.runs.lifecycle import claim_dispatches
from webapp.record.runs.models import Run
from worker.reconcile import observe_jobs

pytestmark = pytest.mark.django_db
RESULT = {"pass_rate": 0.25, "pass_rate_stderr": 0.05, "contamination": 0.0}


@pytest.fixture
def one(run: Run) -> Evaluation:
    whole_checkpoint(run.pk, 7)
    options = {"max_digits": 2, "held_out_pool": 5, "train_prompts": 20}
    return ask_for(run, EvaluationRequest(task="arithmetic", options=options, k=4, limit=3), user=None)[0]


def name_of(one: Evaluation) -> str:
    one.refresh_from_db()
    return one.submission_id


def test_it_is_a_job_with_one_engine_of_the_recipe(one: Evaluation, ray: FakeRay, tmp_path: Path) -> None:
    observe_jobs()
    observe_jobs()

    assert ray.submitted == [name_of(one)]
    submission = ray.jobs[one.submission_id].submission
    command, _, out = submission["entrypoint"].rpartition(" > ")
    folder = tmp_path / "runs" / one.run_id
    assert shlex.split(command) == [
        "exec", sys.executable, "-m", "training", "evaluate", str(folder / "checkpoints" / "step-00000007"),
        "--task", "arithmetic", "--k", "4", "--limit", "3", "--option", "max_digits=2", "--option", "held_out_pool=5",
        "--option", "train_prompts=20", "--json",
    ]  # fmt: skip
    assert Path(out).parent.is_dir() and folder in Path(out).parents
    assert (submission["entrypoint_num_cpus"], submission["entrypoint_num_gpus"]) == (1, 0)
    assert submission["runtime_env"]["env_vars"]["HEADROOM_HOME"] == str(tmp_path)


def test_what_a_person_typed_stays_one_word_of_the_command(one: Evaluation, ray: FakeRay) -> None:
    typed = "{problem}'; touch /tmp/owned #\n$(id) `id`"
    Evaluation.objects.update(options={"template": typed})

    observe_jobs()

    words = shlex.split(ray.jobs[name_of(one)].submission["entrypoint"])
    assert json.loads(words[words.index("--option") + 1].removeprefix("template=")) == typed
    assert words[-3:-1] == ["--json", ">"] and "touch" not in words


def test_its_result_is_kept(one: Evaluation, ray: FakeRay) -> None:
    observe_jobs()
    job = ray.jobs[name_of(one)]
    Path(shlex.split(job.submission["entrypoint"])[-1]).write_text(json.dumps(RESULT))
    job.status = "SUCCEEDED"

    observe_jobs()

    one.refresh_from_db()
    assert (one.state, one.result, one.reason) == ("succeeded", RESULT, "") and one.ended_at is not None


def test_what_no_database_takes_in_a_result_holds_up_nobody(one: Evaluation, ray: FakeRay) -> None:
    other, _ = ask_for(one.run, EvaluationRequest(task="arithmetic", options=one.options, k=2), user=None)
    texts = ['{"pass_rate": NaN}', r'{"pass_rate": 0.5, "pass_rate_stderr": NaN, "metric": "a\u0000"}']
    observe_jobs()
    for each, text in zip((one, other), texts, strict=True):
        job = ray.jobs[name_of(each)]
        Path(shlex.split(job.submission["entrypoint"])[-1]).write_text(text)
        job.status = "SUCCEEDED"

    observe_jobs()

    one.refresh_from_db()
    other.refresh_from_db()
    assert (one.state, one.reason) == ("failed", "Its result cannot be read: it has no pass rate")
    assert other.result == {
        "pass_rate": 0.5,
        "pass_rate_stderr": None,
        "metric": "a\N{REPLACEMENT CHARACTER}",
    }


@pytest.mark.parametrize(
    ("status", "log", "words"),
    [
        ("FAILED", "loading\nerror: openai/gsm8k is not here\n", "error: openai/gsm8k is not here"),
        ("STOPPED", "", "Its job is stopped."),
        ("SUCCEEDED", "", "Its result cannot be read"),
    ],
)
def test_why_it_failed_is_said(one: Evaluation, ray: FakeRay, status: str, log: str, words: str) -> None:
    observe_jobs()
    job = ray.jobs[name_of(one)]
    job.status, job.log = status, log

    observe_jobs()

    one.refresh_from_db()
    assert one.state == "failed" and words in one.reason


def test_a_refused_job_and_a_checkpoint_that_went_meanwhile_fail(one: Evaluation, ray: FakeRay) -> None:
    ray.refuse_submissions = (400, "no such entrypoint")
    observe_jobs()
    one.refresh_from_db()
    assert one.state == "failed" and "no such entrypoint" in one.reason

    again, _ = ask_for(one.run, EvaluationRequest(task="arithmetic", options=one.options), user=None)
    marker = whole_checkpoint(one.run_id, 7) / "COMPLETE"
    marker.unlink()
    observe_jobs()
    again.refresh_from_db()
    assert again.reason == "The checkpoint of step 7 is not there any more."


def test_an_unreachable_ray_gets_the_same_job_later(one: Evaluation, ray: FakeRay) -> None:
    ray.fail = (503, "starting")
    observe_jobs()
    ray.fail, ray.refuse_submissions = None, (503, "not now")
    observe_jobs()
    one.refresh_from_db()
    assert (one.state, one.tries) == ("queued", 0)

    ray.refuse_submissions = None
    observe_jobs()
    assert ray.submitted == [name_of(one)] and one.tries == 1


def test_a_lost_job_goes_again_a_few_times(one: Evaluation, ray: FakeRay) -> None:
    for _ in range(3):
        observe_jobs()
        ray.jobs.clear()
        observe_jobs()  # it may just have been handed over
        Evaluation.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
        observe_jobs()

    one.refresh_from_db()
    assert (one.state, one.tries, len(set(ray.submitted))) == ("failed", 3, 3)
    assert "does not know its job" in one.reason


def test_what_was_cancelled_is_stopped(one: Evaluation, ray: FakeRay) -> None:
    observe_jobs()
    job = ray.jobs[name_of(one)]
    cancel(one, user=None)

    observe_jobs()
    one.refresh_from_db()
    assert (job.stops, one.state) == (1, "stopping")
    job.status = "STOPPED"
    observe_jobs()
    one.refresh_from_db()
    assert one.state == "cancelled" and one.ended_at is not None


# --- the queue ------------------------------------------------------------------------------------------------


def small_cluster(ray: FakeRay, cpus: int) -> None:
    node = {"node_id": "n1", "node_ip": "10.0.0.1", "state": "ALIVE", "is_head_node": True}
    ray.nodes = [node | {"resources_total": {"CPU": float(cpus)}}]


def test_it_waits_for_the_cluster_and_says_so(one: Evaluation, ray: FakeRay) -> None:
    small_cluster(ray, 2)
    observe_jobs()  # the run, which is older, has the first turn and takes both cores
    assert ray.submitted == []
    one.refresh_from_db()
    assert one.state == "queued" and one.reason.startswith("waits for the cluster: needs 1 CPU core, 0 free")

    Run.objects.update(state="succeeded")
    observe_jobs()
    assert ray.submitted == [name_of(one)] and one.reason == ""


def test_runs_wait_for_what_an_evaluation_holds(one: Evaluation, ray: FakeRay) -> None:
    small_cluster(ray, 2)
    Run.objects.update(state="succeeded")
    observe_jobs()
    ray.jobs[name_of(one)].status = "RUNNING"
    observe_jobs()
    Run.objects.update(state="queued")

    assert claim_dispatches() == []
    reason = Run.objects.get().state_reason
    assert "needs 2 CPU cores, 1 free" in reason and f"1 run at work: {one}" in reason
    Evaluation.objects.update(state="succeeded")
    assert len(claim_dispatches()) == 1


def test_what_the_cluster_cannot_hold_is_never_handed_over(one: Evaluation, ray: FakeRay) -> None:
    small_cluster(ray, 8)
    resources = one.run.config["resources"] | {"generator_gpus": 2}
    Run.objects.update(state="succeeded", config=one.run.config | {"resources": resources})

    observe_jobs()

    one.refresh_from_db()
    assert ray.submitted == [] and one.reason == "needs 1 GPU, the cluster has 0"
