import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# Rows of the audit log are added and never changed: the database itself refuses it, whoever asks.
# A person, project or organisation that is deleted is forgotten by its rows (SET NULL); their names stay in them.
ADD = """
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE'
        AND to_jsonb(NEW) - ARRAY['organisation_id', 'project_id', 'actor_id']
            = to_jsonb(OLD) - ARRAY['organisation_id', 'project_id', 'actor_id']
        AND (NEW.organisation_id IS NULL OR NEW.organisation_id IS NOT DISTINCT FROM OLD.organisation_id)
        AND (NEW.project_id IS NULL OR NEW.project_id IS NOT DISTINCT FROM OLD.project_id)
        AND (NEW.actor_id IS NULL OR NEW.actor_id IS NOT DISTINCT FROM OLD.actor_id)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the audit log is append-only: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit_event
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only();
"""


class Migration(migrations.Migration):
    replaces = [("audit", "0001_initial"), ("audit", "0002_append_only")]

    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("actor_name", models.CharField(max_length=150)),
                ("verb", models.CharField(max_length=60)),
                ("object_kind", models.CharField(max_length=40)),
                ("object_id", models.CharField(max_length=64)),
                ("object_name", models.CharField(max_length=200)),
                ("detail", models.JSONField(default=dict)),
                ("address", models.GenericIPAddressField(null=True)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "actor",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to="accounts.organisation",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to="accounts.project",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["project", "-at", "-id"], name="audit_newest"),
                    models.Index(fields=["organisation", "-at", "-id"], name="audit_newest_of_organisation"),
                    models.Index(fields=["project", "verb", "-at", "-id"], name="audit_by_verb"),
                    models.Index(fields=["project", "actor_name", "-at", "-id"], name="audit_by_actor"),
                    models.Index(fields=["project", "object_id", "-at", "-id"], name="audit_by_object"),
                ],
            },
        ),
        migrations.RunSQL(ADD),
    ]
