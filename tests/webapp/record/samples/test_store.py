"""Samples of runs: lines of hostile clients become files of ours, replaced by step, gone with their run."""

import gzip
import io
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.launching import tracked_run
from training import samples
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.services import create_project
from webapp.record.retention.folders import drop_old_samples
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.models import Attempt, Run
from webapp.record.samples import selectors, store
from webapp.record.samples.models import SampleFile
from webapp.record.samples.selectors import Gone, changes, files_of, find, history, rows_of

ROWS = [
    {"prompt_id": "a", "prompt": "1 + 1 =", "response": "2", "reward": 1.0, "correct": True},
    {"prompt_id": "a", "prompt": "1 + 1 =", "response": "3", "reward": -1.0, "correct": False},
    {"prompt_id": "7", "prompt": "7 + 1 =", "response": "8", "reward": 1.0, "correct": True},
]


@pytest.fixture
def run(db, settings, tmp_path):
    settings.HEADROOM_HOME = tmp_path
    return tracked_run(user=None, project=create_project(slug="math", name="Math"), name="elsewhere")


def put(run, step, rows=ROWS, *, kind="eval", attempt=1, pack=gzip.compress):
    text = "\n".join(json.dumps(row) for row in rows).encode()
    return store.keep(run, kind, step, attempt, io.BytesIO(pack(text)).read)


def with_correct(key, *correct):
    return [{"prompt_id": key, "prompt": f"{key}?", "response": "x", "correct": each} for each in correct]


def on_disk(settings):
    return sorted(path.name for path in settings.HEADROOM_HOME.rglob("*") if path.is_file())


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_rows_come_back(run, settings, pack):
    kept = put(run, 10, pack=pack)

    assert (kept.rows, kept.left_out, kept.attempt, list(kept.prompts)) == (3, 0, 1, ["a", "7"])
    assert kept.prompts["a"] == {
        "text": "1 + 1 =", "difficulty": None, "rewards": [1.0, -1.0], "correct": [True, False],
    }  # fmt: skip
    rows, total = rows_of(find(run, "eval", 10))
    assert [row["response"] for row in rows] == ["2", "3", "8"] and total == 3
    assert on_disk(settings) == ["eval-00000010.parquet"]


def test_a_step_that_comes_again_is_replaced_and_a_late_attempt_changes_nothing(run):
    put(run, 10, attempt=2)
    put(run, 10, ROWS[:1], attempt=2)
    put(run, 10, ROWS[:2], attempt=1)

    assert [(file.step, file.rows) for file in files_of(run)] == [(10, 1)]


def test_what_a_later_attempt_superseded_is_left_out(run):
    put(run, 10)
    put(run, 20)
    Attempt.objects.create(
        run=run, number=2, submission_id="x", resumed_from_step=15, started_at=timezone.now()
    )

    assert [file.step for file in files_of(run)] == [10]


def test_a_prompt_is_followed_without_a_file(run, settings):
    for step, correct in ((0, (False, False)), (10, (True, False)), (20, (True, True))):
        put(run, step, with_correct("7", *correct))
    for path in settings.HEADROOM_HOME.rglob("*.parquet"):
        path.unlink()

    assert [(moment.step, moment.share) for moment in history(run, "eval", "7")] == [
        (0, 0.0),
        (10, 0.5),
        (20, 1.0),
    ]
    assert history(run, "eval", "other") == history(run, "train", "7") == []


def test_prompts_that_were_lost_or_won(run):
    put(run, 0, [*with_correct("lost", True, True), *with_correct("won", False), *with_correct("same", True)])
    put(
        run,
        1,
        [*with_correct("lost", False, True, False), *with_correct("won", True), *with_correct("same", True)],
    )

    found = changes(find(run, "eval", 0), find(run, "eval", 1))

    assert [(each.prompt_id, each.before, round(each.after, 2)) for each in found] == [
        ("lost", 1.0, 0.33), ("won", 0.0, 1.0),
    ]  # fmt: skip


