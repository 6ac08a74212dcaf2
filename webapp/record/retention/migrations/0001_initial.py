import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        ("runs", "0001_squashed_0012_dispatch_origin"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="DiskWatch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("free", models.BigIntegerField()),
                ("total", models.BigIntegerField()),
                ("low_since", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Looked",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="retention_looked",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("at", models.DateTimeField()),
                ("is_empty", models.BooleanField(default=False)),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="retention_looked_at")],
            },
        ),
        migrations.CreateModel(
            name="RetentionPolicy",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="retention_policy",
                        serialize=False,
                        to="accounts.project",
                    ),
                ),
                ("enabled", models.BooleanField(default=False)),
                ("keep_newest", models.PositiveIntegerField(default=2)),
                ("checkpoint_days", models.PositiveIntegerField(default=30)),
                ("log_days", models.PositiveIntegerField(default=90)),
                ("under_pressure", models.BooleanField(default=True)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                (
                    "changed_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
    ]
