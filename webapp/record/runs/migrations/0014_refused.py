from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0013_summary_tail"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="refused",
            field=models.JSONField(db_default=Value({}, models.JSONField()), default=dict),
        ),
    ]
