from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# Records are read in the order of arrival, page by page. Without this index the records of all runs that came later were
# looked through for those of one. Made while trainers go on reporting.


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("runs", "0010_points_by_index_alone")]

    operations = [
        AddIndexConcurrently(
            "record", models.Index(models.F("run"), models.F("id") + 0, name="records_arrival")
        ),
    ]
