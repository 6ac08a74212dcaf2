"""A trigger that refuses to change what was published. It can be withdrawn, once."""

from django.db import migrations

CREATE = """
CREATE FUNCTION reports_refuse_publication_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(NEW) - 'withdrawn_at' - 'withdrawn_by_id') IS DISTINCT FROM
       (to_jsonb(OLD) - 'withdrawn_at' - 'withdrawn_by_id')
        OR OLD.withdrawn_at IS NOT NULL
    THEN
        RAISE EXCEPTION 'version % of report % is published and never changes', OLD.number, OLD.report_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER reports_publication_immutable BEFORE UPDATE ON reports_publication
    FOR EACH ROW EXECUTE FUNCTION reports_refuse_publication_update();
"""
DROP = """
DROP TRIGGER reports_publication_immutable ON reports_publication;
DROP FUNCTION reports_refuse_publication_update();
"""


class Migration(migrations.Migration):
    dependencies = [("reports", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]
