from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0018_series_logged_as")]

    operations = [migrations.AddField("summary", "reached", models.FloatField(null=True))]
