import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.record.runs.models


class Migration(migrations.Migration):
    replaces = [("studies", "0001_initial"), ("studies", "0002_study_archived_at")]

    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        ("recipes", "0001_squashed_0002_revisions_are_immutable"),
        ("runs", "0001_squashed_0012_dispatch_origin"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Study",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=webapp.record.runs.models.new_run_id,
                        editable=False,
                        max_length=16,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                (
                    "kind",
                    models.CharField(
                        choices=[("leave_one_out", "Leave-one-out"), ("axis", "One axis")],
                        default="leave_one_out",
                        max_length=20,
                    ),
                ),
                ("task", models.CharField(max_length=80)),
                ("model", models.CharField(max_length=200)),
                ("seeds", models.JSONField(default=list)),
                ("budget_hours", models.FloatField()),
                ("version", models.BigIntegerField(default=1)),
                ("idempotency_key", models.CharField(max_length=200, null=True)),
                ("body_digest", models.CharField(blank=True, max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("archived_at", models.DateTimeField(null=True)),
                (
                    "base",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="studies",
                        to="recipes.revision",
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="studies",
                        to="accounts.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Arm",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("axis", models.CharField(blank=True, max_length=120)),
                ("axis_title", models.CharField(blank=True, max_length=120)),
                ("value", models.CharField(blank=True, max_length=200)),
                ("number", models.FloatField(null=True)),
                ("label", models.CharField(max_length=120)),
                ("sentence", models.TextField(blank=True)),
                ("task", models.CharField(max_length=80)),
                ("model", models.CharField(max_length=200)),
                ("by_hand", models.BooleanField(default=False)),
                (
                    "revision",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="arms",
                        to="recipes.revision",
                    ),
                ),
                (
                    "study",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="arms",
                        to="studies.study",
                    ),
                ),
            ],
            options={
                "ordering": ["study_id", "position"],
            },
        ),
        migrations.CreateModel(
            name="StudyRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "arm",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="members", to="studies.arm"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="studies", to="runs.run"
                    ),
                ),
                (
                    "study",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="members",
                        to="studies.study",
                    ),
                ),
            ],
            options={
                "ordering": ["study_id", "id"],
            },
        ),
        migrations.AddIndex(
            model_name="study",
            index=models.Index(fields=["project", "-created_at", "id"], name="study_newest_first"),
        ),
        migrations.AddConstraint(
            model_name="study",
            constraint=models.UniqueConstraint(
                fields=("project", "idempotency_key"), name="study_key_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="arm",
            constraint=models.UniqueConstraint(fields=("study", "position"), name="arm_position_unique"),
        ),
        migrations.AddConstraint(
            model_name="studyrun",
            constraint=models.UniqueConstraint(fields=("study", "run"), name="study_run_once"),
        ),
    ]
