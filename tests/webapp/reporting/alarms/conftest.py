"""A tracked run and its records, everything through the services."""

from tests.webapp.record.runs.conftest import make_record, project, tracked, user  # noqa: F401 (fixtures)
