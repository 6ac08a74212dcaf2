"""One table of entries in place of decisions with subjects and notes, filled from these.

A decision of several runs becomes an entry for each, the first with its id; a note becomes an entry of its own. What
an entry does not have (the prediction that a decision rests on, the one that it revises) is written below its reason.

The three tables stay for a web server of the release before, which goes on during an upgrade: what it stores is carried
over as well. They refer to nothing any more, so that runs and projects can be deleted. The release after drops them.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.record.runs.models

LET_GO = """
DO $$
DECLARE
    reference record;
    old oid[] := ARRAY['decisions_decision'::regclass, 'decisions_subject'::regclass, 'decisions_note'::regclass];
BEGIN
    FOR reference IN SELECT conrelid::regclass AS of_table, conname AS name FROM pg_constraint
        WHERE contype = 'f' AND conrelid = ANY(old) AND NOT confrelid = ANY(old)
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', reference.of_table, reference.name);
    END LOOP;
END
$$;
"""
CARRY = """
CREATE FUNCTION decisions_carry_subject(subject decisions_subject) RETURNS void LANGUAGE sql AS $$
    INSERT INTO decisions_entry
        (id, project_id, kind, about, object_id, name, "to", reason, state, decided_by_id, decided_at, key)
    SELECT
        CASE WHEN subject.position = 0 THEN d.id ELSE substr(md5(d.id || ' ' || subject.position), 1, 10) END,
        d.project_id, d.kind, 'run', subject.run_key, subject.name,
        coalesce(
            (SELECT s.name FROM decisions_subject s WHERE s.decision_id = d.id AND s.part = 'to' LIMIT 1),
            (SELECT r.name || ' rev ' || v.number FROM recipes_revision v JOIN recipes_recipe r ON r.id = v.recipe_id
                WHERE v.id = d.to_revision_id),
            ''),
        d.reason || coalesce(E'\n\nIt rests on the prediction ' || d.prediction_id || '.', '')
            || coalesce(E'\n\nIt revises the decision ' || d.revises_id || '.', ''),
        subject.state, d.decided_by_id, d.decided_at, CASE WHEN subject.position = 0 THEN d.key END
    FROM decisions_decision d WHERE d.id = subject.decision_id AND subject.part = 'of'
$$;
CREATE FUNCTION decisions_carry_note(note decisions_note) RETURNS void LANGUAGE sql AS $$
    INSERT INTO decisions_entry
        (id, project_id, kind, about, object_id, name, "to", reason, state, decided_by_id, decided_at)
    SELECT substr(md5('note ' || note.id), 1, 10), d.project_id, 'note', 'run', s.run_key, s.name, '', note.text, '{}'::jsonb,
        note.author_id, note.created_at
    FROM decisions_decision d JOIN decisions_subject s ON s.decision_id = d.id AND s.position = 0
    WHERE d.id = note.decision_id
$$;
SELECT decisions_carry_subject(s) FROM decisions_subject s;
SELECT decisions_carry_note(n) FROM decisions_note n;

CREATE FUNCTION decisions_carried() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'decisions_note' THEN
        PERFORM decisions_carry_note(NEW);
    ELSE
        PERFORM decisions_carry_subject(NEW);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER decisions_subject_carried AFTER INSERT ON decisions_subject
    FOR EACH ROW EXECUTE FUNCTION decisions_carried();
CREATE TRIGGER decisions_note_carried AFTER INSERT ON decisions_note
    FOR EACH ROW EXECUTE FUNCTION decisions_carried();
CREATE TRIGGER decisions_entry_immutable BEFORE UPDATE ON decisions_entry
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse_update();
"""
CARRY_NO_MORE = """
DROP TRIGGER decisions_subject_carried ON decisions_subject;
DROP TRIGGER decisions_note_carried ON decisions_note;
DROP FUNCTION decisions_carried();
DROP FUNCTION decisions_carry_subject(decisions_subject);
DROP FUNCTION decisions_carry_note(decisions_note);
"""
KINDS = [("continue", "Continue"), ("stop", "Stop"), ("switch", "Switch to another"), ("note", "Note")]
ABOUT = [("run", "Run"), ("prediction", "Prediction"), ("study", "Study")]


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_example_project_and_max_metrics"),
        ("decisions", "0001_squashed_0002_decisions_are_immutable"),
        ("recipes", "0001_squashed_0002_revisions_are_immutable"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel("Note"),
                migrations.DeleteModel("Subject"),
                migrations.DeleteModel("Decision"),
            ]
        ),
        migrations.CreateModel(
            name="Entry",
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
                ("kind", models.CharField(choices=KINDS, max_length=10)),
                ("about", models.CharField(choices=ABOUT, max_length=10)),
                ("object_id", models.CharField(max_length=16)),
                ("name", models.TextField()),
                ("to", models.TextField(blank=True)),
                ("reason", models.TextField()),
                ("state", models.JSONField(default=dict)),
                ("decided_at", models.DateTimeField(auto_now_add=True)),
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
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="decisions",
                        to="accounts.project",
                    ),
                ),
            ],
            options={
                "ordering": ["-decided_at", "id"],
                "indexes": [
                    models.Index(fields=["project", "-decided_at", "id"], name="entries_newest"),
                    models.Index(fields=["object_id", "-decided_at"], name="entries_of_object"),
                ],
                "constraints": [models.UniqueConstraint(fields=("project", "key"), name="entry_once")],
            },
        ),
        migrations.RunSQL(LET_GO, migrations.RunSQL.noop),
        migrations.RunSQL(CARRY, CARRY_NO_MORE),
    ]
