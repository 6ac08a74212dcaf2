import django.db.models.deletion
from django.db import migrations, models

RUN = {"on_delete": django.db.models.deletion.CASCADE, "to": "runs.run"}


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_example_project_and_max_metrics"),
        ("curves", "0001_squashed_0005_fit_superseded"),
        ("runs", "0001_squashed_0012_dispatch_origin"),
    ]

    operations = [
        migrations.AddField("fit", "forecast", models.JSONField(null=True)),
        migrations.CreateModel(
            name="ForecastOrigin",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("data_digest", models.CharField(max_length=64)),
                ("cut", models.FloatField()),
                ("seen", models.FloatField()),
                ("n", models.PositiveIntegerField()),
                ("as_it_went", models.BooleanField()),
                ("status", models.CharField(max_length=20)),
                ("message", models.TextField(blank=True)),
                ("says", models.JSONField(null=True)),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                ("said", models.JSONField(null=True)),
                ("ratios", models.JSONField(null=True)),
                ("run", models.ForeignKey(related_name="forecast_origins", **RUN)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["run", "data_digest"], name="forecast_origin_once")
                ]
            },
        ),
        migrations.CreateModel(
            name="ForecastOutcome",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        primary_key=True, related_name="forecast_outcome", serialize=False, **RUN
                    ),
                ),
                ("data_digest", models.CharField(max_length=64)),
                ("why", models.CharField(blank=True, max_length=200)),
                ("last", models.FloatField(null=True)),
                ("target", models.FloatField(null=True)),
                ("came", models.FloatField(null=True)),
                ("judged_at", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["-judged_at"], name="outcome_newest")]},
        ),
        migrations.CreateModel(
            name="Recalibration",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="recalibration",
                        serialize=False,
                        to="accounts.project",
                    ),
                ),
                ("is_on", models.BooleanField(default=True)),
                ("stamp", models.PositiveIntegerField(default=0)),
            ],
        ),
    ]
