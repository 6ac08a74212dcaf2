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
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["organisation", "-id"], name="audit_newest_of_organisation"),
        ),
        migrations.AddIndex(
            model_name="event", index=models.Index(fields=["project", "verb", "-id"], name="audit_by_verb")
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["project", "actor_name", "-id"], name="audit_by_actor"),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["project", "object_id", "-id"], name="audit_by_object"),
        ),
        migrations.AddIndex(
            model_name="event", index=models.Index(fields=["project", "at"], name="audit_by_time")
        ),
        migrations.RunSQL(ADD, REMOVE),
    ]