def test_where_no_prompt_was_judged_in_both_nothing_is_known_of_changes(run):
    put(run, 0, [*with_correct("judged", True), *with_correct("gone", True)])
    put(run, 1, with_correct("judged", None))
    put(run, 2, with_correct("new", True))

    assert changes(find(run, "eval", 0), find(run, "eval", 1)) is None
    assert changes(find(run, "eval", 0), find(run, "eval", 2)) is None


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b'{"prompt": 1}\n[]', 422, "Line 2 is no JSON object."),
        (b'{"prompt": ', 422, "Line 1 is no JSON object."),
        (b"[" * 2_000, 422, "Line 1 is no JSON object."),
        (b"[" * 600_000, 413, "more than 500,000 values"),
        (gzip.compress(b"{}\n" * 13_000, mtime=0), 413, "at most 12,288 lines"),
        (gzip.compress(b"{}", mtime=0)[:-9], 400, "have not arrived whole"),
        (b"\x1f\x8bnonsense", 422, "The samples are no gzip"),
    ],
)
def test_what_is_no_sample_leaves_nothing(run, settings, content, status, message):
    with pytest.raises(InvalidInput, match=message) as error:
        store.keep(run, "eval", 1, 1, io.BytesIO(content).read)

    assert error.value.status == status
    assert not SampleFile.objects.exists() and on_disk(settings) == []


def test_more_than_a_limit_is_refused(run, monkeypatch):
    monkeypatch.setattr(store, "MOST_UNPACKED", 100_000)
    bomb = gzip.compress(b" " * 10_000_000)
    with pytest.raises(store.TooLarge, match="What was sent has more than"):
        store.keep(run, "eval", 1, 1, io.BytesIO(bomb).read)

    monkeypatch.setattr(store, "MOST_SENT", 100)
    with pytest.raises(store.TooLarge, match="The request has more than"):
        store.keep(run, "eval", 1, 1, io.BytesIO(b" " * 200).read)


def test_files_go_with_their_run_and_with_the_bound(
    run, settings, monkeypatch, django_capture_on_commit_callbacks
):
    monkeypatch.setattr(samples, "MOST_FILES", 3)
    monkeypatch.setattr(samples.superfluous, "__defaults__", (3,))
    with django_capture_on_commit_callbacks(execute=True):
        for step in range(6):
            put(run, step)
    assert len(on_disk(settings)) == files_of(run).count() == 3

    with django_capture_on_commit_callbacks(execute=True):
        Run.objects.filter(pk=run.pk).delete()
    assert on_disk(settings) == []


def test_a_file_that_is_gone_is_said(run, settings):
    put(run, 1)
    (path,) = settings.HEADROOM_HOME.rglob("*.parquet")
    path.write_bytes(b"damaged")
    with pytest.raises(Gone, match="are damaged"):
        rows_of(find(run, "eval", 1))
    path.unlink()
    with pytest.raises(Gone, match="are not on the disk"):
        rows_of(find(run, "eval", 1))
    assert list(selectors.lines_of(list(files_of(run)), samples.EVERYTHING)) == []


def test_old_samples_go_with_old_logs_and_their_rewards_stay(run, settings):
    put(run, 1)
    policy = RetentionPolicy.objects.create(project=run.project, enabled=True, log_days=30)
    now = timezone.now()
    assert drop_old_samples(run.project, policy, now) == 0  # it trains
    Run.objects.filter(pk=run.pk).update(state="succeeded", ended_at=now - timedelta(days=31), tags=["keep"])
    assert drop_old_samples(run.project, policy, now) == 0
    Run.objects.filter(pk=run.pk).update(tags=[])

    assert drop_old_samples(run.project, policy, now) == 1

    assert on_disk(settings) == [] and len(history(run, "eval", "a")) == 1
    with pytest.raises(Gone, match="were removed by the project's clean-up"):
        rows_of(find(run, "eval", 1))
    assert drop_old_samples(run.project, policy, now) == 0


@pytest.mark.parametrize(("kind", "step"), [("../x", 1), ("eval", -1)])
def test_no_name_leads_out_of_the_folder(run, kind, step):
    with pytest.raises(InvalidInput):
        store.path_of(run.pk, kind, step)
    with pytest.raises(InvalidInput):
        store.path_of("../x", "eval", 1)
