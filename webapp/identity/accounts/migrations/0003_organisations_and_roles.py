"""Organisations, and members with roles. Who was a member of a project could do everything, and stays an admin.

The members' table is kept and gains a column; the first organisation owns every project that exists.
"""

from django.conf import settings
from django.db import migrations, models
from django.db.models import deletion

ADD_ROLE = "ALTER TABLE accounts_project_members ADD COLUMN role varchar(12) NOT NULL DEFAULT 'admin'"
LEAST_ROLE = "ALTER TABLE accounts_project_members ALTER COLUMN role SET DEFAULT 'viewer'"
DROP_ROLE = "ALTER TABLE accounts_project_members DROP COLUMN role"
ROLES = [
    ("viewer", "Viewer"),
    ("contributor", "Contributor"),
    ("launcher", "Launcher"),
    ("reviewer", "Reviewer"),
    ("admin", "Admin"),
]


def first_organisation(apps, schema_editor):
    Project = apps.get_model("accounts", "Project")
    if not Project.objects.exists():
        return
    Organisation = apps.get_model("accounts", "Organisation")
    organisation = Organisation.objects.create(slug="default", name="Default organisation")
    Project.objects.update(organisation=organisation)
    organisation.owners.set(apps.get_model("accounts", "User").objects.filter(is_superuser=True))


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_initial")]

    operations = [
        migrations.CreateModel(
            name="Organisation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(unique=True)),
                ("name", models.CharField(max_length=100)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owners",
                    models.ManyToManyField(related_name="owned_organisations", to=settings.AUTH_USER_MODEL),
                ),
            ],
        ),
        migrations.AddField(
            model_name="project",
            name="organisation",
            field=models.ForeignKey(
                null=True, on_delete=deletion.PROTECT, related_name="projects", to="accounts.organisation"
            ),
        ),
        migrations.AddField(
            model_name="project", name="ranks_forecasters", field=models.BooleanField(default=False)
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(ADD_ROLE, DROP_ROLE),
                migrations.RunSQL(LEAST_ROLE, migrations.RunSQL.noop),
            ],
            state_operations=[
                migrations.CreateModel(
                    name="Membership",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "role",
                            models.CharField(
                                choices=ROLES, db_default="viewer", default="viewer", max_length=12
                            ),
                        ),
                        (
                            "project",
                            models.ForeignKey(
                                on_delete=deletion.CASCADE,
                                related_name="memberships",
                                to="accounts.project",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=deletion.CASCADE,
                                related_name="memberships",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "db_table": "accounts_project_members",
                        "unique_together": {("project", "user")},
                    },
                ),
                migrations.AlterField(
                    model_name="project",
                    name="members",
                    field=models.ManyToManyField(
                        related_name="projects", through="accounts.Membership", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="apitoken", name="name", field=models.CharField(blank=True, max_length=80)
        ),
        migrations.AddField(model_name="apitoken", name="expires_at", field=models.DateTimeField(null=True)),
        migrations.RunPython(first_organisation, migrations.RunPython.noop),
    ]
