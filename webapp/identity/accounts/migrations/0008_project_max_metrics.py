from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_example_project"),
    ]

    operations = [
        migrations.AddField(
            model_name="project",
            name="max_metrics",
            field=models.PositiveIntegerField(db_default=10000, default=10000),
        ),
    ]
