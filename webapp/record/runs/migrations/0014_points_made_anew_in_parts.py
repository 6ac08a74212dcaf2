from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0013_effective_points_notes_and_shares")]

    operations = [migrations.AddField("run", "remaking", models.JSONField(null=True))]
