"""Apart from 0003: PostgreSQL alters no table in the transaction that changed its rows."""

from django.db import migrations, models
from django.db.models import deletion


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_organisations_and_roles")]

    operations = [
        migrations.AlterField(
            model_name="project",
            name="organisation",
            field=models.ForeignKey(
                on_delete=deletion.PROTECT, related_name="projects", to="accounts.organisation"
            ),
        ),
    ]
