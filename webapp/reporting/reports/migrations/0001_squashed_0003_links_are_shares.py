import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.record.runs.models

# A trigger that refuses to change what was published. It can be withdrawn, once.
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


class Migration(migrations.Migration):
    replaces = [
        ("reports", "0001_initial"),
        ("reports", "0002_publications_are_immutable"),
        ("reports", "0003_links_are_shares"),
    ]

    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0005_invitation"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Report",
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
                ("title", models.CharField(max_length=160)),
                ("text", models.TextField(blank=True)),
                ("draft", models.PositiveIntegerField(default=1)),
                ("key", models.CharField(max_length=64, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("saved_at", models.DateTimeField(auto_now_add=True)),
                ("archived_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="reports",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reports",
                        to="accounts.project",
                    ),
                ),
                (
                    "saved_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-saved_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Publication",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("title", models.CharField(max_length=160)),
                ("text", models.TextField()),
                ("authors", models.JSONField()),
                ("is_live", models.BooleanField(default=True)),
                ("frozen", models.JSONField()),
                ("published_at", models.DateTimeField(auto_now_add=True)),
                ("withdrawn_at", models.DateTimeField(null=True)),
                (
                    "published_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "withdrawn_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="publications",
                        to="reports.report",
                    ),
                ),
            ],
            options={
                "ordering": ["-number"],
            },
        ),
        migrations.CreateModel(
            name="Draft",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("aside", models.BooleanField(default=False)),
                ("title", models.CharField(max_length=160)),
                ("text", models.TextField(blank=True)),
                ("started_at", models.DateTimeField()),
                ("saved_at", models.DateTimeField()),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="drafts",
                        to="reports.report",
                    ),
                ),
            ],
            options={
                "ordering": ["-saved_at", "-pk"],
            },
        ),
        migrations.AddIndex(
            model_name="report",
            index=models.Index(fields=["project", "-saved_at", "id"], name="report_newest"),
        ),
        migrations.AddConstraint(
            model_name="report",
            constraint=models.UniqueConstraint(fields=("project", "key"), name="report_once"),
        ),
        migrations.AddConstraint(
            model_name="publication",
            constraint=models.UniqueConstraint(fields=("report", "number"), name="publication_number_unique"),
        ),
        migrations.RunSQL(CREATE),
    ]
