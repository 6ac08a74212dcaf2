"""Secrets of projects: setting and deleting them, handing them to a job, and keeping them out of what it wrote.

Which variables a project may set for its jobs: credentials, and nothing that changes what runs.

Many variables change what a process does (PATH, LD_PRELOAD, BASH_ENV, GIT_SSH_COMMAND...), and no list of them is
complete. So a name must end as credentials do, and must not begin as the variables of what runs the jobs.

Taking secrets out of texts that jobs wrote.
"""

import json
import logging
import re
from collections.abc import Collection, Iterable, Sequence
from urllib.parse import quote

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.base.errors import InvalidInput, NotFound
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.identity.secrets.models import ProjectSecret, Undecipherable, decrypt, encrypt

MASK = "•••"
SHORTEST_REST = 4  # characters of a secret's end: fewer say nothing, and may be anything
NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
COMMON = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
ENDINGS = ("_TOKEN", "_KEY", "_KEY_ID", "_SECRET", "_PASSWORD", "_USERNAME")
RESERVED = (
    "PATH", "PYTHON", "LD_", "DYLD_", "HEADROOM_", "RAY_", "OMP_", "CUDA_", "NVIDIA_", "NCCL_", "MKL_", "TORCH",
    "PYTORCH", "VLLM_", "TRANSFORMERS_", "HF_HUB_", "HF_DATASETS_", "HF_ENDPOINT", "HF_HOME", "DJANGO_", "GIT_", "SSL_",
    "MALLOC_", "GLIBC_", "BASH_", "DATABASE_", "REDIS_", "CELERY_",
)  # fmt: skip
log = logging.getLogger(__name__)
MOST = 20  # of a project


def redacted(text: str, values: Iterable[str]) -> str:
    """The text with each value replaced by MASK, also as it is written in URLs and in JSON.

    A text that was cut in the middle of a value begins with that value's end: that is replaced, too.
    """
    forms = {
        form
        for value in values
        for form in (value, quote(value, safe=""), quote(value), json.dumps(value)[1:-1])
    }
    for form in sorted(forms, key=len, reverse=True):  # one value may be a part of another
        text = text.replace(form, MASK)
    for form in forms:
        text = _without_rest(text, form)
    return text


def _without_rest(text: str, form: str) -> str:
    for begin in range(1, len(form) - SHORTEST_REST + 1):
        rest = form[begin:]
        if text.startswith(rest):
            return MASK + text[len(rest) :]
    return text


def check_name(name: str) -> None:
    """Raises InvalidInput (name) for what no secret may be called."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            "name", "A name has up to 64 capital letters, digits and _, beginning with a letter: HF_TOKEN."
        )
    if name.startswith(RESERVED):
        raise InvalidInput("name", f"{name} could change what a job runs, or how: it cannot be a secret.")
    if name not in COMMON and not name.endswith(ENDINGS):
        endings = ", ".join(ENDINGS)
        raise InvalidInput(
            "name", f"A secret is a credential: its name is HF_TOKEN or ends with one of {endings}."
        )


SHORTEST, LONGEST = 8, 4096  # characters; a shorter value would take innocent words out of logs


@transaction.atomic
def set_secret(project: Project, *, name: str, value: str, user: User) -> bool:
    """Store the value under this name; True where there was none before. It is not shown again, to anybody.

    Raises InvalidInput (name, value).
    """
    name, value = name.strip(), value.strip()
    check_name(name)
    _check_value(value)
    Project.objects.select_for_update().get(pk=project.pk)  # two tabs set one after the other
    live = live_secrets(project)
    is_new = not live.filter(name=name).exists()
    if is_new and live.count() >= MOST:
        raise InvalidInput("name", f"A project has at most {MOST} secrets; delete one first.")
    _retire(live.filter(name=name))
    ProjectSecret.objects.create(
        project=project, name=name, ciphertext=encrypt(project.pk, name, value), set_by=user
    )
    verb = "secret.set" if is_new else "secret.replaced"
    record(verb, actor=user, project=project, kind="secret", key=name, name=name)
    return is_new


@transaction.atomic
def delete_secret(project: Project, *, name: str, user: User) -> None:
    """Jobs that start from now on do without it. Raises NotFound for a name that is not there."""
    if not _retire(live_secrets(project).filter(name=name)):
        raise NotFound(f"There is no secret {name}.")
    record("secret.deleted", actor=user, project=project, kind="secret", key=name, name=name)


def live_secrets(project: Project) -> QuerySet[ProjectSecret]:
    """Those that a job would be given, by name, without their values."""
    found = ProjectSecret.objects.filter(project=project, retired_at=None)
    return found.select_related("set_by").defer("ciphertext").order_by("name")


def hand_to_job(project: Project) -> dict[str, str]:
    """Name -> value for a job that is being submitted; notes that they were used.

    Raises RuntimeError, naming the secret, where no key opens it: the operator must bring the key back, or an admin
    set the secret anew.
    """
    rows = list(ProjectSecret.objects.filter(project=project, retired_at=None).order_by("name"))
    try:
        values = {row.name: decrypt(project.pk, row.name, row.ciphertext) for row in rows}
    except Undecipherable as error:
        raise RuntimeError(
            f"the secret {error} of this project cannot be opened with the keys of this installation; set it anew"
        ) from None
    if rows:
        ProjectSecret.objects.filter(pk__in=[row.pk for row in rows]).update(last_used_at=timezone.now())
    return values


def redact(project_id: int, text: str) -> str:
    """The text without any value that a job of this project may have been given."""
    return redact_many([(project_id, text)])[0]


def redact_many(texts: Sequence[tuple[int, str]]) -> list[str]:
    """(project, text): each text without any value that a job of its project may have been given. One query."""
    values = values_of({project_id for project_id, text in texts if text})
    return [redacted(text, values.get(project_id, ())) if text else text for project_id, text in texts]


def values_of(project_ids: Collection[int]) -> dict[int, list[str]]:
    """Project -> every value that one of its jobs may have been given, to be taken out of texts. One query."""
    found: dict[int, list[str]] = {}
    for row in ProjectSecret.objects.filter(project_id__in=project_ids) if project_ids else ():
        try:
            found.setdefault(row.project_id, []).append(decrypt(row.project_id, row.name, row.ciphertext))
        except Undecipherable:
            log.warning("a secret of project %s cannot be opened: logs are not cleaned of it", row.project_id)
    return found


@transaction.atomic
def encrypt_anew() -> int:
    """Encrypt every secret with the first key; returns how many. Raises Undecipherable, changing nothing."""
    rows = list(ProjectSecret.objects.select_for_update().order_by("pk"))
    for row in rows:
        value = decrypt(row.project_id, row.name, row.ciphertext)
        row.ciphertext = encrypt(row.project_id, row.name, value)
        row.save(update_fields=["ciphertext"])
    return len(rows)


def _retire(secrets: QuerySet[ProjectSecret]) -> int:
    return secrets.select_related(None).update(retired_at=timezone.now())


def _check_value(value: str) -> None:
    if not SHORTEST <= len(value) <= LONGEST:
        raise InvalidInput("value", f"A value has {SHORTEST} to {LONGEST:,} characters.")
    if not (value.isascii() and value.isprintable()):
        raise InvalidInput("value", "A value is one line of printable ASCII characters.")
