"""GET /api/v1/runs/{id}/logs: by cursor until nothing more comes, by words, and what is refused."""

import pytest
from django.utils import timezone

from tests.launching import tracked_run
from webapp.record.logs.chunking import add_lines
from webapp.record.logs.models import JobLog, LogChunk


@pytest.fixture
def run(user, project):
    return tracked_run(user=user, project=project, name="a run")


@pytest.fixture
def log(run):
    """1,200 lines of its first attempt; it still runs."""
    row = JobLog.objects.create(attempt=run.attempts.get())
    LogChunk.objects.bulk_create(add_lines(row, None, [f"line {i}" for i in range(1, 1201)]))
    row.save()
    return row


def test_a_log_is_read_to_its_end_and_tailed(reader, run, log):
    numbers, cursor = [], None
    for _ in range(3):
        page = reader.get(f"runs/{run.pk}/logs", **({"cursor": cursor} if cursor else {})).json()
        numbers += [line["number"] for line in page["items"]]
        cursor = page["next"]

    assert numbers == list(range(1, 1201))
    assert page["items"][-1] == {"number": 1200, "text": "line 1200"}
    assert (page["attempt"], page["total"], page["left_out"], cursor) == (1, 1200, None, "1200")
    again = reader.get(f"runs/{run.pk}/logs", cursor=cursor).json()
    assert (again["items"], again["next"]) == ([], "1200")  # it may print more

    JobLog.objects.update(closed_at=timezone.now())
    assert reader.get(f"runs/{run.pk}/logs", cursor=cursor).json()["next"] is None


def test_lines_that_hold_a_text_are_paged_too(reader, run, log):
    page = reader.get(f"runs/{run.pk}/logs", q="LINE 11", limit=50).json()
    assert [line["number"] for line in page["items"]] == [11, *range(110, 120), *range(1100, 1139)]

    rest = reader.get(f"runs/{run.pk}/logs", q="LINE 11", limit=100, cursor=page["next"]).json()
    assert [line["number"] for line in rest["items"]] == list(range(1139, 1200))
    assert rest["next"] == "1200"


def test_a_run_without_a_log_has_no_lines(reader, run):
    page = reader.get(f"runs/{run.pk}/logs").json()

    assert (page["items"], page["total"], page["next"]) == ([], 0, "0")


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({"attempt": 2}, 404, None),
        ({"attempt": 0}, 422, "attempt"),
        ({"cursor": "x"}, 422, "cursor"),
        ({"cursor": "9" * 30}, 422, "cursor"),
        ({"q": "x" * 201}, 422, "q"),
        ({"limit": 5001}, 422, "limit"),
    ],
)
def test_what_cannot_be_asked_is_refused(reader, run, log, query, status, field):
    answer = reader.get(f"runs/{run.pk}/logs", **query)

    assert answer.status_code == status
    assert answer.json()["error"].get("field") == field
