"""What Headroom gave out comes back the same: points, standard errors, and what the run is, in every shape."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.launching import tracked_run
from tests.webapp.interfaces.imports.conftest import upload
from training.records import Record
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.services import create_project, set_role
from webapp.interfaces.exports.of_project import project_pieces, run_pieces
from webapp.interfaces.imports.models import State
from webapp.interfaces.imports.reading import take_turn
from webapp.interfaces.imports.services import begin_import
from webapp.interfaces.imports.uploads import asked_of
from webapp.record.runs import lifecycle
from webapp.record.runs.ingest import store_records
from webapp.record.runs.meaning import Meaning, state_meaning
from webapp.record.runs.models import Point, Run

pytestmark = pytest.mark.django_db

VERL = "val-core/gsm8k/acc/mean@4"
CONFIG = {"lr": 1e-6, "loss": {"type": "cispo"}, "names": ["a", "ü"]}
Pieces = Callable[[Run], Iterator[bytes]]
OF_RUN: dict[str, Pieces] = {
    "run.jsonl": lambda run: run_pieces(run, "jsonl"),
    "all.jsonl": lambda run: run_pieces(run, "jsonl", superseded=True),
    "wide.csv": lambda run: run_pieces(run, "csv"),
    "wide.parquet": lambda run: run_pieces(run, "parquet", superseded=True),
    "long.csv": lambda run: run_pieces(run, "csv", shape="long"),
    "long.parquet": lambda run: run_pieces(run, "parquet", shape="long", superseded=True),
}


def of_project(content: str, form: str, *metrics: str) -> Pieces:
    return lambda run: project_pieces(run.project, None, form, content=content, metrics=metrics)


OF_PROJECT = {
    f"{content}.{form}": of_project(content, form)
    for content in ("records", "curves")
    for form in ("jsonl", "csv", "parquet")
}


def record(seq: int, step: int, attempt: int = 1, more: Mapping[str, float | None] = {}) -> Record:  # noqa: B006
    rate = 0.1 + step / 100
    return Record(
        attempt=attempt,
        seq=seq,
        step=step,
        time=f"2026-01-01T00:{step:02}:{seq:02}.125+00:00",
        compute={"device_hours": step / 3, "flops": None, "tokens": 100.0 * step},
        metrics={
            "eval/pass_rate": rate,
            "eval/pass_rate_stderr": 0.01 + step / 1000,
            VERL: rate,
            "train/reward": 0.1 * step,
            "reward/all/mean": 1 / 3,  # another trainer's name, which stays
            **more,
        },
    )


@pytest.fixture
def runs(user: User, project: Project) -> list[Run]:
    """One whose second attempt went on from step 3, and a plain one."""
    first = tracked_run(
        user=user, project=project, name="-grpo 8b", task="math", model="8b", seed=42, config=CONFIG
    )
    strange = {"step": 1.5, "metric.step": 2.5, "=1+1": 0.25, "about": 3.0, "metrics": 4.0, "never": None}
    store_records(first, [record(step, step, more=strange) for step in range(6)])
    lifecycle.report_started(first, attempt=2, resumed_from_step=3)
    store_records(first, [record(place, step, 2) for place, step in enumerate((3, 4, 5, 6))])
    lifecycle.report_finished(first, attempt=2, state="failed", message="Out of memory.")
    second = tracked_run(user=user, project=project, name="plain", task="code", seed=0)
    store_records(second, [record(step, step) for step in range(3)])
    return [first, second]


def points_of(run: Run, *, pass_rate_alone: bool) -> list[tuple[object, ...]]:
    """Without what a later attempt did again, as every export leaves out."""
    points = Point.objects.filter(series__run=run)
    if pass_rate_alone:
        points = points.filter(series__metric="eval/pass_rate")
    if run.attempts.filter(number=2).exists():
        points = points.exclude(attempt=1, step__gt=3)
    columns = ("series__metric", "step", "time", "device_hours", "flops", "tokens", "value", "stderr")
    return sorted(points.values_list(*columns), key=repr)


def about(run: Run) -> tuple[object, ...]:
    return run.name, run.task, run.model, run.seed, run.config


def again(name: str, content: bytes, user: User, kind: str = "") -> list[Run]:
    """The runs of a project into which the file was imported, its kind found out."""
    project = create_project(slug="other", name="Other")
    set_role(project, user, "contributor")
    one = begin_import(user=user, project=project, asked=asked_of(kind, {}), files=[upload(content, name)])
    done = take_turn()
    assert done is not None
    assert (one.kind, done.state, done.reason) == ("headroom", State.FINISHED, "")
    return list(Run.objects.filter(project=project).order_by("name"))


@pytest.mark.parametrize("shape", OF_RUN)
def test_a_run(runs: list[Run], user: User, shape: str) -> None:
    (found,) = again(shape, b"".join(OF_RUN[shape](runs[0])), user)

    found.refresh_from_db()
    assert about(found) == about(runs[0]) and found.state == "failed"
    assert points_of(found, pass_rate_alone=False) == points_of(runs[0], pass_rate_alone=False)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_of_ours_that_is_called_a_plain_one(runs: list[Run], user: User, kind: str) -> None:
    (found,) = again(f"long.{kind}", b"".join(OF_RUN[f"long.{kind}"](runs[0])), user, kind)

    assert about(found) == about(runs[0])


@pytest.mark.parametrize("shape", [*OF_RUN, *OF_PROJECT])
def test_what_the_metrics_of_a_run_mean(user: User, project: Project, shape: str) -> None:
    """It trained elsewhere: somebody said what its pass rate is, and on how many devices it trains."""
    run = tracked_run(user=user, project=project, name="elsewhere")
    known = [record(step, step).model_dump() for step in range(4)]
    compute = {"device_hours": None, "flops": None, "tokens": None}
    acc = [one | {"compute": compute, "metrics": {"acc": one["step"] / 10, "loss": 1.0}} for one in known]
    store_records(run, [Record(**one) for one in acc])
    run = state_meaning(run, Meaning(pass_rate="acc", n_prompts=100, devices=8), user=user)

    (found,) = again(shape, b"".join((OF_RUN | OF_PROJECT)[shape](run)), user)

    rates = shape.startswith("curves")
    assert points_of(found, pass_rate_alone=rates) == points_of(run, pass_rate_alone=rates)
    if not rates:
        assert found.meaning == {"pass_rate": "acc", "n_prompts": 100, "devices": 8}


@pytest.mark.parametrize("shape", [*OF_RUN, *OF_PROJECT])
def test_a_percentage_is_made_a_share_once(user: User, project: Project, shape: str) -> None:
    run = tracked_run(user=user, project=project, name="elsewhere")
    rates = [
        record(step, step).model_dump() | {"metrics": {"eval/pass_rate": 10.0 * step}} for step in range(4)
    ]
    store_records(run, [Record(**one) for one in rates])
    run = state_meaning(run, Meaning(percent=True), user=user)

    (found,) = again(shape, b"".join((OF_RUN | OF_PROJECT)[shape](run)), user)

    assert points_of(found, pass_rate_alone=True) == points_of(run, pass_rate_alone=True)


@pytest.mark.parametrize("shape", OF_PROJECT)
def test_a_project(runs: list[Run], user: User, shape: str) -> None:
    found = again(shape, b"".join(OF_PROJECT[shape](runs[0])), user)

    assert [about(run) for run in found] == [about(run) for run in runs]
    for run, original in zip(found, runs, strict=True):
        rates = shape.startswith("curves")
        assert points_of(run, pass_rate_alone=rates) == points_of(original, pass_rate_alone=rates)
        assert (
            Point.objects.filter(series__run=run, stderr=None, series__metric="eval/pass_rate").count() == 0
        )


def test_curves_of_metrics_that_were_named(runs: list[Run], user: User) -> None:
    content = b"".join(of_project("curves", "csv", "train/reward", VERL)(runs[1]))

    found = again("named.csv", content, user)[1]

    assert set(Point.objects.filter(series__run=found).values_list("series__metric", flat=True)) == {
        "train/reward", VERL,
    }  # fmt: skip


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_list_of_runs(runs: list[Run], user: User, form: str) -> None:
    found = again(f"runs.{form}", b"".join(of_project("runs", form)(runs[0])), user)

    assert [about(run) for run in found] == [about(run) for run in runs]
    assert not Point.objects.filter(series__run__in=found).exists()


def test_a_file_of_ours_that_was_changed_is_refused_by_its_line(runs: list[Run], user: User) -> None:
    content = b"".join(run_pieces(runs[1], "csv", shape="long")).replace(
        b",eval/pass_rate,0.11,", b",eval/pass_rate,x,"
    )
    project = create_project(slug="other", name="Other")
    begin_import(user=None, project=project, asked=asked_of("", {}), files=[upload(content, "long.csv")])

    done = take_turn()

    assert done is not None
    assert (done.state, done.broken_line) == (State.PARTIAL, 8)
    assert "eval/pass_rate is" in done.reason and "no number" in done.reason
