from django.db import migrations

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
    dependencies = [
        ("runs", "0015_refused"),
    ]

    operations = [
        migrations.RunSQL(EFFECTIVE_ATTEMPTS, "DROP VIEW runs_effective_attempt"),
        migrations.RunSQL(EFFECTIVE_POINTS, "DROP VIEW runs_effective_point"),
    ]
