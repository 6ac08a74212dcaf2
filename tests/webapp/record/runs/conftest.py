"""A project with a recipe that can be launched: a model folder on disk, everything through the services."""

import pytest
from django.contrib.auth import get_user_model

from tests.fake_model import make_model
from tests.launching import launched, tracked_run
from training.records import Record
from webapp.identity.accounts.services import create_project, set_role
from webapp.record.health.services import note_cluster


@pytest.fixture
def project(db):
    return create_project(slug="math", name="Math")


@pytest.fixture
def user(project):
    user = get_user_model().objects.create_user("ada")
    set_role(project, user, "admin")
    return user


@pytest.fixture
def model_folder(headroom_home, settings):
    """A model as far as a launch looks at it: with a long enough context."""
    folder = make_model(headroom_home, "tiny-arithmetic", 4096)
    settings.HEADROOM_URL = "http://web.invalid:8000"
    return folder


@pytest.fixture
def large_cluster(db):
    """A worker has seen one that holds whatever a test launches."""
    note_cluster([{"id": "a", "address": "", "alive": True, "is_head": True, "cpus": 1000, "gpus": 100}])


@pytest.fixture
def request_body(project, user, model_folder, large_cluster):
    return {
        "user": user,
        "project": project,
        "recipe": "tiny-scalerl",
        "task": "arithmetic",
        "model": "tiny-arithmetic",
        "seed": 0,
        "budget_hours": 0.5,
    }


@pytest.fixture
def launch_one(request_body):
    """launch_one(seed=3, ...): a queued run."""
    return lambda **changes: launched(**request_body | changes)


@pytest.fixture
def tracked(project, user):
    """A run that trains elsewhere."""
    return tracked_run(user=user, project=project, name="elsewhere", task="math", model="8b")


@pytest.fixture
def make_record():
    """make_record(3, {"eval/pass_rate": 0.4}): a record as a trainer would report it at step 3."""

    def make(step, metrics, *, attempt=1, seq=None, hours=None):
        return Record.model_validate(
            {
                "attempt": attempt,
                "seq": step if seq is None else seq,
                "step": step,
                "time": "2026-01-01T00:00:00+00:00",
                "compute": {
                    "device_hours": 0.1 * step if hours is None else hours,
                    "flops": 1e12 * step,
                    "tokens": 1e3 * step,
                },
                "metrics": metrics,
            }
        )

    return make
