"""Many runs without the time of making them: copies of one that was launched, evaluated and fitted by the services."""

from django.db.models import Max

from webapp.record.runs.models import Attempt, Point, Run, Series
from webapp.science.curves.models import Fit


def copies_of(run, count, *, first_seed=100, **changes):
    """`count` runs with the evaluations and the stored fits of `run`, each with a seed of its own."""
    fields = {
        f.attname: getattr(run, f.attname) for f in Run._meta.concrete_fields if f.attname != "id"
    } | changes
    made = Run.objects.bulk_create(
        Run(**fields | {"seed": first_seed + i, "name": f"{run.name} {first_seed + i}"}) for i in range(count)
    )
    series = Series.objects.get(run=run, metric="eval/pass_rate")
    points = list(Point.objects.filter(series=series))
    fits = list(Fit.objects.filter(run=run))
    for copy in made:
        Attempt.objects.create(run=copy, number=1, submission_id=f"run-{copy.pk}-a1")
        own = Series.objects.create(run=copy, metric=series.metric)
        Point.objects.bulk_create(_copied(point, series_id=own.pk) for point in points)
        Fit.objects.bulk_create(_copied(fit, run_id=copy.pk) for fit in fits)
    assert Fit.objects.aggregate(Max("id"))
    return made


def _copied(row, **changes):
    fields = {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if f.attname != "id"}
    return type(row)(**fields | changes)
