from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0014_notes_and_deletion"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="refused",
            field=models.JSONField(db_default=Value({}, models.JSONField()), default=dict),
        ),
    ]
