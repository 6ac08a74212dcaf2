"""Every block of Python in the docs does what its page says. Those of docs/api.md run in tests/test_api_doc.py."""

import inspect
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headroom
from headroom.adapters.transformers import HeadroomCallback
from headroom.adapters.verl import NAME
from tests.docs.commands import of_python
from tests.headroom.conftest import quick_and_clean, server  # noqa: F401 (fixtures)
from tests.headroom.fake_server import FakeServer
from training.tasks.base import Prompt, Task
from training.verifiers.base import Verifier
from webapp.reporting.alerts.messages import signature

HERE = {
    "README.md": 1,
    "docs/alerts.md": 1,
    "docs/howto/reward.md": 1,
    "docs/howto/trl.md": 1,
    "docs/howto/verl.md": 1,
    "docs/tasks.md": 1,
    "docs/tracking.md": 4,
}
ELSEWHERE = {"docs/api.md": 4}
THINKING = "<think>about a hundred</think>"


@pytest.fixture
def reporting(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeServer:  # noqa: F811
    """A server that HEADROOM_URL names; journals lie in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADROOM_URL", server.url)
    monkeypatch.setenv("HEADROOM_TOKEN", "hr_test")
    return server


@pytest.fixture
def tracking(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `register` changes in verl. With verl itself, in an environment of its own: tests/parity."""

    class Tracking:
        supported_backend = ("console",)

        def __init__(
            self, project_name: str, experiment_name: str, default_backend: Any, config: Any
        ) -> None:
            self.logger: dict[str, Any] = {}

        def finish(self, exit_code: int = 0) -> None: ...

    for name in ("verl", "verl.utils", "verl.utils.tracking"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["verl.utils.tracking"], "Tracking", Tracking, raising=False)
    return Tracking


def run(page: str, place: int = 0, **names: Any) -> dict[str, Any]:
    """What a page's block leaves behind, among `names` that stand there before."""
    exec(compile(of_python()[page][place], page, "exec"), names)
    return names


def test_every_block_is_run_here_or_elsewhere() -> None:
    assert {page: len(found) for page, found in of_python().items()} == HERE | ELSEWHERE


def test_the_readme_logs_an_evaluation(reporting: FakeServer) -> None:
    run("README.md")

    (record,) = reporting.records.values()
    assert (record["step"], record["metrics"]) == (100, {"eval/pass_rate": 0.41})
    assert record["compute"]["device_hours"] == 12.5
    assert [name for name, _ in reporting.notices] == ["runs", "start", "finish"]


def test_tracking_logs_metrics_and_an_evaluation_with_its_error(reporting: FakeServer) -> None:
    run("docs/tracking.md")

    trained, evaluated = reporting.records.values()
    assert trained["metrics"] == {"train/reward": 0.38, "train/entropy": 0.7}
    assert trained["compute"] == {"device_hours": 1.5, "flops": None, "tokens": 2e6}
    assert evaluated["metrics"]["eval/pass_rate"] == 0.41
    assert evaluated["metrics"]["eval/pass_rate_stderr"] == pytest.approx((0.41 * 0.59 / 1000) ** 0.5)


def test_tracking_logs_samples(reporting: FakeServer) -> None:
    made = headroom.init(name="samples")
    run("docs/tracking.md", 3, run=made, held_out_rows=[{"prompt": "1 + 1 =", "response": "2"}])
    made.finish()

    assert sorted(name for _, name in reporting.files) == ["eval/10?attempt=1", "train/10?attempt=1"]


def test_the_callback_is_made_as_trl_takes_it() -> None:
    (made,) = run("docs/howto/trl.md")["callbacks"]
    given = run("docs/tracking.md", 1, GRPOTrainer=lambda *_, callbacks: callbacks)["trainer"]

    assert isinstance(made, HeadroomCallback) and isinstance(given[0], HeadroomCallback)


@pytest.mark.parametrize(("page", "place"), [("docs/howto/verl.md", 0), ("docs/tracking.md", 2)])
def test_verl_knows_our_logger_afterwards(tracking: Any, page: str, place: int) -> None:
    run(page, place)

    assert NAME in tracking.supported_backend
    assert NAME in tracking("gsm8k", "grpo", ["console", NAME], {}).logger
    assert tracking("gsm8k", "grpo", "console", {}).logger == {}


def test_a_receiver_of_webhooks_knows_what_is_ours() -> None:
    is_ours, body, now = run("docs/alerts.md")["is_ours"], b'{"id": 1}', int(time.time())

    assert is_ours("secret", signature("secret", now, body), body)
    assert not is_ours("another", signature("secret", now, body), body)
    assert not is_ours("secret", signature("secret", now, body), body + b" ")
    assert not is_ours("secret", signature("secret", now - 600, body), body)  # sent again by somebody else


def test_the_verifier_of_ones_own_reward_judges_by_one_percent() -> None:
    verifier: Verifier = run("docs/howto/reward.md", __name__="docs")["Close"]()

    right, wrong, silent = (
        verifier.verify("100", f"{THINKING} {said}") for said in ("100.9", "102", "no idea")
    )
    assert right.correct and not wrong.correct
    assert (silent.correct, silent.reason, silent.failure) == (False, "no number", "")


def test_a_new_task_has_the_methods_that_the_page_lists() -> None:
    listed = run("docs/tasks.md", Sequence=list, Prompt=Prompt, Verifier=Verifier)
    wanted = {name for name in vars(Task) if not name.startswith("_")}

    assert {name for name in listed if callable(listed[name])} & wanted == wanted - {"held_out_pool"}
    assert set(listed["__annotations__"]) == {"held_out_pool"}
    for name in wanted - {"held_out_pool"}:
        assert list(inspect.signature(listed[name]).parameters) == list(
            inspect.signature(getattr(Task, name)).parameters
        )
