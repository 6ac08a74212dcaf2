import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# Rows that are written past Django (bulk loads) need not know of tags.
DEFAULT_TAGS = "ALTER TABLE runs_run ALTER COLUMN tags SET DEFAULT '[]'"

# What webapp.science.curves.services made of the stored data when this migration was written.
FILL = """
INSERT INTO runs_summary (
    run_id, used_hours, used_attempt, used_seq, pass_rate, pass_rate_stderr, pass_rate_attempt, pass_rate_seq,
    spark, fit_status, level, ceiling, ceiling_lo, ceiling_hi)
SELECT run.id, used.hours, coalesce(used.attempt, 0), coalesce(used.seq, -1),
    line.value, line.stderr, coalesce(line.attempt, 0), coalesce(line.seq, -1), coalesce(line.spark, '[]'),
    coalesce(fit.status, ''), fit.level, CASE WHEN fit.status = 'ok' THEN nullif(fit.params -> 'A', 'null')::float8 END,
    nullif(fit.intervals -> 'A' -> 0, 'null')::float8, nullif(fit.intervals -> 'A' -> 1, 'null')::float8
FROM runs_run AS run
LEFT JOIN LATERAL (
    SELECT (compute -> 'device_hours')::float8 AS hours, attempt, seq FROM runs_record
    WHERE run_id = run.id ORDER BY attempt DESC, seq DESC LIMIT 1
) AS used ON true
LEFT JOIN LATERAL (
    SELECT max(value) FILTER (WHERE place = total) AS value, max(stderr) FILTER (WHERE place = total) AS stderr,
        max(attempt) AS attempt, max(seq) FILTER (WHERE place = total) AS seq,
        jsonb_agg(value ORDER BY place) FILTER (
            WHERE (place - 1) % ((total + 39) / 40) = 0 OR place = total) AS spark
    FROM (
        SELECT point.value, point.stderr, point.attempt, point.seq,
            row_number() OVER (ORDER BY point.attempt, point.seq) AS place, count(*) OVER () AS total
        FROM runs_series AS series JOIN runs_point AS point ON point.series_id = series.id
        WHERE series.run_id = run.id AND series.metric = 'eval/pass_rate' AND NOT EXISTS (
            SELECT 1 FROM runs_attempt AS later
            WHERE later.run_id = run.id AND later.number > point.attempt AND later.started_at IS NOT NULL
                AND (later.resumed_from_step IS NULL OR later.resumed_from_step < point.step))
    ) AS effective
) AS line ON true
LEFT JOIN LATERAL (
    SELECT status, level, params, intervals FROM curves_fit
    WHERE run_id = run.id AND metric = 'eval/pass_rate' AND x = 'device_hours' AND form = 'sigmoid'
        AND cutoff IS NULL AND window_lo IS NULL
    ORDER BY id DESC LIMIT 1
) AS fit ON true
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_initial"),
        ("curves", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("runs", "0004_alarms_wanted_at"),
    ]

    operations = [
        migrations.AddField(model_name="run", name="tags", field=models.JSONField(default=list)),
        migrations.AddField(model_name="run", name="archived_at", field=models.DateTimeField(null=True)),
        migrations.CreateModel(
            name="Summary",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="summary",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("used_hours", models.FloatField(null=True)),
                ("used_attempt", models.PositiveIntegerField(default=0)),
                ("used_seq", models.BigIntegerField(default=-1)),
                ("pass_rate", models.FloatField(null=True)),
                ("pass_rate_stderr", models.FloatField(null=True)),
                ("pass_rate_attempt", models.PositiveIntegerField(default=0)),
                ("pass_rate_seq", models.BigIntegerField(default=-1)),
                ("spark", models.JSONField(default=list)),
                ("fit_status", models.CharField(blank=True, max_length=20)),
                ("level", models.FloatField(null=True)),
                ("ceiling", models.FloatField(null=True)),
                ("ceiling_lo", models.FloatField(null=True)),
                ("ceiling_hi", models.FloatField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="BulkAction",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64)),
                ("action", models.CharField(max_length=12)),
                ("tag", models.CharField(blank=True, max_length=40)),
                ("outcomes", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "project",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="accounts.project"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="bulkaction",
            constraint=models.UniqueConstraint(fields=("project", "key"), name="bulk_action_once"),
        ),
        migrations.RunSQL(DEFAULT_TAGS, migrations.RunSQL.noop),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
