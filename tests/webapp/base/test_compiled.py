"""A queryset that was compiled gives what it would give itself, with any values, from any thread."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.models import F

from webapp.base.compiled import Compiled
from webapp.identity.accounts.models import Membership
from webapp.identity.accounts.services import create_project, set_role


def of_project(project):
    return (
        Membership.objects.filter(project__slug=project, role="admin")
        .select_related("project__organisation", "user")
        .annotate(owner=F("user__username"))
        .order_by("user__username")
    )


@pytest.fixture
def members(db, django_user_model):
    for slug, people in {"math": ("ada", "bob"), "code": ("cyd",)}.items():
        project = create_project(slug=slug, name=slug.title())
        for name in people:
            set_role(project, django_user_model.objects.create_user(name), "admin")


def test_rows_are_those_of_the_queryset_with_what_was_selected_along(members, django_assert_num_queries):
    compiled = Compiled(of_project, project="?")

    with django_assert_num_queries(2):
        found = {slug: compiled.all(project=slug) for slug in ("math", "code")}
        told = {
            slug: [
                (one.user.username, one.project.slug, one.project.organisation.slug, one.owner)
                for one in rows
            ]
            for slug, rows in found.items()
        }

    assert told == {
        "math": [("ada", "math", "default", "ada"), ("bob", "math", "default", "bob")],
        "code": [("cyd", "code", "default", "cyd")],
    }
    assert found["math"] == list(of_project("math"))


def test_first_is_none_where_there_is_no_row(members):
    compiled = Compiled(of_project, project="?")

    assert compiled.first(project="code").user.username == "cyd"
    assert compiled.first(project="nothing") is None
    assert compiled.first(project="'; DROP TABLE accounts_project; --") is None


def test_a_value_that_is_no_parameter_is_a_mistake_that_is_named(db):
    compiled = Compiled(lambda project, other: of_project(project), project="?", other="!")

    with pytest.raises(TypeError, match="other is no parameter of SELECT"):
        compiled.first(project="math", other="x")


@pytest.mark.django_db(transaction=True)
def test_another_thread_asks_over_its_own_connection(django_user_model):
    project = create_project(slug="math", name="Math")
    set_role(project, django_user_model.objects.create_user("ada"), "admin")
    compiled = Compiled(of_project, project="?")
    compiled.first(project="math")

    def ask():
        try:
            return compiled.first(project="math").owner, connection.connection.info.backend_pid
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        owner, backend = pool.submit(ask).result(30)

    assert owner == "ada"
    assert backend != connection.connection.info.backend_pid
