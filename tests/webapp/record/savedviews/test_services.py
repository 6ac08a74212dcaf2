"""Saved views: own and shared, defaults, and two tabs that change the same one."""

import pytest
from django.contrib.auth import get_user_model

from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.identity.accounts.services import create_project, set_role
from webapp.record.savedviews import services
from webapp.record.savedviews.models import DefaultView, SavedView
from webapp.record.savedviews.selectors import views_of


@pytest.fixture
def project(db):
    return create_project(slug="math", name="Math")


@pytest.fixture
def who(project):
    """who("ada"): a member and the project, as services take them."""

    def make(name):
        user, _ = get_user_model().objects.get_or_create(username=name)
        set_role(project, user, "admin")
        return {"user": user, "project": project}

    return make


@pytest.fixture
def view(who):
    return services.create_view(
        **who("ada"), name=" Best  ones ", filter=" ceiling > 0.6 ", columns=["state"], sort="-ceiling"
    )


def test_a_view_is_stored_as_it_was_shown(view):
    assert (view.name, view.filter, view.columns, view.sort, view.shared) == (
        "Best ones", "ceiling > 0.6", ["state"], "-ceiling", False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "field", "error"),
    [
        ({"name": " "}, "name", InvalidInput),
        ({"name": "x" * 61}, "name", InvalidInput),
        ({"name": "a\0b"}, "name", InvalidInput),
        ({"name": "best ONES"}, "name", Conflict),
        ({"filter": "ceilin > 1"}, "filter", InvalidInput),
    ],
)
def test_what_cannot_be_saved(who, view, change, field, error):
    with pytest.raises(error) as caught:
        services.create_view(**who("ada") | {"name": "another"} | change)

    assert caught.value.field == field
    assert SavedView.objects.count() == 1


def test_others_see_it_once_it_is_shared_and_cannot_change_it(who, view):
    assert views_of(**who("bob")).items == []
    services.share_view(view.pk, **who("ada"), version=1, shared=True)
    own = services.create_view(**who("bob"), name="Best ones")

    views = views_of(**who("bob"))

    assert views.items == [own, view]
    assert views.by_id(str(view.pk)) == view
    assert views.by_id("x") is None
    with pytest.raises(NotFound):
        services.rename_view(view.pk, **who("bob"), version=2, name="Mine")
    with pytest.raises(NotFound):
        services.delete_view(view.pk, **who("bob"), version=2)


def test_of_two_tabs_the_second_is_told(who, view):
    services.overwrite_view(view.pk, **who("ada"), version=1, filter="seed:1", columns=[], sort="")

    for change in (
        lambda: services.rename_view(view.pk, **who("ada"), version=1, name="Late"),
        lambda: services.overwrite_view(
            view.pk, **who("ada"), version=1, filter="seed:2", columns=[], sort=""
        ),
        lambda: services.share_view(view.pk, **who("ada"), version=1, shared=True),
        lambda: services.delete_view(view.pk, **who("ada"), version=1),
    ):
        with pytest.raises(Conflict, match="changed meanwhile"):
            change()

    view.refresh_from_db()
    assert (view.name, view.filter, view.version, view.shared) == ("Best ones", "seed:1", 2, False)


def test_deleting_twice_is_harmless(who, view):
    assert services.delete_view(view.pk, **who("ada"), version=1)
    assert not services.delete_view(view.pk, **who("ada"), version=1)
    with pytest.raises(NotFound):
        services.rename_view(view.pk, **who("ada"), version=1, name="x")


def test_the_default_is_each_persons_own_and_goes_with_the_view(who, view):
    with pytest.raises(NotFound):
        services.set_default(view.pk, **who("bob"))
    services.share_view(view.pk, **who("ada"), version=1, shared=True)
    services.set_default(view.pk, **who("bob"))
    services.set_default(view.pk, **who("ada"))
    assert views_of(**who("bob")).default == view.pk

    services.share_view(view.pk, **who("ada"), version=2, shared=False)
    assert views_of(**who("bob")).default is None
    services.delete_view(view.pk, **who("ada"), version=3)
    assert not DefaultView.objects.exists()
    services.set_default(None, **who("ada"))


def test_renaming_to_a_taken_name(who, view):
    other = services.create_view(**who("ada"), name="Other")

    with pytest.raises(Conflict) as caught:
        services.rename_view(other.pk, **who("ada"), version=1, name="Best ones")

    assert caught.value.field == "name"


def test_two_queries_for_any_number_of_views(who, view, django_assert_num_queries):
    asked = who("ada")
    for i in range(5):
        services.create_view(**asked, name=f"view {i}")

    with django_assert_num_queries(2):
        assert len([str(found.owner) for found in views_of(**asked).items]) == 6
