import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models

import webapp.record.runs.models

# The few records that hold a value which was not finite; Django's indexes cannot say this condition.
NOT_FINITE = """
CREATE INDEX record_not_finite ON runs_record (run_id) WHERE metrics @? '$.* ? (@ == null)'
"""
# Rows that are written past Django (bulk loads) need not know of tags.
DEFAULT_TAGS = "ALTER TABLE runs_run ALTER COLUMN tags SET DEFAULT '[]'"
# Small charts of long runs show every 8th, 16th, ... step: an index an eighth as large as one of all points would be.
# Django's indexes cannot say this condition.
EVERY_EIGHTH = """
CREATE INDEX point_every_8 ON runs_point (series_id, step) WHERE step % 8 = 0
"""
# Index-only reads need pages that a vacuum has seen: soon after they were filled, not at a fifth of the table.
VACUUM_SOON = """
ALTER TABLE runs_point SET (autovacuum_vacuum_insert_scale_factor = 0.01, autovacuum_vacuum_insert_threshold = 100000)
"""


class Migration(migrations.Migration):
    replaces = [
        ("runs", "0001_initial"),
        ("runs", "0002_attempt_device_and_lean_indexes"),
        ("runs", "0003_points_without_constraint"),
        ("runs", "0004_alarms_wanted_at"),
        ("runs", "0005_summaries_tags_and_bulk_actions"),
        ("runs", "0006_points_of_every_eighth_step"),
        ("runs", "0007_index_of_shown_runs"),
        ("runs", "0008_lifecycle"),
        ("runs", "0009_meaning_of_a_tracked_run"),
        ("runs", "0010_points_by_index_alone"),
        ("runs", "0011_records_in_order_of_arrival"),
        ("runs", "0012_dispatch_origin"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        ("recipes", "0001_squashed_0002_revisions_are_immutable"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ProjectQueue",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="queue",
                        serialize=False,
                        to="accounts.project",
                    ),
                ),
                ("most_at_work", models.PositiveIntegerField(null=True)),
                ("quota_hours", models.FloatField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Run",
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
                (
                    "origin",
                    models.CharField(
                        choices=[("launched", "Launched"), ("tracked", "Tracked")],
                        default="launched",
                        max_length=10,
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("task", models.CharField(max_length=80)),
                ("model", models.CharField(max_length=200)),
                ("seed", models.PositiveIntegerField(default=0)),
                ("budget_hours", models.FloatField(null=True)),
                ("config", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("queued", "Queued"),
                            ("submitting", "Submitting"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("stopping", "Stopping"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("lost", "Lost"),
                        ],
                        default="queued",
                        max_length=12,
                    ),
                ),
                ("state_reason", models.TextField(blank=True)),
                ("attempt_number", models.PositiveIntegerField(default=1)),
                ("version", models.BigIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("refit_wanted_at", models.DateTimeField(null=True)),
                ("alarms_wanted_at", models.DateTimeField(null=True)),
                ("tags", models.JSONField(default=list)),
                ("archived_at", models.DateTimeField(null=True)),
                (
                    "priority",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "low"), (1, "normal"), (2, "high")], default=1
                    ),
                ),
                ("retries", models.PositiveSmallIntegerField(default=0)),
                ("retry_limit", models.PositiveSmallIntegerField(null=True)),
                ("meaning", models.JSONField(default=dict)),
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
                        related_name="runs",
                        to="accounts.project",
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="recipes.revision",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Summary",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="summary",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("used_hours", models.FloatField(null=True)),
                ("used_attempt", models.PositiveIntegerField(default=0)),
                ("used_seq", models.BigIntegerField(default=-1)),
                ("pass_rate", models.FloatField(null=True)),
                ("pass_rate_stderr", models.FloatField(null=True)),
                ("pass_rate_attempt", models.PositiveIntegerField(default=0)),
                ("pass_rate_seq", models.BigIntegerField(default=-1)),
                ("spark", models.JSONField(default=list)),
                ("fit_status", models.CharField(blank=True, max_length=20)),
                ("level", models.FloatField(null=True)),
                ("ceiling", models.FloatField(null=True)),
                ("ceiling_lo", models.FloatField(null=True)),
                ("ceiling_hi", models.FloatField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Record",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                ("seq", models.BigIntegerField()),
                ("step", models.BigIntegerField()),
                ("time", models.DateTimeField()),
                ("compute", models.JSONField()),
                ("metrics", models.JSONField()),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="records",
                        to="runs.run",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=200)),
                ("body_digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "project",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="accounts.project"),
                ),
                ("run", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="runs.run")),
            ],
        ),
        migrations.CreateModel(
            name="Dispatch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[("submit", "Submit"), ("stop", "Stop"), ("budget", "Budget")], max_length=10
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("done_at", models.DateTimeField(null=True)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("error", models.TextField(blank=True)),
                ("request_id", models.CharField(blank=True, db_default="", default="", max_length=64)),
                ("traceparent", models.CharField(blank=True, db_default="", default="", max_length=55)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="dispatches", to="runs.run"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("submission_id", models.CharField(max_length=80, unique=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("queued", "Queued"),
                            ("submitting", "Submitting"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("stopping", "Stopping"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("lost", "Lost"),
                        ],
                        default="queued",
                        max_length=12,
                    ),
                ),
                ("resumed_from_step", models.BigIntegerField(null=True)),
                ("log_tail", models.TextField(blank=True)),
                ("message", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("device", models.JSONField(null=True)),
                (
                    "failure",
                    models.CharField(
                        blank=True,
                        choices=[("infrastructure", "Infrastructure"), ("recipe", "Recipe")],
                        max_length=16,
                    ),
                ),
                ("log_read_at", models.DateTimeField(null=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="runs.run"
                    ),
                ),
            ],
            options={
                "ordering": ["run_id", "number"],
            },
        ),
        migrations.CreateModel(
            name="Series",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.CharField(max_length=250)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="series",
                        to="runs.run",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Point",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                ("seq", models.BigIntegerField()),
                ("step", models.BigIntegerField()),
                ("time", models.DateTimeField()),
                ("device_hours", models.FloatField(null=True)),
                ("flops", models.FloatField(null=True)),
                ("tokens", models.FloatField(null=True)),
                ("value", models.FloatField()),
                ("stderr", models.FloatField(null=True)),
                (
                    "series",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="points",
                        to="runs.series",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Transition",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                (
                    "from_state",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("draft", "Draft"),
                            ("queued", "Queued"),
                            ("submitting", "Submitting"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("stopping", "Stopping"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("lost", "Lost"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "to_state",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("queued", "Queued"),
                            ("submitting", "Submitting"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("stopping", "Stopping"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("lost", "Lost"),
                        ],
                        max_length=12,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("part", models.CharField(blank=True, max_length=20)),
                ("reason", models.TextField(blank=True)),
                (
                    "actor",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="transitions",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="BulkAction",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64)),
                ("action", models.CharField(max_length=12)),
                ("tag", models.CharField(blank=True, max_length=40)),
                ("outcomes", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "project",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="accounts.project"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("project", "key"), name="bulk_action_once")],
            },
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["project", "-created_at", "id"], name="run_newest_first"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["state"], name="run_state"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["project", "archived_at", "state"], name="run_shown"),
        ),
        migrations.AddIndex(
            model_name="record",
            index=models.Index(
                models.F("run"),
                django.db.models.expressions.CombinedExpression(models.F("id"), "+", models.Value(0)),
                name="records_arrival",
            ),
        ),
        migrations.AddConstraint(
            model_name="record",
            constraint=models.UniqueConstraint(fields=("run", "attempt", "seq"), name="record_once"),
        ),
        migrations.AddConstraint(
            model_name="idempotencykey",
            constraint=models.UniqueConstraint(fields=("project", "key"), name="idempotency_key_unique"),
        ),
        migrations.AddConstraint(
            model_name="dispatch",
            constraint=models.UniqueConstraint(fields=("run", "attempt", "kind"), name="dispatch_once"),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(fields=("run", "number"), name="attempt_number_unique"),
        ),
        migrations.AddConstraint(
            model_name="series",
            constraint=models.UniqueConstraint(fields=("run", "metric"), name="series_unique"),
        ),
        migrations.AddConstraint(
            model_name="point",
            constraint=models.UniqueConstraint(
                fields=("series", "attempt", "seq"), include=("step", "value"), name="point_once"
            ),
        ),
        migrations.AddIndex(
            model_name="transition",
            index=models.Index(fields=["run", "id"], name="transition_of_run"),
        ),
        migrations.RunSQL(NOT_FINITE),
        migrations.RunSQL(DEFAULT_TAGS),
        migrations.RunSQL(EVERY_EIGHTH),
        migrations.RunSQL(VACUUM_SOON),
    ]
