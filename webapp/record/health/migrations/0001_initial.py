from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ClusterSeen",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("asked_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField(null=True)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("nodes", models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name="LastRound",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("began_at", models.DateTimeField()),
                ("seconds", models.FloatField()),
                ("failures", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="WorkerSeen",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200, unique=True)),
                ("host", models.CharField(max_length=150)),
                ("version", models.CharField(max_length=40)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["name"],
            },
        ),
    ]
