from django.db import migrations, models
from django.db.models import Value

# The rule which points count, once: those of an earlier attempt past the step that a later, started attempt resumed from
# do not; where that one began anew (null), none before it does. A window, because a subquery would be asked for each
# point; filters by run reach below it.
EFFECTIVE_ATTEMPTS = """
CREATE VIEW runs_effective_attempt AS
SELECT run_id, number AS attempt, coalesce(
    min(CASE WHEN started_at IS NOT NULL THEN coalesce(resumed_from_step, -9223372036854775808) END) OVER (
        PARTITION BY run_id ORDER BY number DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    9223372036854775807) AS last_step
FROM runs_attempt
"""
# OFFSET 0 keeps the lateral a lateral: attempts are looked up run by run, and not those of all runs that there are.
EFFECTIVE_POINTS = """
CREATE VIEW runs_effective_point AS
SELECT series.run_id, series.metric, series.id AS series_id, point.attempt, point.seq, point.step, point.time,
    point.device_hours, point.flops, point.tokens, point.value, point.stderr
FROM runs_series AS series
CROSS JOIN LATERAL (
    SELECT attempt, last_step FROM runs_effective_attempt WHERE run_id = series.run_id OFFSET 0
) AS own
JOIN runs_point AS point
    ON point.series_id = series.id AND point.attempt = own.attempt AND point.step <= own.last_step
"""


class Migration(migrations.Migration):
    """Tables in the order in which a batch of records takes them, so that neither waits for the other in a circle."""

    dependencies = [("runs", "0001_squashed_0012_dispatch_origin")]

    operations = [
        migrations.AddField("run", "notes", models.TextField(blank=True, db_default="", default="")),
        migrations.AddField("run", "deleted_at", models.DateTimeField(null=True)),
        migrations.AddField(
            "run", "refused", models.JSONField(db_default=Value({}, models.JSONField()), default=dict)
        ),
        migrations.AlterField(
            "attempt",
            "failure",
            models.CharField(
                blank=True,
                choices=[
                    ("infrastructure", "Infrastructure"),
                    ("recipe", "Recipe"),
                    ("stepped back", "Stepped Back"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddField(
            "series", "logged_as", models.CharField(blank=True, db_default="", default="", max_length=250)
        ),
        # The next refit of a run fills the summary's new fields, or `manage.py rebuild_summaries`.
        migrations.AddField("summary", "tail", models.FloatField(null=True)),
        migrations.AddField("summary", "reached", models.FloatField(null=True)),
        migrations.AddField("bulkaction", "changes", models.JSONField(null=True)),
        migrations.AddField("projectqueue", "share", models.FloatField(default=1.0, db_default=1.0)),
        migrations.AddField(
            "projectqueue", "steps_back", models.BooleanField(default=False, db_default=False)
        ),
        migrations.RunSQL(EFFECTIVE_ATTEMPTS, "DROP VIEW runs_effective_attempt"),
        migrations.RunSQL(EFFECTIVE_POINTS, "DROP VIEW runs_effective_point"),
    ]
