"""Beginning, naming columns, resuming, archives, servers, and what is cleaned up when."""

import io
import json
import os
import tarfile
import time
import zipfile
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.web_server import send, serving
from tests.webapp.interfaces.imports.conftest import upload
from tests.webapp.interfaces.imports.readers.reading import SAMPLES
from tests.webapp.interfaces.imports.readers.test_trackers import event_file, scalar
from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.interfaces.imports import services, uploads
from webapp.interfaces.imports.claims import import_by_id
from webapp.interfaces.imports.models import Import, State
from webapp.interfaces.imports.reading import take_turn
from webapp.interfaces.imports.uploads import Server, asked_of
from webapp.record.runs import bounds
from webapp.record.runs.models import Record, Run

pytestmark = pytest.mark.django_db

CSV = "step,acc,gpu_hours,time\n1,0.2,0.5,2026-01-01T00:00:00\n2,0.3,1.0,2026-01-01T00:30:00\n"


@pytest.fixture
def draft(user, project):
    """A table whose columns wait to be named."""
    files = [upload(CSV, "acc.csv")]
    return services.begin_import(
        user=user, project=project, asked=asked_of("csv", {"task": "math"}), files=files, may_ask=True
    )


def test_a_table_of_the_page_waits_for_its_columns(draft, user):
    assert (draft.state, take_turn()) == (State.DRAFT, None)
    asked = asked_of(
        "csv",
        {
            "columns": {"step": "step", "pass_rate": "acc", "device_hours": "gpu_hours", "time": "time"},
            "timezone": "UTC",
            "task": "math",
        },
    )

    for _ in range(2):  # sent twice
        services.start_import(draft, user=user, asked=asked)
        draft.refresh_from_db()
        assert draft.state == State.WAITING

    assert take_turn().state == State.FINISHED
    first = Record.objects.earliest("seq")
    assert (first.metrics, first.compute["device_hours"]) == ({"eval/pass_rate": 0.2}, 0.5)
    assert first.time.isoformat() == "2026-01-01T00:00:00+00:00"
    assert Run.objects.get().task == "math"


def test_columns_that_are_not_there_are_refused_and_it_stays_a_draft(draft, user):
    with pytest.raises(InvalidInput) as refused:
        services.start_import(draft, user=user, asked=asked_of("csv", {"columns": {"step": "epoch"}}))

    assert refused.value.field == "options.columns.step"
    draft.refresh_from_db()
    assert draft.state == State.DRAFT


def test_what_a_source_leaves_unknown_is_said(begin):
    begin("step,loss\n1,0.5\n", kind="csv", name="loss.csv")

    assert take_turn().notes == [
        "Rows without a time carry that of their run's first import.",
        "Compute is not known: no device-hours, FLOPs or tokens. Curves are drawn over steps only.",
        "No metric is named as the pass rate, so that nothing is fitted.",
    ]


@pytest.mark.parametrize("length", [10, 100])
def test_a_configuration_beyond_the_bound_is_left_out_and_said(begin, monkeypatch, length):
    monkeypatch.setattr(bounds, "MAX_CONFIG_CHARACTERS", 50)
    about = {"config": {"text": "x" * length}}
    line = {
        "run": "a",
        "attempt": 1,
        "seq": 0,
        "step": 1,
        "compute": {},
        "metrics": {"loss": 0.5},
        "about": about,
    }
    begin(json.dumps(line) + "\n", kind="headroom", name="a.jsonl")

    said = "Its configuration is left out: it is longer than a page can show."
    assert (said in take_turn().notes) is (length == 100)
    assert bool(Run.objects.get().config) is (length == 10)
    assert Record.objects.get().metrics == {"loss": 0.5}


def test_in_another_project_an_import_is_not_there(draft):
    from tests.members import member

    stranger = member("eve")
    with pytest.raises(NotFound):
        import_by_id(stranger.projects.get(), draft.pk)


def test_a_full_queue_takes_no_more(begin, monkeypatch):
    for number in range(services.MOST_WAITING):
        Import.objects.create(project=begin("a 1 0.1").project, source=str(number)) if not number else None
    first = Import.objects.first()
    Import.objects.bulk_create(
        Import(project=first.project, source=str(number)) for number in range(services.MOST_WAITING)
    )

    with pytest.raises(Conflict):
        begin("a 1 0.1")


# --- archives -------------------------------------------------------------------------------------------------


def zipped(**files):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return held.getvalue()


def test_the_only_file_of_an_archive_is_read_like_that_file(begin):
    begin(zipped(metrics_lines="a 1 0.1\na 2 0.2\n"), name="metrics.zip")

    assert (take_turn().state, Record.objects.count()) == (State.FINISHED, 2)


def test_the_kind_of_a_folder_is_found_out_once_it_is_unpacked(begin):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        content = b'{"step": 1, "data": {"critic/rewards/mean": 0.5}}\n'
        info = tarfile.TarInfo("math/grpo.jsonl")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    begin(held.getvalue(), kind="", name="verl.tar.gz")

    done = take_turn()

    assert (done.kind, done.state) == ("verl", State.FINISHED), done.reason
    assert Record.objects.get().metrics == {"train/reward": 0.5}


