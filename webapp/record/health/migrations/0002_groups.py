from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):
    dependencies = [("health", "0001_initial")]

    operations = [
        migrations.AddField(
            "clusterseen",
            "groups",
            models.JSONField(default=dict, db_default=Value({}, models.JSONField())),
        )
    ]
