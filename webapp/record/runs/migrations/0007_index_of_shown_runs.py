from django.db import migrations, models

# Every page counts the runs that are not archived: read from the index alone, not from rows of kilobytes.
# Runs go on being written while it is made.
CREATE_INDEX = "CREATE INDEX CONCURRENTLY run_shown ON runs_run (project_id, archived_at, state)"
DROP_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS run_shown"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("runs", "0006_points_of_every_eighth_step"),
    ]

    operations = [
        migrations.RunSQL(
            DROP_INDEX, migrations.RunSQL.noop
        ),  # what an interrupted attempt left is of no use
        migrations.RunSQL(
            CREATE_INDEX,
            DROP_INDEX,
            state_operations=[
                migrations.AddIndex(
                    "run", models.Index(fields=["project", "archived_at", "state"], name="run_shown")
                )
            ],
        ),
    ]
