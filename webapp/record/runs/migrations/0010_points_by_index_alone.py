from django.db import migrations, models

# A chart chooses its points by (attempt, seq, step, value): with these in the index it reads the index alone, instead of a
# page of the table for every point. Made beside the old one, which keeps points unique until this one does; trainers go on
# reporting. Index-only reads need pages that a vacuum has seen: soon after they were filled, not at a fifth of the table.
NEW_INDEX = """
CREATE UNIQUE INDEX CONCURRENTLY point_once_new ON runs_point (series_id, attempt, seq) INCLUDE (step, value)
"""
PLAIN_INDEX = """
CREATE UNIQUE INDEX CONCURRENTLY point_once_new ON runs_point (series_id, attempt, seq)
"""
DROP_UNFINISHED = "DROP INDEX CONCURRENTLY IF EXISTS point_once_new"  # what an interrupted attempt left
DROP_OLD = "ALTER TABLE runs_point DROP CONSTRAINT IF EXISTS point_once"
DROP_COVERING = "DROP INDEX CONCURRENTLY IF EXISTS point_once"
RENAME = "ALTER INDEX point_once_new RENAME TO point_once"
AS_CONSTRAINT = "ALTER TABLE runs_point ADD CONSTRAINT point_once UNIQUE USING INDEX point_once_new"
VACUUM_SOON = """
ALTER TABLE runs_point SET (autovacuum_vacuum_insert_scale_factor = 0.01, autovacuum_vacuum_insert_threshold = 100000)
"""
VACUUM_AS_USUAL = """
ALTER TABLE runs_point RESET (autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_insert_threshold)
"""
FIELDS = ["series", "attempt", "seq"]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("runs", "0009_meaning_of_a_tracked_run")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(DROP_UNFINISHED, migrations.RunSQL.noop),
                migrations.RunSQL(NEW_INDEX, AS_CONSTRAINT),
                migrations.RunSQL(DROP_OLD, DROP_COVERING),
                migrations.RunSQL(DROP_COVERING, migrations.RunSQL.noop),  # of an attempt that got this far
                migrations.RunSQL(RENAME, PLAIN_INDEX),
                migrations.RunSQL(VACUUM_SOON, VACUUM_AS_USUAL),
            ],
            state_operations=[
                migrations.RemoveConstraint(model_name="point", name="point_once"),
                migrations.AddConstraint(
                    model_name="point",
                    constraint=models.UniqueConstraint(
                        fields=FIELDS, include=["step", "value"], name="point_once"
                    ),
                ),
            ],
        )
    ]
