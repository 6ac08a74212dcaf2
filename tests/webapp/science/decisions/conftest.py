from tests.webapp.interfaces.pages.conftest import (  # noqa: F401 (fixtures)
    ada,
    foreign_run,  # noqa: F401
    make_run,
    model_folder,
    project,
    user,
)
