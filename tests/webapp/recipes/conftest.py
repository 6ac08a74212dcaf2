"""Clients of the API."""

from tests.webapp.api.conftest import (  # noqa: F401 (fixtures)
    client_with,
    launch_body,
    launcher,
    model_folder,
    problem,
    project,
    user,
)
