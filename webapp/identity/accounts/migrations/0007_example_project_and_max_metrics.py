from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_squashed_0006_run_tokens_of_an_attempt")]

    operations = [
        migrations.AddField("project", "is_example", models.BooleanField(db_default=False, default=False)),
        migrations.AddField(
            "project", "max_metrics", models.PositiveIntegerField(db_default=10000, default=10000)
        ),
    ]
