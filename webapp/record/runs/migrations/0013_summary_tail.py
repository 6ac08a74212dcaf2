from django.db import migrations, models


class Migration(migrations.Migration):
    """The next refit of a run fills it, or `manage.py rebuild_summaries`."""

    dependencies = [("runs", "0012_dispatch_origin")]

    operations = [migrations.AddField("summary", "tail", models.FloatField(null=True))]
