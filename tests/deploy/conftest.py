"""The wheel in an environment of its own, as the images have it."""

from tests.packaging.conftest import server  # noqa: F401 - fixture
