import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("curves", "0003_fit_outlook"),
        ("runs", "0006_points_of_every_eighth_step"),
    ]

    operations = [
        migrations.CreateModel(
            name="KeptFigure",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="kept_figure",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("key", models.CharField(max_length=80)),
                ("said", models.JSONField()),
                ("made_at", models.DateTimeField(auto_now=True)),
            ],
        ),
    ]
