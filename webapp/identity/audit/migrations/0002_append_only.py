"""Rows of the audit log are added and never changed: the database itself refuses it, whoever asks."""

from django.db import migrations, models

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
REMOVE = """
DROP TRIGGER audit_is_append_only ON audit_event;
DROP FUNCTION audit_is_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [
        migrations.RemoveIndex(model_name="event", name="audit_newest"),
        *(
            migrations.AddIndex(
                model_name="event", index=models.Index(fields=[*fields, "-at", "-id"], name=f"audit_{name}")
            )
            for name, fields in (
                ("newest", ["project"]),
                ("newest_of_organisation", ["organisation"]),
                ("by_verb", ["project", "verb"]),
                ("by_actor", ["project", "actor_name"]),
                ("by_object", ["project", "object_id"]),
            )
        ),
        migrations.RunSQL(ADD, REMOVE),
    ]
