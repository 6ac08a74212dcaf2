"""What the commands of docs and notebooks read: a project with two recipes' runs on the tests' live server."""

import pytest
from django.core.cache import caches

from tests.launching import tracked_run
from tests.members import member
from tests.webapp.interfaces.pages.data import curve_records
from webapp.identity.accounts.services import create_project, create_token
from webapp.record.runs import ingest
from webapp.science.curves.services import refit


@pytest.fixture
def read_server(live_server, transactional_db, monkeypatch):
    """{"HEADROOM_URL", "HEADROOM_TOKEN", "RUN"}, which are set in the environment, too."""
    project = create_project(slug="math", name="Math")
    author = member("ada", project=project)
    for name, ceiling in (("GRPO", 0.55), ("CISPO", 0.62)):
        run = tracked_run(user=author, project=project, name=name, task="math", model="8b")
        ingest.store_records(run, curve_records(40, a=ceiling, seed=1))
        refit(run.pk)
    for cache in ("limits", "limits-of-this-process"):
        caches[cache].clear()
    token = create_token(user=author, project=project, scope="read")
    found = {"HEADROOM_URL": live_server.url, "HEADROOM_TOKEN": token, "RUN": run.pk}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found
