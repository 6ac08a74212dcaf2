"""GET /api/v1/alerts: what fired, for the token's project and owner."""

import pytest

from tests.members import member
from tests.webapp.reporting.alerts.conftest import make_run, model_folder, project, user  # noqa: F401 (fixtures)
from tests.webapp.reporting.alerts.data import entropy_below, make_rule, report
from webapp.identity.accounts.services import create_token
from webapp.reporting.alerts import firing

pytestmark = pytest.mark.django_db


def test_a_token_reads_its_owners_firings_and_the_projects_by_pages(client, user, project, make_run):  # noqa: F811
    ben = member("ben", project=project)
    for owner, name, shared in ((user, "hers", False), (ben, "his", False), (user, "shared", True)):
        make_rule(owner, project, "metric", entropy_below(), name=name, shared=shared)
    report(make_run(0), [0.05] * 3)
    firing.check_changed()
    auth = {"authorization": f"Bearer {create_token(user=user, project=project, scope='read')}"}

    first = client.get("/api/v1/alerts?limit=1", headers=auth).json()
    second = client.get(f"/api/v1/alerts?limit=1&cursor={first['next']}", headers=auth).json()

    assert {first["items"][0]["rule"], second["items"][0]["rule"]} == {"hers", "shared"}
    assert second["next"] is None and "train/entropy is 0.05" in first["items"][0]["text"]
    assert client.get("/api/v1/alerts").status_code == 401
