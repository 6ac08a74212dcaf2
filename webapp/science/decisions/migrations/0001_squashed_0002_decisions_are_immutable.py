import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.record.runs.models

# Triggers that refuse to change the log. Only a deleted run, or its fit, may be forgotten by a subject.
CREATE = """
CREATE FUNCTION decisions_refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the decision log never changes: add a note, or revise the decision by a new one'
        USING ERRCODE = 'integrity_constraint_violation';
END
$$;
CREATE FUNCTION decisions_refuse_subject_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(NEW) - 'run_id' - 'fit_id') IS DISTINCT FROM (to_jsonb(OLD) - 'run_id' - 'fit_id')
        OR (NEW.run_id IS NOT NULL AND NEW.run_id IS DISTINCT FROM OLD.run_id)
        OR (NEW.fit_id IS NOT NULL AND NEW.fit_id IS DISTINCT FROM OLD.fit_id)
    THEN
        RAISE EXCEPTION 'the decision log never changes'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER decisions_decision_immutable BEFORE UPDATE ON decisions_decision
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse_update();
CREATE TRIGGER decisions_note_immutable BEFORE UPDATE ON decisions_note
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse_update();
CREATE TRIGGER decisions_subject_immutable BEFORE UPDATE ON decisions_subject
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse_subject_update();
"""


class Migration(migrations.Migration):
    replaces = [("decisions", "0001_initial"), ("decisions", "0002_decisions_are_immutable")]

    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        ("curves", "0001_squashed_0005_fit_superseded"),
        ("predictions", "0001_squashed_0003_claims_never_change"),
        ("recipes", "0001_squashed_0002_revisions_are_immutable"),
        ("runs", "0001_squashed_0012_dispatch_origin"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Decision",
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
                    "kind",
                    models.CharField(
                        choices=[("continue", "Continue"), ("stop", "Stop"), ("switch", "Switch")],
                        max_length=10,
                    ),
                ),
                ("decided_at", models.DateTimeField(auto_now_add=True)),
                ("reason", models.TextField()),
                ("key", models.CharField(max_length=64, null=True)),
                (
                    "decided_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="decisions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "prediction",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="decisions",
                        to="predictions.prediction",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="decisions",
                        to="accounts.project",
                    ),
                ),
                (
                    "revises",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="revised_by",
                        to="decisions.decision",
                    ),
                ),
                (
                    "to_revision",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="switched_to",
                        to="recipes.revision",
                    ),
                ),
            ],
            options={
                "ordering": ["-decided_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Note",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "decision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notes",
                        to="decisions.decision",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at", "pk"],
            },
        ),
        migrations.CreateModel(
            name="Subject",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveSmallIntegerField()),
                ("part", models.CharField(choices=[("of", "Of"), ("to", "To")], default="of", max_length=2)),
                ("run_key", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=140)),
                ("recipe", models.CharField(blank=True, max_length=140)),
                ("task", models.CharField(max_length=80)),
                ("model", models.CharField(max_length=200)),
                ("state", models.JSONField()),
                (
                    "decision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="subjects",
                        to="decisions.decision",
                    ),
                ),
                (
                    "fit",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="curves.fit",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="decided",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
            },
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["project", "-decided_at", "id"], name="decisions_newest"),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(fields=("project", "key"), name="decision_once"),
        ),
        migrations.AddConstraint(
            model_name="subject",
            constraint=models.UniqueConstraint(fields=("decision", "position"), name="subject_place_unique"),
        ),
        migrations.RunSQL(CREATE),
    ]