@pytest.mark.parametrize("content", [b"PK\x03\x04 no archive", zipped(**{"__/evil_lines": "a 1 0.1"})])
def test_an_archive_that_cannot_be_unpacked_fails_with_its_reason(begin, content):
    one = begin(content, name="broken.zip")

    done = take_turn()

    assert (done.pk, done.state, done.broken_file) == (one.pk, State.FAILED, "broken.zip")
    assert "archive" in done.reason
    assert not (uploads.imports_folder().parent / "evil.lines").exists()


def test_an_archive_of_the_wrong_kind_is_named_and_kept_as_it_was_uploaded(
    begin, user, django_capture_on_commit_callbacks
):
    """Once it is unpacked, a few megabytes may be hundreds of thousands of files."""
    two = {"a_csv": "step,loss\n1,2\n", "b_csv": "step,loss\n1,2\n"}
    one = begin(zipped(**two), kind="mlflow", name="runs.zip")

    for _ in range(2):
        with django_capture_on_commit_callbacks(execute=True):
            done = take_turn()

        assert (done.state, done.broken_file) == (State.FAILED, "runs.zip"), done.reason
        kept = [path.name for path in uploads.folder_of(one.pk).rglob("*") if path.is_file()]
        assert kept == ["runs.zip"]
        services.resume_import(done, user=user)


def test_what_a_refused_archive_held_does_not_stay_on_the_disk(begin):
    """A megabyte may have come to hundreds by the time it is refused."""
    one = begin(zipped(a_csv="step,loss\n1,2\n", **{"__/evil_lines": "x"}), name="late.zip")

    assert take_turn().state == State.FAILED

    kept = [path.name for path in uploads.folder_of(one.pk).rglob("*") if path.is_file()]
    assert kept == ["late.zip"]


# --- servers --------------------------------------------------------------------------------------------------


def mlflow(handler, asked):
    """One run with one metric, for whoever has the token."""
    if asked.headers.get("authorization") != "Bearer open sesame":
        return send(handler, 401, b"{}")
    if "experiments/search" in asked.path:
        answer = {"experiments": [{"experiment_id": "1", "name": "grpo"}]}
    elif "runs/search" in asked.path:
        info = {
            "run_id": "r1",
            "run_name": "seed 1",
            "experiment_id": "1",
            "status": "FINISHED",
            "start_time": 0,
        }
        metric = {"key": "eval/pass_rate", "value": 0.5, "step": 1, "timestamp": 1000}
        answer = {"runs": [{"info": info, "data": {"metrics": [metric], "params": [], "tags": []}}]}
    else:
        point = {"key": "eval/pass_rate", "value": 0.5, "step": 1, "timestamp": 1000}
        answer = {"metrics": [point]}
    return send(handler, 200, json.dumps(answer).encode(), {"Content-Type": "application/json"})


def test_a_server_is_asked_with_a_token_that_is_then_forgotten(user, project, settings):
    with serving(mlflow) as server:
        settings.ALLOW_PRIVATE_HOSTS = [f"127.0.0.1:{server.port}"]
        one = services.begin_import(
            user=user,
            project=project,
            asked=asked_of("mlflow-server", {}),
            server=Server(server.url, "open sesame"),
        )
        assert one.sealed_credentials and "sesame" not in one.sealed_credentials
        done = take_turn()

    assert (done.state, done.sealed_credentials, done.reason) == (State.FINISHED, "", "")
    run = Run.objects.get()
    assert (run.name, run.state) == ("seed 1", "succeeded")
    assert Record.objects.get().metrics == {"eval/pass_rate": 0.5}


def test_a_server_that_refuses_is_asked_again_with_another_token(user, project, settings):
    with serving(mlflow) as server:
        settings.ALLOW_PRIVATE_HOSTS = [f"127.0.0.1:{server.port}"]
        one = services.begin_import(
            user=user,
            project=project,
            asked=asked_of("mlflow-server", {}),
            server=Server(server.url, "knock"),
        )
        assert (take_turn().state, take_turn()) == (State.FAILED, None)
        services.resume_import(one, user=user, token="open sesame")
        assert take_turn().state == State.FINISHED


@pytest.mark.parametrize(
    "address",
    ["", "ftp://x.example", "http://169.254.169.254/", "https://127.0.0.1/", "https://u:p@x.example/"],
)
def test_an_address_that_may_not_be_called_is_refused_at_once(user, project, address):
    with pytest.raises(InvalidInput) as refused:
        services.begin_import(
            user=user, project=project, asked=asked_of("mlflow-server", {}), server=Server(address)
        )

    assert refused.value.field == "address"
    assert not Import.objects.exists()


# --- resuming and cleaning up ---------------------------------------------------------------------------------


