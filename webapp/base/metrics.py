"""What this process counts while it works. Names and units follow Prometheus' conventions; docs/observability.md lists
them. What can be asked of the database at any time is not counted: `webapp.operation.observing.exposition`.
"""

import os
from datetime import datetime
from pathlib import Path

from observability.metrics_folder import VARIABLE

SHARED_FOLDER = os.environ.get(VARIABLE) or None  # None: this process counts for itself alone
if SHARED_FOLDER:  # the client opens its files when it is imported
    Path(SHARED_FOLDER).mkdir(parents=True, exist_ok=True)

from prometheus_client import CollectorRegistry, Counter, Histogram  # noqa: E402

COUNTED = CollectorRegistry()
REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TASK_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
LAG_BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200, 86400)

HTTP_REQUESTS = Counter(
    "headroom_http_requests", "Requests answered.", ["view", "method", "status"], registry=COUNTED
)
HTTP_SECONDS = Histogram(
    "headroom_http_request_duration_seconds",
    "From a request to the beginning of its answer.",
    ["view", "method"],
    buckets=REQUEST_BUCKETS,
    registry=COUNTED,
)
INGEST_RECORDS = Counter(
    "headroom_ingest_records",
    "Records of stored batches: new ones, and repeated ones that changed nothing.",
    ["outcome"],
    registry=COUNTED,
)
INGEST_POINTS = Counter(
    "headroom_ingest_points", "Metric values in stored batches, repeated ones among them.", registry=COUNTED
)
INGEST_SECONDS = Histogram(
    "headroom_ingest_duration_seconds",
    "Storing a batch, its commit included.",
    buckets=REQUEST_BUCKETS,
    registry=COUNTED,
)
INGEST_LAG = Histogram(
    "headroom_ingest_lag_seconds",
    "Age, by the trainer's clock, of the first record of a batch when it was stored: how far journals are behind.",
    buckets=LAG_BUCKETS,
    registry=COUNTED,
)
TASKS = Counter(
    "headroom_tasks",
    "Celery tasks that ended: success, failure or retry. One that was killed is not counted.",
    ["task", "outcome"],
    registry=COUNTED,
)
TASK_SECONDS = Histogram(
    "headroom_task_duration_seconds",
    "Celery tasks that ended.",
    ["task"],
    buckets=TASK_BUCKETS,
    registry=COUNTED,
)
HANDOVERS = Counter(
    "headroom_handovers",
    "Dispatch rows that were offered to Ray: done, refused, or to be tried again.",
    ["kind", "outcome"],
    registry=COUNTED,
)
FITS = Counter("headroom_fits", "New fits that were stored, by status.", ["status"], registry=COUNTED)

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def note_request(view: str, method: str | None, status: int, seconds: float) -> None:
    """`view`: the name of the address; none of ours: empty. So callers cannot make up labels."""
    known = method if method in METHODS else "other"
    HTTP_REQUESTS.labels(view or "none", known, str(status)).inc()
    HTTP_SECONDS.labels(view or "none", known).observe(seconds)


def note_batch(new: int, repeated: int, points: int, seconds: float) -> None:
    """A batch of records was stored."""
    INGEST_RECORDS.labels("new").inc(new)
    INGEST_RECORDS.labels("repeated").inc(repeated)
    INGEST_POINTS.inc(points)
    INGEST_SECONDS.observe(seconds)


def note_lag(first_record_time: str, now: float) -> None:
    """A trainer sent a batch whose first record is of this time (ISO 8601, with offset). A trainer's clock may be
    ahead of ours: then it is 0."""
    INGEST_LAG.observe(max(0.0, now - datetime.fromisoformat(first_record_time).timestamp()))


def note_task(task: str, outcome: str, seconds: float) -> None:
    """A Celery task has ended."""
    TASKS.labels(task, outcome).inc()
    TASK_SECONDS.labels(task).observe(seconds)
