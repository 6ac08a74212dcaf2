"""What studies are called, and whether the list shows them."""

import pytest

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.audit.models import Event
from webapp.science.studies import selectors, services
from webapp.science.studies.models import Study


def test_a_new_name_is_noted_with_the_old_one(make_study, user):
    study = make_study()

    assert services.rename_study(study, "  Which choice matters ", was="What matters", user=user)

    assert Study.objects.get().name == "Which choice matters"
    event = Event.objects.filter(verb="study.renamed").get()
    assert (event.object_name, event.detail) == ("Which choice matters", {"was": "What matters"})
    assert not services.rename_study(study, "Which choice matters", was="What matters", user=user)


def test_of_two_people_who_rename_at_once_the_second_is_told(make_study, user):
    study = make_study()
    services.rename_study(study, "First", was="What matters", user=user)

    with pytest.raises(Conflict, match="First"):
        services.rename_study(study, "Second", was="What matters", user=user)

    assert Study.objects.get().name == "First"


@pytest.mark.parametrize("name", ["", "  ", "x" * 121, "a\x00b"])
def test_a_name_has_printable_characters(make_study, user, name):
    study = make_study()

    with pytest.raises(InvalidInput):
        services.rename_study(study, name, was=study.name, user=user)


def test_an_archived_study_is_hidden_and_comes_back(make_study, project, user):
    study = make_study()

    assert services.archive_study(study, user=user)
    assert not services.archive_study(study, user=user)

    assert not selectors.studies_of(project).exists()
    assert [one.pk for one in selectors.studies_of(project, archived=True)] == [study.pk]
    assert selectors.study_by_id(project, study.pk).archived_at is not None
    assert selectors.archived_count(project) == 1
    assert services.unarchive_study(study, user=user)
    assert not services.unarchive_study(study, user=user)
    assert [one.pk for one in selectors.studies_of(project)] == [study.pk]
    noted = Event.objects.filter(verb__contains="archived").order_by("pk")
    assert list(noted.values_list("verb", flat=True)) == ["study.archived", "study.unarchived"]


def test_seeds_of_an_archived_study_are_not_launched(make_study, user):
    study = make_study()
    services.archive_study(study, user=user)

    with pytest.raises(Conflict, match="archived"):
        services.launch_seeds(study, [5], user=user)

    assert study.members.count() == 6
