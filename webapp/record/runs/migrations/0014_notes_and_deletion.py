from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0013_summary_tail")]

    operations = [
        migrations.AddField("run", "notes", models.TextField(blank=True, db_default="", default="")),
        migrations.AddField("run", "deleted_at", models.DateTimeField(null=True)),
        migrations.AddField("bulkaction", "changes", models.JSONField(null=True)),
    ]
