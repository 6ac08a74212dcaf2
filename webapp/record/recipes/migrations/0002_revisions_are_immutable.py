"""A trigger that refuses to change a revision. Only its author may be forgotten (a deleted account)."""

from django.db import migrations

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
DROP = """
DROP TRIGGER recipes_revision_immutable ON recipes_revision;
DROP FUNCTION recipes_refuse_revision_update();
"""


class Migration(migrations.Migration):
    dependencies = [("recipes", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]
