"""Links to reports become shares, with their digests, so that every link that was handed out still opens."""

from django.db import migrations, models

MOVE_REPORT_LINKS = """
INSERT INTO shares_share (project_id, created_by_id, kind, title, question, digest, created_at, expires_at, revoked_at,
                          last_seen_at)
SELECT report.project_id, link.created_by_id, 'report', report.title, jsonb_build_object('report', report.id), link.digest,
       link.created_at, link.expires_at, link.revoked_at, link.last_seen_at
FROM reports_reportlink link JOIN reports_report report ON report.id = link.report_id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("shares", "0001_initial"),
        ("reports", "0002_publications_are_immutable"),
    ]

    operations = [
        migrations.AlterField(
            "share",
            "kind",
            models.CharField(
                choices=[
                    ("run", "Run"),
                    ("comparison", "Comparison"),
                    ("prediction", "Prediction"),
                    ("report", "Report"),
                ],
                max_length=12,
            ),
        ),
        migrations.RunSQL(MOVE_REPORT_LINKS, migrations.RunSQL.noop),
    ]
