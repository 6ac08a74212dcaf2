"""People and runs as on the pages; and a broker that does not answer."""

from tests.webapp.interfaces.pages.conftest import ada, make_run, model_folder, project, user  # noqa: F401 (fixtures)
