from django.db import migrations

# Small charts of long runs show every 8th, 16th, ... step: an index an eighth as large as one of all points would be.
# Django's indexes cannot say this condition. Trainers go on reporting while it is made.
CREATE_INDEX = """
CREATE INDEX CONCURRENTLY point_every_8 ON runs_point (series_id, step) WHERE step % 8 = 0
"""
DROP_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS point_every_8"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("runs", "0005_summaries_tags_and_bulk_actions"),
    ]

    operations = [
        migrations.RunSQL(
            DROP_INDEX, migrations.RunSQL.noop
        ),  # what an interrupted attempt left is of no use
        migrations.RunSQL(CREATE_INDEX, DROP_INDEX),
    ]
