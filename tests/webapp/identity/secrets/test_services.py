"""Secrets of projects: encrypted, set by admins, never told."""

from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.members import member
from webapp.base.errors import InvalidInput, NotFound
from webapp.identity.accounts.services import create_project, default_project
from webapp.identity.audit.models import Event
from webapp.identity.secrets import services
from webapp.identity.secrets.models import ProjectSecret, Undecipherable, decrypt, encrypt
from webapp.record.runs import tokens
from webapp.record.runs.models import Attempt, Run, State

pytestmark = pytest.mark.django_db
VALUE = "hf_abcDEF0123456789"


@pytest.fixture
def ada():
    return member("ada")


@pytest.fixture
def project(ada):
    return default_project()


@pytest.fixture
def stored(project, ada):
    services.set_secret(project, name="HF_TOKEN", value=VALUE, user=ada)
    return ProjectSecret.objects.get()


def job(project, state=State.RUNNING):
    """A launched run of the project whose first attempt is in this state."""
    run = Run.objects.create(
        project=project, name="r", task="t", model="m", config={}, state=state, origin=Run.Origin.LAUNCHED
    )
    return Attempt.objects.create(run=run, number=1, state=state, submission_id=f"run-{run.pk}-a1")


def test_it_is_stored_encrypted_and_told_by_name_only(stored, project):
    everything = str(list(ProjectSecret.objects.values())) + str(list(Event.objects.values()))

    assert VALUE not in everything
    assert decrypt(project.pk, "HF_TOKEN", stored.ciphertext) == VALUE
    event = Event.objects.get(object_kind="secret")
    assert (event.verb, event.object_name, event.detail) == ("secret.set", "HF_TOKEN", {})


def test_setting_again_replaces_and_deleting_deletes(stored, project, ada):
    assert not services.set_secret(project, name="HF_TOKEN", value="hf_another_value", user=ada)
    assert services.hand_to_job(project) == {"HF_TOKEN": "hf_another_value"}
    assert tokens.purge_retired() == 1  # no job has the old one

    services.delete_secret(project, name="HF_TOKEN", user=ada)
    assert services.hand_to_job(project) == {}
    assert tokens.purge_retired() == 1 and not ProjectSecret.objects.exists()
    with pytest.raises(NotFound):
        services.delete_secret(project, name="HF_TOKEN", user=ada)
    verbs = Event.objects.filter(object_kind="secret").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["secret.set", "secret.replaced", "secret.deleted"]


@pytest.mark.parametrize(
    "name",
    ["", "hf_token", "1_TOKEN", "PATH", "PYTHONPATH", "LD_PRELOAD", "LD_TOKEN", "HEADROOM_TOKEN", "RAY_AUTH_TOKEN",
     "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "BASH_ENV", "GIT_SSH_COMMAND", "NODE_OPTIONS", "HOME", "HF_ENDPOINT",
     "HF_HUB_DISABLE_X_TOKEN", "A-B_TOKEN", "X" * 61 + "_KEY", "A_TOKEN\n=B_TOKEN", "É_TOKEN", "A=B_TOKEN"],
)  # fmt: skip
def test_names_that_could_change_what_runs_are_refused(project, ada, name):
    with pytest.raises(InvalidInput) as refused:
        services.set_secret(project, name=name, value=VALUE, user=ada)

    assert refused.value.field == "name"
    assert VALUE not in refused.value.message
    assert not ProjectSecret.objects.exists()


@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "REGISTRY_PASSWORD"])
def test_names_of_credentials_are_taken(project, ada, name):
    services.set_secret(project, name=f" {name} ", value=VALUE, user=ada)

    assert services.hand_to_job(project) == {name: VALUE}


@pytest.mark.parametrize(
    "value", ["", "short", "x" * 4097, "two\nlines of it", "nul\0in the middle", "hf_töken_wide"]
)
def test_values_that_cannot_be(project, ada, value):
    with pytest.raises(InvalidInput) as refused:
        services.set_secret(project, name="HF_TOKEN", value=value, user=ada)

    assert refused.value.field == "value"
    assert not value or value not in refused.value.message


