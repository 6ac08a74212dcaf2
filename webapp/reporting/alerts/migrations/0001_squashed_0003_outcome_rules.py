import uuid

import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("alerts", "0001_initial"),
        ("alerts", "0002_rules_channels_and_outbox"),
        ("alerts", "0003_outcome_rules"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        ("runs", "0001_squashed_0012_dispatch_origin"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Watch",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="alert_watch",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("version", models.BigIntegerField()),
                ("newest_fit", models.BigIntegerField(default=0)),
                ("checked_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("zone", models.CharField(default="UTC", max_length=64)),
                ("quiet_from", models.TimeField(null=True)),
                ("quiet_to", models.TimeField(null=True)),
                ("quiet_days", models.JSONField(default=list)),
                (
                    "kind",
                    models.CharField(
                        choices=[("mail", "Mail"), ("webhook", "Webhook"), ("slack", "Slack")], max_length=10
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                ("shown", models.CharField(max_length=254)),
                ("sealed_address", models.TextField()),
                ("sealed_secret", models.TextField(blank=True)),
                ("critical_through", models.BooleanField(default=False)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("last_error", models.CharField(blank=True, max_length=300)),
                ("paused_at", models.DateTimeField(null=True)),
                ("tested_at", models.DateTimeField(null=True)),
                ("sent_at", models.DateTimeField(null=True)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_channels",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_channels",
                        to="accounts.project",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("default_key", models.CharField(blank=True, max_length=40)),
                ("name", models.CharField(max_length=80)),
                (
                    "on",
                    models.CharField(
                        choices=[
                            ("state", "State"),
                            ("metric", "Metric"),
                            ("alarm", "Alarm"),
                            ("fit", "Fit"),
                            ("budget", "Budget"),
                            ("outcome", "Outcome"),
                            ("prediction", "Prediction"),
                        ],
                        max_length=12,
                    ),
                ),
                ("condition", models.JSONField(default=dict)),
                ("runs", models.CharField(blank=True, max_length=1000)),
                ("to_page", models.BooleanField(default=True)),
                ("critical", models.BooleanField(default=False)),
                ("cooldown_minutes", models.PositiveIntegerField(default=0)),
                ("enabled", models.BooleanField(default=True)),
                ("since", models.DateTimeField()),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_rules",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_rules",
                        to="accounts.project",
                    ),
                ),
                ("channels", models.ManyToManyField(related_name="rules", to="alerts.channel")),
            ],
            options={
                "ordering": ["created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Firing",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rule_name", models.CharField(max_length=80)),
                ("episode", models.CharField(max_length=160)),
                ("topic", models.CharField(blank=True, max_length=80)),
                ("mark", models.FloatField(null=True)),
                ("text", models.CharField(max_length=300)),
                ("url", models.CharField(max_length=300)),
                ("critical", models.BooleanField(default=False)),
                ("muted", models.BooleanField(default=False)),
                ("happened_at", models.DateTimeField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="firings",
                        to="accounts.project",
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="firings",
                        to="alerts.alertrule",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="firings",
                        to="runs.run",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("sent", "Sent"),
                            ("failed", "Failed"),
                            ("dropped", "Dropped"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("held", models.BooleanField(default=False)),
                ("batch", models.UUIDField(null=True)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("next_at", models.DateTimeField()),
                ("claimed_until", models.DateTimeField(null=True)),
                ("last_error", models.CharField(blank=True, max_length=300)),
                ("last_status", models.PositiveIntegerField(null=True)),
                ("sent_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="alerts.channel",
                    ),
                ),
                (
                    "firing",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="alerts.firing",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                ("text", models.CharField(max_length=300)),
                ("url", models.CharField(max_length=300)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("read_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="accounts.project"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Preferences",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("zone", models.CharField(default="UTC", max_length=64)),
                ("quiet_from", models.TimeField(null=True)),
                ("quiet_to", models.TimeField(null=True)),
                ("quiet_days", models.JSONField(default=list)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_preferences",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("owner__isnull", False), ("project", None)),
                    models.Q(("owner", None), ("project__isnull", False)),
                    _connector="OR",
                ),
                name="alert_channel_has_one_owner",
            ),
        ),
        migrations.AddConstraint(
            model_name="alertrule",
            constraint=models.UniqueConstraint(
                models.F("project"),
                models.F("owner"),
                django.db.models.functions.text.Lower("name"),
                name="alert_rule_name_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="alertrule",
            constraint=models.UniqueConstraint(
                condition=models.Q(("default_key", ""), _negated=True),
                fields=("project", "owner", "default_key"),
                name="alert_default_once",
            ),
        ),
        migrations.AddIndex(
            model_name="firing",
            index=models.Index(fields=["project", "-id"], name="firings_newest"),
        ),
        migrations.AddConstraint(
            model_name="firing",
            constraint=models.UniqueConstraint(fields=("rule", "run", "episode"), name="fired_once"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "waiting")), fields=["next_at"], name="deliveries_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("firing", "channel"), name="delivered_once"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["user", "-id"], name="notices_newest"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(condition=models.Q(("read_at", None)), fields=["user"], name="notices_unread"),
        ),
    ]
