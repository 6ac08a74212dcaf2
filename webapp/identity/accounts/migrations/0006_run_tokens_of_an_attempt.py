"""A job's token belongs to one attempt of its run: those that exist, to the newest that had begun when they were made."""

from django.db import migrations, models

ATTEMPT_OF_TOKEN = """
UPDATE accounts_apitoken token SET attempt = GREATEST(1, (
    SELECT max(attempt.number) FROM runs_attempt attempt
    WHERE attempt.run_id = token.run_id AND attempt.created_at <= token.created_at
))
WHERE token.run_id IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_invitation"),
        ("runs", "0006_points_of_every_eighth_step"),
    ]

    operations = [
        migrations.AddField("apitoken", "attempt", models.PositiveIntegerField(null=True)),
        migrations.RunSQL(ATTEMPT_OF_TOKEN, migrations.RunSQL.noop),
    ]
