"""Triggers that refuse to change the log. Only a deleted run, or its fit, may be forgotten by a subject."""

from django.db import migrations

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
DROP = """
DROP TRIGGER decisions_decision_immutable ON decisions_decision;
DROP TRIGGER decisions_note_immutable ON decisions_note;
DROP TRIGGER decisions_subject_immutable ON decisions_subject;
DROP FUNCTION decisions_refuse_update();
DROP FUNCTION decisions_refuse_subject_update();
"""


class Migration(migrations.Migration):
    dependencies = [("decisions", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]
