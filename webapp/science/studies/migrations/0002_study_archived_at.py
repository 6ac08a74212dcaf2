from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("studies", "0001_initial")]

    operations = [migrations.AddField("study", "archived_at", models.DateTimeField(null=True))]
