import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# A trigger that refuses to change a revision. Only its author may be forgotten (a deleted account).
CREATE = """
CREATE FUNCTION recipes_refuse_revision_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.recipe_id, NEW.number, NEW.config, NEW.content_hash, NEW.message, NEW.created_at)
        IS DISTINCT FROM
       (OLD.id, OLD.recipe_id, OLD.number, OLD.config, OLD.content_hash, OLD.message, OLD.created_at)
       OR (NEW.created_by_id IS NOT NULL AND NEW.created_by_id IS DISTINCT FROM OLD.created_by_id)
    THEN
        RAISE EXCEPTION 'revision % of recipe % never changes; add a new revision', OLD.number, OLD.recipe_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER recipes_revision_immutable BEFORE UPDATE ON recipes_revision
    FOR EACH ROW EXECUTE FUNCTION recipes_refuse_revision_update();
"""


class Migration(migrations.Migration):
    replaces = [("recipes", "0001_initial"), ("recipes", "0002_revisions_are_immutable")]

    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Recipe",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(max_length=80)),
                ("name", models.CharField(max_length=100)),
                ("description", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="recipes",
                        to="accounts.project",
                    ),
                ),
            ],
            options={
                "ordering": ["slug"],
            },
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("config", models.JSONField()),
                ("content_hash", models.CharField(max_length=64)),
                ("message", models.CharField(blank=True, max_length=300)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "recipe",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="revisions",
                        to="recipes.recipe",
                    ),
                ),
            ],
            options={
                "ordering": ["recipe_id", "number"],
            },
        ),
        migrations.AddConstraint(
            model_name="recipe",
            constraint=models.UniqueConstraint(
                fields=("project", "slug"), name="recipe_slug_unique_in_project"
            ),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(fields=("recipe", "number"), name="revision_number_unique"),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(
                fields=("recipe", "content_hash"), name="revision_content_unique"
            ),
        ),
        migrations.RunSQL(CREATE),
    ]
