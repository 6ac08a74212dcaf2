"""Triggers that keep a claim as it was made: nothing of it changes but the withdrawal, once; no verdict and no outcome
changes at all; and none of them is deleted unless its whole project is.

Deletions are judged when the transaction commits (a constraint trigger): the rows of a project go before the project.
"""

from django.db import migrations

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
DROP = """
DROP TRIGGER predictions_prediction_frozen ON predictions_prediction;
DROP TRIGGER predictions_review_frozen ON predictions_review;
DROP TRIGGER predictions_outcome_frozen ON predictions_outcome;
DROP TRIGGER predictions_prediction_kept ON predictions_prediction;
DROP TRIGGER predictions_review_kept ON predictions_review;
DROP TRIGGER predictions_outcome_kept ON predictions_outcome;
DROP FUNCTION predictions_refuse_prediction_update();
DROP FUNCTION predictions_refuse_update();
DROP FUNCTION predictions_refuse_prediction_delete();
DROP FUNCTION predictions_refuse_delete();
"""


class Migration(migrations.Migration):
    dependencies = [("predictions", "0002_keys_pendings_and_known_points")]
    operations = [migrations.RunSQL(CREATE, DROP)]
