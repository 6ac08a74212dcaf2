"""A model that launches can name."""

import pytest

from tests.fake_model import make_model


@pytest.fixture
def model_folder(headroom_home, settings):
    settings.HEADROOM_URL = "http://web.invalid:8000"
    return make_model(headroom_home, "tiny-arithmetic", 4096)
