"""The curves of arXiv 2510.13786, Table 1, as read-only references."""

from django.db import migrations

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


def remove(apps, schema_editor):
    apps.get_model("curves", "ReferenceFit").objects.filter(slug__in=[row[0] for row in ROWS]).delete()


class Migration(migrations.Migration):
    dependencies = [("curves", "0001_initial")]
    operations = [migrations.RunPython(add, remove)]
