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
            name="RunPolicy",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="action_policy",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("actions", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="ProjectPolicy",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="action_policy",
                        serialize=False,
                        to="accounts.project",
                    ),
                ),
                ("actions", models.JSONField(default=dict)),
                ("advice_delta", models.FloatField(default=0.01)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                (
                    "changed_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PolicyAction",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                ("kind", models.CharField(max_length=20)),
                ("action", models.CharField(max_length=10)),
                ("by_run", models.BooleanField()),
                ("reason", models.CharField(max_length=1000)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="policy_actions",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "attempt", "kind", "action"), name="policy_acted_once"
                    )
                ],
            },
        ),
    ]
