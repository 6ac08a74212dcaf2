import django.db.models.deletion
from django.db import migrations, models

# The curves of arXiv 2510.13786, Table 1, as read-only references.
SOURCE = "arXiv 2510.13786, Table 1"
MARGIN = 0.02  # the working margin that the paper states for A
MATH, CODE = "math (published)", "code (published)"
DENSE, MOE = "8B dense", "17Bx16 MoE (Scout)"

# slug, name, task, model, C_mid in GPU-hours, B, A
ROWS = [
    ("scalerl", "ScaleRL", MATH, DENSE, 2542, 1.92, 0.610),
    ("scalerl-32k", "ScaleRL-32k", MATH, DENSE, 11272, 1.89, 0.645),
    ("scalerl-8gen", "ScaleRL-8gen", MATH, DENSE, 2542, 2.44, 0.585),
    ("scalerl-24gen", "ScaleRL-24gen", MATH, DENSE, 3054, 2.22, 0.590),
    ("scalerl-32gen", "ScaleRL-32gen", MATH, DENSE, 2936, 2.07, 0.595),
    ("scalerl-scout", "ScaleRL-Scout", MATH, MOE, 4242, 1.65, 0.710),
    ("scalerl-bs512", "ScaleRL-bs512", MATH, DENSE, 2818, 1.77, 0.605),
    ("scalerl-bs2048", "ScaleRL-bs2048", MATH, DENSE, 10909, 1.70, 0.645),
    ("scalerl-math-code-math", "ScaleRL-math+code (math)", MATH, DENSE, 2896, 2.05, 0.595),
    ("scalerl-math-code-code", "ScaleRL-math+code (code)", CODE, DENSE, 1675, 1.09, 0.615),
]


def add(apps, schema_editor):
    reference_fit = apps.get_model("curves", "ReferenceFit")
    for slug, name, task, model, c_mid, b, a in ROWS:
        reference_fit.objects.update_or_create(
            slug=slug,
            defaults={
                "name": name,
                "source": SOURCE,
                "task": task,
                "model": model,
                "c_mid": c_mid,
                "b": b,
                "a": a,
                "margin": MARGIN,
            },
        )


class Migration(migrations.Migration):
    replaces = [
        ("curves", "0001_initial"),
        ("curves", "0002_published_curves"),
        ("curves", "0003_fit_outlook"),
        ("curves", "0004_keptfigure"),
        ("curves", "0005_fit_superseded"),
    ]

    initial = True

    dependencies = [
        ("runs", "0001_squashed_0012_dispatch_origin"),
    ]

    operations = [
        migrations.CreateModel(
            name="KeptFigure",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="kept_figure",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("key", models.CharField(max_length=80)),
                ("said", models.JSONField()),
                ("made_at", models.DateTimeField(auto_now=True)),
            ],
        ),
        migrations.CreateModel(
            name="ReferenceFit",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(unique=True)),
                ("name", models.CharField(max_length=100)),
                ("source", models.CharField(max_length=200)),
                ("task", models.CharField(max_length=80)),
                ("model", models.CharField(max_length=80)),
                ("unit", models.CharField(default="GPU-hours", max_length=40)),
                ("a", models.FloatField()),
                ("b", models.FloatField()),
                ("c_mid", models.FloatField()),
                ("margin", models.FloatField()),
            ],
            options={
                "ordering": ["-a", "name"],
            },
        ),
        migrations.CreateModel(
            name="Fit",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.CharField(default="eval/pass_rate", max_length=250)),
                ("x", models.CharField(default="device_hours", max_length=20)),
                ("form", models.CharField(default="sigmoid", max_length=20)),
                ("method", models.CharField(default="fast", max_length=10)),
                ("level", models.FloatField(default=0.9)),
                ("window_lo", models.FloatField(null=True)),
                ("cutoff", models.FloatField(null=True)),
                ("data_digest", models.CharField(max_length=64)),
                ("status", models.CharField(max_length=20)),
                ("message", models.TextField(blank=True)),
                ("params", models.JSONField(null=True)),
                ("intervals", models.JSONField(null=True)),
                ("sse", models.FloatField(null=True)),
                ("r2", models.FloatField(null=True)),
                ("n", models.PositiveIntegerField()),
                ("fitted_lo", models.FloatField(null=True)),
                ("fitted_hi", models.FloatField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("outlook", models.JSONField(null=True)),
                ("superseded", models.BooleanField(db_default=False, default=False)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="fits", to="runs.run"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["run", "metric", "x", "-id"], name="fit_newest")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=(
                            "run",
                            "metric",
                            "x",
                            "form",
                            "method",
                            "level",
                            "window_lo",
                            "cutoff",
                            "data_digest",
                        ),
                        name="fit_once",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.RunPython(add, migrations.RunPython.noop),
    ]
