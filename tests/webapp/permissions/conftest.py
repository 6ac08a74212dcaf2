"""A model that launches can name, and a world that tests share."""

import pytest
from django.conf import settings as django_settings

from tests.fake_model import make_model
from tests.shared_rows import kept
from tests.webapp.permissions.world import MODEL, make_lab, seen_by


@pytest.fixture
def model_folder(headroom_home, settings):
    settings.HEADROOM_URL = "http://web.invalid:8000"
    return make_model(headroom_home, MODEL, 4096)


@pytest.fixture(scope="module")
def lab(django_db_setup, django_db_blocker):
    """A world with one of everything, made once for the tests of a module; each of them undoes what it changes."""
    make_model(django_settings.HEADROOM_HOME, MODEL, 4096)
    with kept(django_db_blocker):
        world = make_lab()
        world.make_everything()
        yield world


@pytest.fixture
def towards(db, lab, model_folder):
    """towards(who): the shared world as it stands towards this person, with their own things, too."""

    def make(who):
        world = seen_by(lab, who)
        world.make_everything()
        return world

    return make
