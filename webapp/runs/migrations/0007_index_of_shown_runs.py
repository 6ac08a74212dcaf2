from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Every page counts the runs that are not archived: read from the index alone, not from rows of kilobytes."""

    atomic = False  # built while runs are being written

    dependencies = [("runs", "0006_points_of_every_eighth_step")]

    operations = [
        AddIndexConcurrently(
            "run", models.Index(fields=["project", "archived_at", "state"], name="run_shown")
        ),
    ]
