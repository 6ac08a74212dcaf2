from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("curves", "0004_keptfigure")]

    operations = [
        migrations.AddField("fit", "superseded", models.BooleanField(default=False, db_default=False)),
    ]
