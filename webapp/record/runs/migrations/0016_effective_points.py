from django.db import migrations

# The rule which points count, once: those of an earlier attempt past the step that a later, started attempt resumed from
# do not; of one that began anew (null) none before it does. A later attempt is compared with nothing but its number.
EFFECTIVE_ATTEMPTS = """
CREATE VIEW runs_effective_attempt AS
SELECT one.run_id, one.number AS attempt, coalesce((
    SELECT min(coalesce(later.resumed_from_step, -9223372036854775808)) FROM runs_attempt AS later
    WHERE later.run_id = one.run_id AND later.number > one.number AND later.started_at IS NOT NULL
), 9223372036854775807) AS last_step
FROM runs_attempt AS one
"""
# OFFSET 0 keeps PostgreSQL from working out an attempt's last step for each point, or for all runs that there are.
EFFECTIVE_POINTS = """
CREATE VIEW runs_effective_point AS
SELECT series.run_id, series.metric, point.*
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
