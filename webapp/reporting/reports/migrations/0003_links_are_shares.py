"""Links to reports are shares (`webapp.reporting.shares`), which have taken over those that exist."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("reports", "0002_publications_are_immutable"),
        ("shares", "0002_one_kind_of_link"),
    ]

    operations = [migrations.DeleteModel("ReportLink")]