def test_at_most_twenty(project, ada):
    for number in range(20):
        services.set_secret(project, name=f"N{number}_TOKEN", value=VALUE, user=ada)
    with pytest.raises(InvalidInput, match="at most 20"):
        services.set_secret(project, name="ONE_MORE_TOKEN", value=VALUE, user=ada)

    services.set_secret(project, name="N3_TOKEN", value="another-value", user=ada)


def test_keys_are_changed_without_losing_anything(settings, project, ada):
    settings.SECRETS_KEY = "old"
    services.set_secret(project, name="HF_TOKEN", value=VALUE, user=ada)
    settings.SECRETS_KEY = "new, old"
    assert services.hand_to_job(project) == {"HF_TOKEN": VALUE}

    call_command("encrypt_secrets_anew")
    settings.SECRETS_KEY = "new"
    assert services.hand_to_job(project) == {"HF_TOKEN": VALUE}


def test_a_lost_key_is_said_by_name_and_nothing_is_handed_out(settings, project, stored):
    settings.SECRETS_KEY = "another"

    with pytest.raises(RuntimeError, match="HF_TOKEN") as error:
        services.hand_to_job(project)
    assert VALUE not in str(error.value)
    with pytest.raises(CommandError, match="nothing was changed"):
        call_command("encrypt_secrets_anew")
    assert services.redact(project.pk, "a log") == "a log"


def test_without_a_key_of_its_own_that_of_the_installation_serves(settings, project, stored):
    settings.SECRET_KEY = "of another installation"
    with pytest.raises(Undecipherable):
        decrypt(project.pk, "HF_TOKEN", stored.ciphertext)


def test_rows_cannot_be_exchanged_in_the_database(project, stored):
    other = create_project(slug="other", name="Other")

    with pytest.raises(Undecipherable):
        decrypt(other.pk, "HF_TOKEN", stored.ciphertext)
    with pytest.raises(Undecipherable):
        decrypt(project.pk, "WANDB_API_KEY", stored.ciphertext)
    with pytest.raises(Undecipherable):
        decrypt(project.pk, "HF_TOKEN", Fernet(Fernet.generate_key()).encrypt(b"[]").decode())


def test_the_same_value_is_never_the_same_text(project):
    assert encrypt(project.pk, "HF_TOKEN", VALUE) != encrypt(project.pk, "HF_TOKEN", VALUE)


def test_use_is_noted(stored, project):
    assert stored.last_used_at is None

    services.hand_to_job(project)
    stored.refresh_from_db()
    assert timezone.now() - stored.last_used_at < timedelta(seconds=10)


def test_a_replaced_value_is_kept_only_while_a_job_may_have_it(stored, project, ada):
    attempt = job(project)
    services.set_secret(project, name="HF_TOKEN", value="hf_another_value", user=ada)

    assert services.redact(project.pk, f"{VALUE} and hf_another_value") == "••• and •••"
    assert services.hand_to_job(project) == {"HF_TOKEN": "hf_another_value"}
    job(project)  # began later: it was given the new one
    assert tokens.purge_retired() == 0

    Attempt.objects.filter(pk=attempt.pk).update(state=State.SUCCEEDED)
    assert tokens.purge_retired() == 1
    assert services.redact(project.pk, f"{VALUE} and hf_another_value") == f"{VALUE} and •••"


def test_a_lost_job_may_speak_again(stored, project, ada):
    attempt = job(project, State.LOST)
    Attempt.objects.update(ended_at=timezone.now())
    services.delete_secret(project, name="HF_TOKEN", user=ada)

    assert services.redact(project.pk, VALUE) == "•••"
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now() - tokens.LOST_FOR_GOOD)
    assert tokens.purge_retired() == 1


def test_projects_do_not_share_them(stored, project):
    other = create_project(slug="other", name="Other")

    assert services.hand_to_job(other) == {}
    assert services.redact(other.pk, VALUE) == VALUE
