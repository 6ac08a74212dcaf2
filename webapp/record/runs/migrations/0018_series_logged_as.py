from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0017_shares")]

    operations = [
        migrations.AddField(
            "series", "logged_as", models.CharField(blank=True, db_default="", default="", max_length=250)
        ),
    ]
