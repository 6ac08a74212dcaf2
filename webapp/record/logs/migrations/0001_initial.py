import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("runs", "0001_squashed_0012_dispatch_origin"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobLog",
            fields=[
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="kept_log",
                        serialize=False,
                        to="runs.attempt",
                    ),
                ),
                ("read_to", models.BigIntegerField(default=0)),
                ("lines", models.BigIntegerField(default=0)),
                ("size", models.BigIntegerField(default=0)),
                ("head_lines", models.BigIntegerField(null=True)),
                ("left_out_lines", models.BigIntegerField(default=0)),
                ("left_out_size", models.BigIntegerField(default=0)),
                ("closed_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="LogChunk",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first_line", models.BigIntegerField()),
                ("lines", models.PositiveIntegerField()),
                ("size", models.PositiveIntegerField()),
                ("text", models.TextField()),
                (
                    "log",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="chunks",
                        to="logs.joblog",
                    ),
                ),
            ],
            options={
                "ordering": ["log_id", "first_line"],
                "constraints": [models.UniqueConstraint(fields=("log", "first_line"), name="log_chunk_once")],
            },
        ),
    ]
