"""`python -m tests.webapp.operation.project_transfer.telling FILE`: brings the project `lab` of the file into a
database in which there is an ada already; what the API says of it, and the digest of its points."""

import hashlib
import json
import re
import sys

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402

from webapp.identity.accounts.models import Project, User  # noqa: E402
from webapp.identity.accounts.services import create_token  # noqa: E402
from webapp.record.artifacts.models import Artifact  # noqa: E402
from webapp.record.artifacts.store import open_file  # noqa: E402
from webapp.record.recipes.models import Revision  # noqa: E402
from webapp.record.runs.models import Run  # noqa: E402
from webapp.science.curves.models import Fit  # noqa: E402
from webapp.science.predictions.models import Prediction  # noqa: E402

POINTS = """
SELECT r.id, s.metric, p.attempt, p.seq, p.step, p.time, p.device_hours, p.flops, p.tokens, p.value, p.stderr
FROM runs_point p JOIN runs_series s ON s.id = p.series_id JOIN runs_run r ON r.id = s.run_id
WHERE r.project_id = %s ORDER BY 1, 2, 3, 4
"""
NUMBERED = re.compile(r"id|.*_id|.*_ids|parent|cursor|next_cursor|etag")


def tell() -> dict:
    settings.ALLOWED_HOSTS = ["*"]
    lab = Project.objects.get(slug="lab")
    someone = lab.members.filter(memberships__role="admin", is_active=True).first()
    token = create_token(user=someone, project=lab, scope="read")
    client = Client(headers={"Authorization": f"Bearer {token}"})

    def get(path: str):
        answer = client.get(f"/api/v1/{path}")
        assert answer.status_code == 200, (path, answer.content)
        return without_numbers(answer.json())

    runs = list(lab.runs.order_by("pk").values_list("pk", flat=True))
    claims = list(Prediction.objects.filter(project=lab).order_by("pk").values_list("pk", flat=True))
    paths = [
        "leaderboard",
        "fits",
        "predictions",
        "decisions",
        "studies",
        "recipes",
        "predictions/calibration",
        "policies",
    ]
    paths += [f"runs/{pk}/{what}" for pk in runs for what in ("curve", "fits", "records", "artifacts")]
    paths += [
        f"predictions/{pk}{what}" for pk in claims for what in ("", "/reviews", "/comments", "/outcomes")
    ]
    told = {path: get(path) for path in paths}
    return told | {
        "files": [content_of(one) for one in Artifact.objects.filter(run__project=lab).order_by("path")],
        "points": digest_of_points(lab),
        "frozen": list(Prediction.objects.filter(project=lab).order_by("pk").values_list(
            "pk", "frozen", "data_digest", "body_digest", "author__username")),
        "fit digests": sorted(Fit.objects.filter(run__project=lab).values_list("run", "data_digest", "n")),
        "hashes": sorted(Revision.objects.filter(recipe__project=lab).values_list("recipe__slug", "content_hash")),
        "states": list(Run.objects.filter(project=lab).order_by("pk").values_list("pk", "state")),
        "people": sorted(User.objects.values_list("username", "is_active")),
        "members": sorted(lab.memberships.values_list("user__username", "role")),
    }  # fmt: skip


def content_of(artifact) -> list:
    with open_file(artifact) as file:
        return [artifact.path, hashlib.sha256(file.read()).hexdigest()]


def without_numbers(said):
    """Of things that the database numbers the number is another in each installation."""
    if isinstance(said, dict):
        return {
            key: without_numbers(value)
            for key, value in said.items()
            if not (isinstance(value, int) and NUMBERED.fullmatch(key)) and key != "next_cursor"
        }
    return [without_numbers(one) for one in said] if isinstance(said, list) else said


def digest_of_points(lab) -> list:
    with connection.cursor() as cursor:
        cursor.execute("SET timezone = 'UTC'")
        cursor.execute(POINTS, [lab.pk])
        rows = cursor.fetchall()
    return [len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()]


def words() -> str:
    return json.dumps(tell(), default=str)


if __name__ == "__main__":
    User.objects.create_user("ada", "ada@lab.example")
    call_command("import_project", sys.argv[1])
    print(words())
