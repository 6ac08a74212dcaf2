import pytest

from tests.members import member
from tests.webapp.interfaces.pages.conftest import ada, foreign_run, make_run, model_folder, project, user  # noqa: F401 (fixtures)
from webapp.identity.accounts.models import Role
from webapp.reporting.reports.services import create_report


@pytest.fixture
def bob(project):  # noqa: F811
    """Another author."""
    return member("bob", project=project, role=Role.CONTRIBUTOR)


@pytest.fixture
def write(user, project):  # noqa: F811
    """write(text): a draft of Ada's."""

    def make(text="Words.", title="Where it bends", by=None):
        return create_report(user=by or user, project=project, title=title, text=text)

    return make


def block(**fields):
    """A block as it is typed."""
    return "\n".join(["```headroom", *(f"{key}: {value}" for key, value in fields.items()), "```"])
