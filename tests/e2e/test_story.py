"""From a launch over REST to a stored fit: PostgreSQL, Redis, Celery, Ray and torch, nothing
replaced; in the long form with vLLM."""

import json
import time
from collections.abc import Callable

import httpx
import pytest

from tests.pretrained import MODEL
from tests.running_stack import STORY, STORY_STEPS, STORY_TASK
from training.__main__ import main
from training.models import check_model

pytestmark = [pytest.mark.long_form, pytest.mark.stack, pytest.mark.vllm, pytest.mark.timeout(600)]

POLL_SECONDS = 0.5
ENDED = {"succeeded", "failed", "cancelled", "lost"}
LAUNCH = {"recipe": STORY, "task": "arithmetic", "model": MODEL, "seed": 1}


def until(condition: Callable[[], object], seconds: float, what: str) -> object:
    """Poll until the condition holds; fails naming what it waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(POLL_SECONDS)
    pytest.fail(f"no {what} within {seconds:.0f} s")


def launch(api: httpx.Client, **fields) -> dict:
    response = api.post("runs", json=LAUNCH | fields)
    assert response.status_code == 201, response.text
    return response.json()


def ended(api: httpx.Client, run_id: str) -> dict | None:
    run = api.get(f"runs/{run_id}").json()
    return run if run["state"] in ENDED else None


@pytest.fixture(scope="module")
def trained(api, stack_with_model) -> dict:
    """A run that has ended: the one that was launched and watched in a browser, where that was tested before."""
    run_id = watched[-1] if (watched := stack_with_model.watched) else launch(api, budget_hours=1)["id"]
    return until(lambda: ended(api, run_id), 300, "end of the run")


def test_the_run_succeeds_with_its_last_step(api, trained):
    assert trained["state"] == "succeeded", trained
    updates = api.get(f"runs/{trained['id']}/curve", params={"metric": "train/reward"}).json()["points"]
    assert [update["step"] for update in updates] == list(range(1, STORY_STEPS + 1))


def test_the_curve_starts_before_the_first_update_and_moves_on(api, trained):
    points = api.get(f"runs/{trained['id']}/curve").json()["points"]

    compute = [point["compute"] for point in points]
    assert compute[0] == 0
    assert compute == sorted(compute)
    assert len(points) >= 6
    assert all(0 <= point["value"] <= 1 and point["stderr"] > 0 for point in points)


def test_training_raises_the_pass_rate(api, trained):
    values = [p["value"] for p in api.get(f"runs/{trained['id']}/curve").json()["points"]]

    assert sum(values[-3:]) / 3 > values[0] + 0.1


def test_a_fit_is_stored_with_status_digest_and_interval(api, trained):
    points = api.get(f"runs/{trained['id']}/curve", params={"start": False}).json()["points"]

    def newest_fit():
        fits = api.get(f"runs/{trained['id']}/fits").json()["items"]
        return fits[0] if fits and fits[0]["n"] == len(points) else None

    newest = until(newest_fit, 20, "stored fit of all points")
    assert len(newest["data_digest"]) == 64
    assert newest["status"] in ("ok", "not_identified")
    low, high = newest["intervals"]["A"]
    assert 0 < low <= 1
    assert high is None or low < high


def test_each_step_reports_its_diagnostics(api, trained):
    metrics = set(api.get(f"runs/{trained['id']}/metrics").json()["items"])

    expected = "reward entropy grad_norm truncation_rate ratio_max ratio_min ratio_clip_fraction "
    expected += (
        "mismatch_logp_mean mismatch_logp_max response_length effective_batch staleness_mean staleness_max"
    )
    assert {f"train/{name}" for name in expected.split()} <= metrics
    assert {"perf/tokens_per_second", "perf/generator_idle", "perf/trainer_idle"} <= metrics


def test_staleness_stays_within_the_depth(api, trained):
    k = trained["config"]["offpolicy"]["k"]

    stale = api.get(
        f"runs/{trained['id']}/series", params={"metric": "train/staleness_max", "points": 1000}
    ).json()

    assert max(point["value"] for point in stale["points"]) <= k


def test_the_run_leaves_its_summary_and_a_model_like_an_exported_one(trained, stack_with_model, tmp_path):
    folder = stack_with_model.home / "runs" / trained["id"]
    summary = json.loads((folder / "summary.json").read_text())

    assert (summary["state"], summary["step"]) == ("succeeded", STORY_STEPS)
    saved = check_model(str(folder / "model"), min_context=64) / "model.safetensors"
    assert main(["export", "--run-dir", str(folder), "--out", str(tmp_path / "again")]) == 0
    assert saved.read_bytes() == (tmp_path / "again" / "model.safetensors").read_bytes()


def test_every_record_of_the_journal_is_stored_once(api, trained, stack_with_model):
    journal = stack_with_model.home / "runs" / trained["id"] / "metrics.jsonl"
    written = sum(1 for line in journal.read_text().splitlines() if line.strip())

    stored, cursor = 0, None
    while True:
        page = api.get(f"runs/{trained['id']}/records", params={"cursor": cursor} if cursor else {}).json()
        stored += len(page["items"])
        cursor = page["next"]
        if not cursor:
            break

    assert stored == written


@pytest.mark.deep
def test_a_checkpoint_is_measured_by_a_job_of_its_own(api, trained):
    path, asks = f"runs/{trained['id']}/evaluations", {"task": "arithmetic", "options": STORY_TASK}
    asked = api.post(path, json=asks | {"k": 2})
    assert asked.status_code == 201, asked.text
    unwanted = api.post(path, json=asks | {"k": 4}).json()
    cancelled = api.post(f"{path}/{unwanted['id']}/cancel").json()["state"]

    def results() -> dict[int, dict] | None:
        found = {one["k"]: one for one in api.get(path).json()["items"]}
        return None if {one["state"] for one in found.values()} & {"queued", "running", "stopping"} else found

    found = until(results, 300, "result of the evaluation")
    assert found[2]["state"] == "succeeded", found[2]["reason"]
    assert 0 <= found[2]["result"]["pass_rate"] <= 1 and found[2]["result"]["pass_rate_stderr"] > 0
    assert (cancelled in ("cancelled", "stopping"), found[4]["state"]) == (True, "cancelled")


def test_a_cancelled_run_ends_as_cancelled(api):
    run = launch(api, seed=2, budget_hours=0.05)
    until(lambda: api.get(f"runs/{run['id']}").json()["state"] in ("starting", "running"), 60, "started run")

    assert api.post(f"runs/{run['id']}/cancel").status_code == 200

    assert until(lambda: ended(api, run["id"]), 90, "end of the cancelled run")["state"] == "cancelled"


def test_the_same_idempotency_key_launches_once(api):
    key = {"Idempotency-Key": "one-click"}
    body = LAUNCH | {"seed": 3, "budget_hours": 0.01}

    first = api.post("runs", json=body, headers=key)
    second = api.post("runs", json=body, headers=key)
    other = api.post("runs", json=body | {"seed": 4}, headers=key)
    api.post(f"runs/{first.json()['id']}/cancel")

    assert (first.status_code, second.status_code, other.status_code) == (201, 200, 409)
    assert first.json()["id"] == second.json()["id"]


def test_health_names_every_part(stack_with_model):
    health = httpx.get(f"{stack_with_model.url}/healthz", timeout=10).json()

    assert {health[part] for part in ("status", "database", "broker", "worker", "beat", "ray")} == {"ok"}
