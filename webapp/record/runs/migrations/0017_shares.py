from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0016_effective_points")]

    operations = [
        migrations.AddField("projectqueue", "share", models.FloatField(default=1.0, db_default=1.0)),
        migrations.AddField(
            "projectqueue", "steps_back", models.BooleanField(default=False, db_default=False)
        ),
        migrations.AlterField(
            "attempt",
            "failure",
            models.CharField(
                blank=True,
                choices=[
                    ("infrastructure", "Infrastructure"),
                    ("recipe", "Recipe"),
                    ("stepped back", "Stepped Back"),
                ],
                max_length=16,
            ),
        ),
    ]
