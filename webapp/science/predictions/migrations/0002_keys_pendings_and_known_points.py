"""What was known when a claim was made, keys of repeated requests, and runs that passed a target without scoring."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("predictions", "0001_initial"), ("runs", "0006_points_of_every_eighth_step")]

    operations = [
        migrations.AddField(
            "prediction", "known_until", models.FloatField(default=0.0), preserve_default=False
        ),
        migrations.AddField("prediction", "target_hours", models.FloatField(null=True)),
        migrations.AddField("prediction", "key", models.CharField(max_length=200, null=True)),
        migrations.AddField(
            "prediction", "body_digest", models.CharField(default="", max_length=64), preserve_default=False
        ),
        migrations.AddIndex(
            "prediction", models.Index(fields=["revision", "task", "model"], name="predictions_of_recipe")
        ),
        migrations.AddConstraint(
            "prediction",
            models.UniqueConstraint(fields=("project", "author", "key"), name="prediction_key_once"),
        ),
        migrations.CreateModel(
            name="Pending",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("reason", models.TextField()),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "prediction",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pendings",
                        to="predictions.prediction",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
                    ),
                ),
            ],
            options={"unique_together": {("prediction", "run")}},
        ),
    ]
