from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("curves", "0002_published_curves")]

    operations = [
        migrations.AddField(model_name="fit", name="outlook", field=models.JSONField(null=True)),
    ]