def test_a_failed_one_is_read_again_without_a_new_file(begin, user, lines_kind):
    one = begin("\xff".encode("latin-1"))
    take_turn()

    services.resume_import(one, user=user)
    assert take_turn().state == State.FAILED
    services.resume_import(one, user=user, files=[upload("a 1 0.1", "other name.lines")])
    done = take_turn()
    assert (done.state, done.file_name, done.source) == (State.FINISHED, "other name.lines", "metrics.lines")


def test_what_waits_or_has_finished_is_not_resumed(begin, user):
    one = begin("a 1 0.1")
    with pytest.raises(Conflict):
        services.resume_import(one, user=user)
    take_turn()
    with pytest.raises(Conflict, match="imported anew"):
        services.resume_import(one, user=user)


def age(one, days):
    past = timezone.now() - timedelta(days=days)
    Import.objects.filter(pk=one.pk).update(created_at=past, ended_at=past if one.ended_at else None)


def test_files_go_when_nobody_resumed_and_open_ones_stay(begin, draft, user):
    failed = begin("!\na 1 x")
    failed = take_turn()
    waiting = begin("a 1 0.1", source="waits")
    for one in (failed, draft, waiting):
        age(one, 15)

    assert services.clean_up() == 2
    assert not uploads.folder_of(failed.pk).exists() and uploads.folder_of(waiting.pk).exists()
    assert set(Import.objects.values_list("pk", flat=True)) == {failed.pk, waiting.pk}
    failed.refresh_from_db()
    assert not failed.has_files
    with pytest.raises(Conflict, match="send it again"):
        services.resume_import(failed, user=user)
    assert services.clean_up() == 0


def test_what_broken_uploads_leave_goes_after_a_day(begin):
    kept = begin("a 1 0.1")
    orphan = uploads.imports_folder() / "neverstored"
    orphan.mkdir(exist_ok=True)
    (uploads.incoming_folder() / "half.upload").write_bytes(b"a")
    fresh = uploads.incoming_folder() / "fresh.upload"
    fresh.write_bytes(b"a")
    yesterday = time.time() - 2 * 86400
    for path in (orphan, uploads.incoming_folder() / "half.upload", uploads.folder_of(kept.pk)):
        os.utime(path, (yesterday, yesterday))

    services.clean_up()

    assert not orphan.exists() and not (uploads.incoming_folder() / "half.upload").exists()
    assert fresh.exists() and uploads.folder_of(kept.pk).exists()
    fresh.unlink()


# --- what is asked, and what runs are called


@pytest.mark.parametrize(
    ("name", "run"), [("tb.tar.gz", "tb"), ("tb.tgz", "tb"), ("TB.TAR", "TB"), ("my.run.zip", "my.run")]
)
def test_a_run_is_called_as_its_folder(begin, name, run):
    held = io.BytesIO()
    content = event_file([scalar(1, "a", 0.5)])
    with (
        zipfile.ZipFile(held, "w")
        if name.endswith("zip")
        else tarfile.open(fileobj=held, mode="w:gz") as archive
    ):
        if name.endswith("zip"):
            archive.writestr("x.tfevents.1", content)
        else:
            info = tarfile.TarInfo("x.tfevents.1")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    begin(held.getvalue(), kind="", name=name)

    assert take_turn().state == State.FINISHED
    assert Run.objects.get().name == run


@pytest.mark.parametrize("options", [{}, {"columns": {"step": "step", "pass_rate": "pass_rate"}}])
def test_percentages_are_not_taken_before_somebody_says_so(begin, options):
    content = "step,pass_rate\n1,41.5\n2,50\n"
    with pytest.raises(InvalidInput) as refused:
        begin(content, kind="csv", name="a.csv", **options)
    assert refused.value.field == "options.percent" and "pass_rate" in refused.value.message
    assert not Import.objects.exists()

    begin(content, kind="csv", name="a.csv", percent=True, **options)

    assert take_turn().state == State.FINISHED
    assert [record.metrics for record in Record.objects.order_by("seq")] == [
        {"eval/pass_rate": 0.415}, {"eval/pass_rate": 0.5}
    ]  # fmt: skip


def test_what_sounds_like_a_pass_rate_is_not_taken_before_somebody_says_so(begin):
    begin("step,val_acc\n1,0.5\n", kind="csv", name="a.csv")

    assert take_turn().notes[-1] == "Is val_acc the pass rate? Say so on the run's page, under Metrics."
    assert Record.objects.get().metrics == {"val_acc": 0.5}


def test_a_database_of_mlflow_is_uploaded(begin):
    begin((SAMPLES / "mlflow.db").read_bytes(), kind="", name="mlflow.db")

    done = take_turn()

    assert (done.kind, done.state, done.runs_found, done.rows_stored) == ("mlflow", State.FINISHED, 3, 14)
    assert set(Run.objects.values_list("name", "task", "seed")) == {
        ("done", "math", 7), ("stopped", "math", 7), ("going on", "math", 7)
    }  # fmt: skip
