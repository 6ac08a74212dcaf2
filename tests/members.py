"""People for tests: an account that may do everything in a project."""

from django.contrib.auth import get_user_model

from webapp.identity.accounts.models import Role
from webapp.identity.accounts.services import default_project, set_role


def member(name="ada", *, project=None, role=Role.ADMIN, **account):
    """A new account in this role of a project; without one, of the default project."""
    user = get_user_model().objects.create_user(name, **account)
    set_role(project or default_project(), user, role)
    return user
