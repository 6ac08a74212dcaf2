"""Output of jobs in the database: all of it once, bounded, without secrets, complete after the end."""

import pytest

from webapp.identity.secrets.services import set_secret
from webapp.record.logs import chunking, services
from webapp.record.logs.models import JobLog, LogChunk
from webapp.record.logs.selectors import Kept, last_error_of
from webapp.record.runs.models import Run, State
from webapp.record.runs.states import queue_next_attempt

pytestmark = pytest.mark.django_db


def kept(job) -> list[str]:
    return [line.text for line in Kept(job.attempt).after(0, 10_000_000)]


@pytest.fixture
def small(monkeypatch):
    """Bounds that a test can reach."""
    for module in (chunking, services, services):
        for name, value in {"HEAD_BYTES": 200, "TAIL_BYTES": 200, "CHUNK_BYTES": 50}.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


def test_new_output_is_stored_once_however_often_it_is_looked_at(job):
    job.prints("one\ntwo\nthr")
    services.follow()
    services.follow()
    assert kept(job) == ["one", "two"]

    job.prints("ee\n")
    services.follow()
    assert kept(job) == ["one", "two", "three"]
    assert LogChunk.objects.count() == 1


def test_a_round_with_nothing_new_writes_nothing(job, django_assert_num_queries):
    job.prints("one\n")
    services.follow()

    with django_assert_num_queries(1):
        services.follow()


def test_the_number_of_statements_does_not_grow_with_the_jobs(make_job, django_assert_num_queries):
    jobs = [make_job(seed=seed) for seed in range(3)]
    for job in jobs:
        job.prints("one\n")
    services.follow()
    for job in jobs:
        job.prints("two\n")

    with django_assert_num_queries(
        9
    ):  # attempts, secrets, savepoint, make, lock, newest, put, update, release
        assert services.follow() == 3
    assert all(kept(job) == ["one", "two"] for job in jobs)


def test_two_workers_that_read_the_same_store_it_once(job):
    job.prints("one\n")
    both = [services._followed(), services._followed()]
    for found in both:
        services._read(found)
        services._clean(found)
    for found in both:
        services._store(found)

    assert kept(job) == ["one"]


def test_secrets_do_not_get_into_the_store(job, user, project):
    set_secret(project, name="HF_TOKEN", value="hf_very_secret_value", user=user)
    job.prints("login with hf_very_secret_value done\n")
    services.follow()

    assert kept(job) == ["login with ••• done"]


def test_of_a_long_log_the_first_and_the_last_lines_are_kept(job, small):
    for first in range(0, 200, 20):
        job.prints("".join(f"line {i:04}\n" for i in range(first + 1, first + 21)))
        services.follow()

    row, lines = JobLog.objects.get(), Kept(job.attempt).after(0, 1000)
    assert row.size <= 400
    assert [line.text for line in lines] == [f"line {line.number:04}" for line in lines]
    assert (lines[0].number, lines[-1].number, row.lines) == (1, 200, 200)
    gap = Kept(job.attempt).gap
    assert gap is not None and gap.lines + len(lines) == 200
    assert gap.first == 21  # 200 bytes of head
    assert 10 * gap.lines == gap.size
    assert f"[{gap.lines} lines are left out here]" in "".join(Kept(job.attempt).text())


def test_what_would_be_left_out_anyway_is_not_read(job, small):
    job.prints("".join(f"line {i:04}\n" for i in range(1, 31)))
    services.follow()
    job.prints("".join(f"line {i:04}\n" for i in range(31, 2001)))
    services.follow()

    lines = Kept(job.attempt).after(0, 5000)
    assert [line.text for line in lines] == [f"line {line.number:04}" for line in lines]
    assert lines[-1].number == 2000
    assert len(lines) <= 45


def test_last_words_of_a_killed_driver_come_from_ray(job, django_capture_on_commit_callbacks):
    job.prints("step 1\nstep 2\n")
    services.follow()
    job.ends(tail="step 1\nstep 2\nSegmentation fault\n")  # its copy was half a second behind
    before = Run.objects.get().version
    with django_capture_on_commit_callbacks(execute=True):
        services.follow()

    assert kept(job) == ["step 1", "step 2", "Segmentation fault"]
    assert not job.path.exists()  # all of it is in the database
    assert Run.objects.get().version == before + 1  # open pages ask once more
    assert services.follow() == 0


def test_a_tail_that_is_older_than_what_is_kept_adds_nothing(job):
    """Reconciliation read it a moment before the end: the driver reported its end itself."""
    lines = "".join(f"step {i}\n" for i in range(1, 2001))
    job.prints(lines + "succeeded\n")
    services.follow()
    job.ends(state=State.SUCCEEDED, tail="".join(f"step {i}\n" for i in range(1000, 1990)))
    services.follow()

    assert kept(job)[-2:] == ["step 2000", "succeeded"]
    assert Kept(job.attempt).total == 2001 and Kept(job.attempt).is_closed


def test_the_end_that_outlives_a_whole_log_is_shown_without_colours(job):
    job.ends(tail="\x1b[36m(Generator)\x1b[0m 0 %\r100 %\n\x1b[36m(Generator)\x1b[0m error: it died\n")
    kept = Kept(job.attempt)

    assert kept.is_tail
    assert [line.text for line in kept.newest(9)] == ["100 %", "(Generator) error: it died"]
    assert "".join(kept.text()) == "100 %\n(Generator) error: it died\n"


def test_a_job_that_never_got_as_far_as_a_copy_has_the_tail(job):
    job.ends(tail="/bin/sh: exec: python: not found\n")
    services.follow()

    assert kept(job) == ["/bin/sh: exec: python: not found"]


def test_the_end_without_a_line_end_is_kept(job):
    job.prints("one\nlast wor")
    job.ends()
    services.follow()  # reads on
    services.follow()  # closes

    assert kept(job) == ["one", "last wor"]
    assert Kept(job.attempt).is_closed


def test_a_lost_job_that_goes_on_is_followed_on(job):
    job.prints("one\n")
    job.ends(state=State.LOST)
    services.follow()
    services.follow()
    assert Kept(job.attempt).is_closed

    job.attempt.__class__.objects.update(state=State.RUNNING, ended_at=None)
    job.prints("two\n")
    services.follow()
    assert kept(job) == ["one", "two"]
    assert not Kept(job.attempt).is_closed


def test_each_attempt_has_a_log_of_its_own(job):
    job.prints("of the first\n")
    job.ends()
    services.follow()
    queue_next_attempt(job.run)
    second = type(job)(job.run)
    type(job.attempt).objects.filter(number=2).update(state=State.RUNNING)
    second.prints("of the second\n")
    services.follow()

    assert kept(second) == ["of the second"]
    assert [line.text for line in Kept(job.run.attempts.get(number=1)).newest(5)] == ["of the first"]


def test_a_failed_run_says_its_last_lines(job):
    job.prints("step 1\nTraceback (most recent call last):\n  File x\nRuntimeError: no\n")
    services.follow()
    assert last_error_of(job.run) == []

    job.ends()
    services.follow()
    said = last_error_of(job.run)
    assert [(line.number, line.text) for line in said][0] == (2, "Traceback (most recent call last):")
    assert said[-1].text == "RuntimeError: no"
