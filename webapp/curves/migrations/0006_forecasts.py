from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("curves", "0005_fit_superseded")]

    operations = [
        migrations.AddField("fit", "forecast", models.JSONField(null=True)),
    ]
