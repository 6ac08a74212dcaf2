import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("runs", "0013_effective_points_notes_and_shares"),
    ]

    operations = [
        migrations.CreateModel(
            name="SampleFile",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=5)),
                ("step", models.BigIntegerField()),
                ("attempt", models.PositiveIntegerField()),
                ("rows", models.PositiveIntegerField()),
                ("left_out", models.PositiveIntegerField(default=0)),
                ("size", models.BigIntegerField()),
                ("prompts", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now=True)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="samples",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "ordering": ["kind", "step"],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "kind", "step"), name="sample_file_once")
                ],
            },
        ),
    ]
