"""Finding what clients of other trackers have logged, by their own names."""

import re
from collections.abc import Iterable

from django.db.models import F, FloatField, Func, QuerySet, TextField
from django.db.models import Value as Constant
from django.db.models.functions import Cast

from webapp.base.compiled import Compiled
from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Project
from webapp.interfaces.tracking.lines import Value, to_ms
from webapp.interfaces.tracking.models import ClientMetric, ClientRun, Group, NotFinite
from webapp.record.runs.models import Point, Record

CLIENT_KEY = re.compile(r"[0-9a-f]{32}")  # the id that a client of MLflow or trackio has of a run


def text_in(column: str, key: str) -> Func:
    """What a JSON column holds under a key, as text. Unlike Django's own, any key will do."""
    return Func(F(column), Constant(key), function="jsonb_extract_path_text", output_field=TextField())


def groups_of(project: Project) -> QuerySet[Group]:
    """All of the project's, also the hidden ones."""
    return Group.objects.filter(project=project)


def runs_of_client(project: Project | int, client: str) -> QuerySet[ClientRun]:
    """The runs that this kind of client has made in the project, also the hidden ones; none that was deleted here."""
    return ClientRun.objects.filter(
        group__project=project, client=client, run__deleted_at=None
    ).select_related("run", "group")


def client_run_by_key(project: Project, client: str, key: str) -> ClientRun:
    """Raises NotFound, also for the run of another project."""
    found = _BY_KEY.first(project=project.pk, client=client, key=key)
    if found is None:
        raise NotFound(f"Run with id={key} not found.")
    return found


_BY_KEY = Compiled(
    lambda project, client, key: (
        runs_of_client(project, client).filter(key=key).order_by().defer("run__config")
    ),
    project=-1, client="a client", key="a key",
)  # fmt: skip


def newest_of(client_runs: Iterable[ClientRun]) -> dict[str, list[ClientMetric]]:
    """Id of a run -> its metrics with their newest values, by name. One query."""
    found: dict[str, list[ClientMetric]] = {}
    for metric in ClientMetric.objects.filter(run__in=[each.pk for each in client_runs]).order_by("key"):
        found.setdefault(metric.run_id, []).append(metric)
    return found


def history(client_run: ClientRun, name: str) -> list[Value]:
    """Every value of a metric by the name that the client logged, as it was logged, by step and time."""
    metric = client_run.client_metrics.filter(key=name).first()
    if metric is None:
        return []
    lost = NotFinite.objects.filter(run=client_run, key=name).values_list("value", "step", "time_ms")
    rows = [*_finite(client_run, metric.series), *lost]
    return sorted((Value(name, *row) for row in rows), key=lambda each: each.moment)


def _finite(client_run: ClientRun, series: str) -> list[tuple[float, int, int]]:
    """(value, step, time). A standard error is a column of what it belongs to: it is read from the records."""
    if series.endswith("_stderr"):
        number = Cast(text_in("metrics", series), FloatField())
        records = Record.objects.filter(run_id=client_run.pk).annotate(number=number)
        found = records.filter(number__isnull=False).values_list("number", "step", "time")
        return [(value, step, to_ms(at)) for value, step, at in found]
    points = Point.objects.filter(series__run_id=client_run.pk, series__metric=series)
    return [(value, step, to_ms(at)) for value, step, at in points.values_list("value", "step", "time")]
