import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.record.runs.models

# Triggers that keep a claim as it was made: nothing of it changes but the withdrawal, once; no verdict and no outcome
# changes at all; and none of them is deleted unless its whole project is.
#
# Deletions are judged when the transaction commits (a constraint trigger): the rows of a project go before the project.
CREATE = """
CREATE FUNCTION predictions_refuse_prediction_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(NEW) - 'withdrawn_at' - 'withdrawn_reason')
            IS DISTINCT FROM (to_jsonb(OLD) - 'withdrawn_at' - 'withdrawn_reason')
        OR OLD.withdrawn_at IS NOT NULL OR NEW.withdrawn_at IS NULL OR NEW.withdrawn_reason = ''
        OR EXISTS (SELECT 1 FROM predictions_outcome WHERE prediction_id = OLD.id)
    THEN
        RAISE EXCEPTION 'prediction % never changes; it can be withdrawn once, before it is scored', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER predictions_prediction_frozen BEFORE UPDATE ON predictions_prediction
    FOR EACH ROW EXECUTE FUNCTION predictions_refuse_prediction_update();

CREATE FUNCTION predictions_refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'row % of % never changes', OLD.id, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END
$$;
CREATE TRIGGER predictions_review_frozen BEFORE UPDATE ON predictions_review
    FOR EACH ROW EXECUTE FUNCTION predictions_refuse_update();
CREATE TRIGGER predictions_outcome_frozen BEFORE UPDATE ON predictions_outcome
    FOR EACH ROW EXECUTE FUNCTION predictions_refuse_update();

CREATE FUNCTION predictions_refuse_prediction_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM accounts_project WHERE id = OLD.project_id) THEN
        RAISE EXCEPTION 'prediction % is never deleted; withdraw it', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER predictions_prediction_kept AFTER DELETE ON predictions_prediction
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION predictions_refuse_prediction_delete();

CREATE FUNCTION predictions_refuse_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM predictions_prediction WHERE id = OLD.prediction_id) THEN
        RAISE EXCEPTION 'row % of % is never deleted', OLD.id, TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER predictions_review_kept AFTER DELETE ON predictions_review
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION predictions_refuse_delete();
CREATE CONSTRAINT TRIGGER predictions_outcome_kept AFTER DELETE ON predictions_outcome
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION predictions_refuse_delete();
"""


class Migration(migrations.Migration):
    replaces = [
        ("predictions", "0001_initial"),
        ("predictions", "0002_keys_pendings_and_known_points"),
        ("predictions", "0003_claims_never_change"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        ("curves", "0001_squashed_0005_fit_superseded"),
        ("recipes", "0001_squashed_0002_revisions_are_immutable"),
        ("runs", "0001_squashed_0012_dispatch_origin"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Prediction",
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
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("task", models.CharField(max_length=80)),
                ("model", models.CharField(max_length=200)),
                ("frozen", models.JSONField()),
                ("metric", models.CharField(max_length=250)),
                ("x", models.CharField(max_length=20)),
                ("window_lo", models.FloatField(null=True)),
                ("cutoff", models.FloatField()),
                ("data_digest", models.CharField(max_length=64)),
                (
                    "statement",
                    models.CharField(
                        choices=[("pass_rate", "Pass Rate"), ("ceiling", "Ceiling"), ("passes", "Passes")],
                        max_length=12,
                    ),
                ),
                ("target", models.FloatField()),
                ("level", models.FloatField()),
                ("value", models.FloatField(null=True)),
                ("lo", models.FloatField(null=True)),
                ("hi", models.FloatField(null=True)),
                ("rival_frozen", models.JSONField(null=True)),
                ("probability", models.FloatField(null=True)),
                ("reasons", models.TextField()),
                ("withdrawn_at", models.DateTimeField(null=True)),
                ("withdrawn_reason", models.TextField(blank=True)),
                ("known_until", models.FloatField()),
                ("target_hours", models.FloatField(null=True)),
                ("key", models.CharField(max_length=200, null=True)),
                ("body_digest", models.CharField(max_length=64)),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="predictions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "fit",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="predictions",
                        to="curves.fit",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="predictions",
                        to="accounts.project",
                    ),
                ),
                (
                    "replaces",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="replaced_by",
                        to="predictions.prediction",
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="predictions",
                        to="recipes.revision",
                    ),
                ),
                (
                    "rival",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="rival_predictions",
                        to="runs.run",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="predictions",
                        to="runs.run",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Pending",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("reason", models.TextField()),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "prediction",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pendings",
                        to="predictions.prediction",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Outcome",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("actual", models.FloatField(null=True)),
                ("actual_lo", models.FloatField(null=True)),
                ("actual_hi", models.FloatField(null=True)),
                ("error", models.FloatField(null=True)),
                ("inside", models.BooleanField(null=True)),
                ("interval_score", models.FloatField(null=True)),
                ("happened", models.BooleanField(null=True)),
                ("probability_score", models.FloatField(null=True)),
                ("log_score", models.FloatField(null=True)),
                ("how", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="prediction_outcomes",
                        to="runs.run",
                    ),
                ),
                (
                    "prediction",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="outcomes",
                        to="predictions.prediction",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.TextField()),
                ("anchor_x", models.FloatField(null=True)),
                ("anchor_y", models.FloatField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("edited_at", models.DateTimeField(null=True)),
                ("earlier", models.JSONField(default=list)),
                ("resolved_at", models.DateTimeField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "mentions",
                    models.ManyToManyField(related_name="mentioned_in", to=settings.AUTH_USER_MODEL),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="replies",
                        to="predictions.comment",
                    ),
                ),
                (
                    "resolved_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "prediction",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="comments",
                        to="predictions.prediction",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Review",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "verdict",
                    models.CharField(
                        choices=[("approved", "Approved"), ("changes", "Changes"), ("rejected", "Rejected")],
                        max_length=10,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "prediction",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reviews",
                        to="predictions.prediction",
                    ),
                ),
                (
                    "reviewer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="reviews",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ReviewRequest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("asked_at", models.DateTimeField(auto_now_add=True)),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "prediction",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="requests",
                        to="predictions.prediction",
                    ),
                ),
                (
                    "reviewer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="review_requests",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="prediction",
            index=models.Index(fields=["project", "-created_at"], name="predictions_newest"),
        ),
        migrations.AddIndex(
            model_name="prediction",
            index=models.Index(fields=["revision", "task", "model"], name="predictions_of_recipe"),
        ),
        migrations.AddConstraint(
            model_name="prediction",
            constraint=models.UniqueConstraint(
                fields=("project", "author", "key"), name="prediction_key_once"
            ),
        ),
        migrations.AlterUniqueTogether(
            name="pending",
            unique_together={("prediction", "run")},
        ),
        migrations.AlterUniqueTogether(
            name="outcome",
            unique_together={("prediction", "run")},
        ),
        migrations.AlterUniqueTogether(
            name="reviewrequest",
            unique_together={("prediction", "reviewer")},
        ),
        migrations.RunSQL(CREATE),
    ]
