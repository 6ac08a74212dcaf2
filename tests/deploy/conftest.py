"""The wheel in an environment of its own, as the images have it."""

from tests.packaging.conftest import server, wheel  # noqa: F401 - fixtures
