"""Making runs: launched on the cluster, tracked from elsewhere, resumed; and what the worker submits for them."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from stack import environment
from training.recipe import RecipeError, parse_recipe, resolve
from webapp import nudge
from webapp.accounts.models import Project, Scope, User
from webapp.accounts.permissions import Permission, require
from webapp.accounts.services import create_token
from webapp.audit.services import record
from webapp.errors import Conflict, InvalidInput, NoRoom
from webapp.health.disk import why_no_room
from webapp.recipes.models import Revision
from webapp.recipes.selectors import find_revision
from webapp.recipes.services import parse_config
from webapp.runs import places
from webapp.runs.models import Dispatch, IdempotencyKey, Run, State
from webapp.runs.selectors import has_checkpoint, used_hours
from webapp.runs.states import ENDED, INSTALLATION, move, new_attempt, note_made, queue_next_attempt
from webapp.secrets.services import hand_to_job
from worker import names

MAX_SEED = 2**31 - 1
MAX_BUDGET_HOURS = 1e6  # 114 device-years: more is a slip of the pen
MAX_NAME = 120
MAX_RETRIES = 100
MAX_KEY = 200
UNSTATED = "unspecified"  # task or model that a tracked run did not name
SPENT_SHARE = 0.999  # of the budget: nothing worth a resume is left
CLUSTER_THREADS = "1"


@dataclass(frozen=True)
class Launched:
    """A run and whether this very call made it (False: the Idempotency-Key was used before)."""

    run: Run
    created: bool


@dataclass(frozen=True)
class JobSpec:
    """What the worker hands to Ray Jobs. `token` goes into `run_dir/token`, mode 0600, never into `env`; so do
    `secrets` (name -> value), into `secrets_path`."""

    run_dir: Path
    recipe: dict[str, Any]
    submission_id: str
    env: dict[str, str]
    resume: bool
    token: str = field(repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secrets_path(self) -> Path:
        """Each attempt has a file of its own; its driver deletes it."""
        return self.run_dir / f"{self.submission_id}.secrets.json"


def launch_run(**request: Any) -> Run:
    """The run of `launch_run_once` alone."""
    return launch_run_once(**request).run


def launch_run_once(
    *,
    user: User | None,
    project: Project,
    recipe: str,
    revision: int | None = None,
    task: str,
    model: str,
    seed: int,
    budget_hours: float,
    name: str = "",
    priority: int = Run.Priority.NORMAL,
    retries: int | None = None,
    draft: bool = False,
    idempotency_key: str | None = None,
) -> Launched:
    """Store a run, its first attempt and its dispatch row in one transaction, and nudge the worker. A `draft` is stored
    alone; `drafts.launch_draft` does the rest later.

    `retries`: how often it may go on by itself after failures of the infrastructure; None: as the installation says.
    `user` None is the installation itself; a person needs LAUNCH. Raises Forbidden or NotFound without it, InvalidInput
    (fields recipe, revision, task, model, seed, budget_hours, name, priority, retries), also where the project's quota
    does not reach, and Conflict where the Idempotency-Key was used for another request. On an error nothing is stored.
    """
    if user is not None:
        require(user, project, Permission.LAUNCH)
    body = {
        "recipe": recipe,
        "revision": revision,
        "task": task,
        "model": model,
        "seed": seed,
        "budget_hours": budget_hours,
        "name": name,
    }
    plain = {"priority": Run.Priority.NORMAL, "retries": None, "draft": False}
    asked = {"priority": priority, "retries": retries, "draft": draft}
    body |= {key: value for key, value in asked.items() if value != plain[key]}

    def make() -> Run:
        _check_numbers(seed, budget_hours)
        places.check_priority(priority)
        _check_retries(retries)
        if not draft:
            if no_room := why_no_room():
                raise NoRoom(no_room)
            places.check_quota(project, budget_hours)
        found = _revision(project, recipe, revision)
        run = Run.objects.create(
            project=project,
            revision=found,
            name=_clean_name(name) or found.recipe.name,
            task=task,
            model=model,
            seed=seed,
            budget_hours=budget_hours,
            config=resolved_config(found, task=task, model=model, seed=seed, budget_hours=budget_hours),
            priority=priority,
            retry_limit=retries,
            state=State.DRAFT if draft else State.QUEUED,
            created_by=user,
        )
        note_made(run, actor=user)
        if draft:
            _record("run.drafted", run, user, revision=str(found), seed=seed, budget_hours=budget_hours)
        else:
            _send_first_attempt(run, user)
        return run

    return _once(project, idempotency_key, body, make)


def queue_first_attempt(run: Run, user: User | None) -> bool:
    """From a draft to its first attempt, queued; part of the caller's transaction. False where it is no draft any more.

    Raises InvalidInput (budget_hours) where the project's quota does not reach.
    """
    places.check_quota(run.project, run.budget_hours or 0.0)
    part = "" if user else INSTALLATION
    if not move(run, State.QUEUED, attempt=1, leaving={State.DRAFT}, actor=user, part=part):
        return False
    _send_first_attempt(run, user)
    return True


def _send_first_attempt(run: Run, user: User | None) -> None:
    new_attempt(run, 1, State.QUEUED)
    _dispatch(run, Dispatch.Kind.SUBMIT, 1)
    _record(
        "run.launched", run, user, revision=str(run.revision), seed=run.seed, budget_hours=run.budget_hours
    )


def track_run(**request: Any) -> Run:
    """The run of `track_run_once` alone."""
    return track_run_once(**request).run


def track_run_once(
    *,
    user: User | None,
    project: Project,
    name: str = "",
    task: str = "",
    model: str = "",
    config: Mapping[str, Any] | None = None,
    recipe: str | None = None,
    seed: int = 0,
    idempotency_key: str | None = None,
) -> Launched:
    """A run whose trainer works elsewhere and only reports here; it is running from the start.

    Raises InvalidInput (fields name, task, model, recipe, seed) and Conflict for a used Idempotency-Key.
    """
    body = {"tracked": True, "name": name, "task": task, "model": model, "recipe": recipe, "seed": seed}
    body["config"] = config

    def make() -> Run:
        _check_seed(seed)
        run = Run.objects.create(
            project=project,
            revision=_revision(project, recipe, None) if recipe is not None else None,
            origin=Run.Origin.TRACKED,
            name=_clean_name(name) or "tracked run",
            task=_clean_text("task", task, 80) or UNSTATED,
            model=_clean_text("model", model, 200) or UNSTATED,
            seed=seed,
            config=dict(config or {}),
            state=State.RUNNING,
            started_at=timezone.now(),
            created_by=user,
        )
        new_attempt(run, 1, State.RUNNING)
        note_made(run, actor=user)
        _record("run.tracked", run, user)
        return run

    return _once(project, idempotency_key, body, make)


@transaction.atomic
def resume_run(run: Run, *, user: User | None) -> Run:
    """Queue the next attempt of an ended run; its driver goes on from the newest checkpoint.

    A person needs LAUNCH. Raises Forbidden or NotFound without it, Conflict where the run has not ended, is tracked,
    or has spent its budget, and InvalidInput (budget_hours) where the project's quota does not reach. Where no
    checkpoint was written the attempt begins anew, and says so.
    """
    if user is not None:
        require(user, run.project, Permission.LAUNCH)
    if run.origin == Run.Origin.TRACKED:
        raise Conflict("This run trains elsewhere; resume it there.")
    if run.state not in ENDED:
        raise Conflict(f"This run is {run.state}; only an ended run can be resumed.")
    used = used_hours(run)
    if run.budget_hours is not None and used >= SPENT_SHARE * run.budget_hours:
        raise Conflict(
            f"The budget of {run.budget_hours:g} device-hours is spent; extend it, or launch a new run."
        )
    places.check_quota(run.project, max(0.0, (run.budget_hours or 0.0) - used))
    if no_room := why_no_room():
        raise Conflict(no_room)
    before = run.attempt_number
    was_lost = run.state == State.LOST
    reason = "" if not used or has_checkpoint(run) else "There is no checkpoint: it begins anew."
    if not queue_next_attempt(run, reason=reason, actor=user, part="" if user else INSTALLATION):
        run.refresh_from_db()
        raise Conflict(
            f"This run was changed meanwhile: it is {run.state} now, attempt {run.attempt_number}."
        )
    if was_lost:  # it may still be training somewhere
        _dispatch(run, Dispatch.Kind.STOP, before)
    _dispatch(run, Dispatch.Kind.SUBMIT, run.attempt_number)
    _record("run.resumed", run, user, attempt=run.attempt_number)
    return run


def resolved_config(
    revision: Revision, *, task: str, model: str, seed: int, budget_hours: float
) -> dict[str, Any]:
    """The configuration that the run will train with. Raises InvalidInput for task, model, seed or budget_hours."""
    try:
        resolved = resolve(
            parse_config(revision.config),
            task=task,
            model=model,
            seed=seed,
            device_hours=budget_hours,
            home=settings.HEADROOM_HOME,
        )
    except RecipeError as error:
        raise InvalidInput(error.field or "recipe", f"{error.field or 'recipe'}: {error.reason}.") from error
    return resolved.model_dump(mode="json")


def job_spec(dispatch: Dispatch) -> JobSpec:
    """What to submit for a claimed dispatch row, with a new token that can report this attempt and nothing else.

    Raises RuntimeError where nobody has said under which address the cluster reaches this server, where a secret of the
    project cannot be opened, or where a Headroom of another version launched the run and this one cannot read it.
    """
    run = dispatch.run
    _check_schema(run)
    url = settings.HEADROOM_URL or environment.services().web_url
    if not url:
        raise RuntimeError("HEADROOM_URL is not set: the job would not know where to report")
    run_dir = Path(settings.HEADROOM_HOME) / "runs" / run.pk
    return _with_secrets_file(
        JobSpec(
            run_dir=run_dir,
            recipe=run.config,
            submission_id=f"run-{run.pk}-a{dispatch.attempt}",
            env={
                "HEADROOM_HOME": str(settings.HEADROOM_HOME),
                "HEADROOM_URL": url,
                "HEADROOM_TOKEN_FILE": str(run_dir / "token"),
                "HEADROOM_RUN": run.pk,
                "HEADROOM_ATTEMPT": str(dispatch.attempt),
                "PYTHONPATH": str(settings.BASE_DIR),
                "OMP_NUM_THREADS": CLUSTER_THREADS,
            },
            resume=dispatch.attempt > 1,
            token=create_token(
                user=None, project=run.project, scope=Scope.WRITE, run=run, attempt=dispatch.attempt
            ),
            secrets=hand_to_job(run.project),
        )
    )


def _check_schema(run: Run) -> None:
    try:
        parse_recipe(run.config)
    except RecipeError as error:
        raise RuntimeError(
            f"this worker is of another version than what launched the run, and cannot read its recipe "
            f"({error.field}: {error.reason}); a worker of that version will take it"
        ) from None


def _with_secrets_file(spec: JobSpec) -> JobSpec:
    """The driver is told of the file's place where there is one; never of its content."""
    if not spec.secrets:
        return spec
    return replace(spec, env=spec.env | {"HEADROOM_SECRETS_FILE": str(spec.secrets_path)})


def _record(verb: str, run: Run, user: User | None, **detail: Any) -> None:
    record(verb, actor=user, project=run.project, kind="run", key=run.pk, name=run.name, **detail)


def _dispatch(run: Run, kind: Dispatch.Kind, attempt: int) -> None:
    Dispatch.objects.get_or_create(run=run, attempt=attempt, kind=kind)
    nudge.send(names.DISPATCH, run.pk)


def _once(project: Project, key: str | None, body: Mapping[str, Any], make: Callable[[], Run]) -> Launched:
    """Make the run, or find the one that this key made. A key that races with itself loses to the first commit."""
    if key is None:
        with transaction.atomic():
            return Launched(make(), created=True)
    if not 1 <= len(key) <= MAX_KEY or not key.isprintable():
        raise InvalidInput(
            "Idempotency-Key", f"Idempotency-Key must have 1 to {MAX_KEY} printable characters."
        )
    digest = hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
    if (known := _known(project, key, digest)) is not None:
        return known
    try:
        with transaction.atomic():
            run = make()
            IdempotencyKey.objects.create(project=project, key=key, body_digest=digest, run=run)
        return Launched(run, created=True)
    except IntegrityError:
        if (known := _known(project, key, digest)) is not None:
            return known
        raise


def _known(project: Project, key: str, digest: str) -> Launched | None:
    used = IdempotencyKey.objects.filter(project=project, key=key).select_related("run").first()
    if used is None:
        return None
    if used.body_digest != digest:
        message = f"Idempotency-Key {key!r} was used for another request, which made run {used.run_id}."
        raise Conflict(message, field="Idempotency-Key")
    return Launched(used.run, created=False)


def _revision(project: Project, slug: str, number: int | None) -> Revision:
    found = find_revision(project, slug, number)
    if found is not None:
        return found
    if number is not None and find_revision(project, slug, None) is not None:
        raise InvalidInput("revision", f"The recipe {slug} has no revision {number}.")
    raise InvalidInput("recipe", f"There is no recipe {slug}.")


def _check_numbers(seed: int, budget_hours: float) -> None:
    _check_seed(seed)
    if isinstance(budget_hours, bool) or not isinstance(budget_hours, int | float):
        raise InvalidInput("budget_hours", "budget_hours must be a number of device-hours.")
    if not math.isfinite(budget_hours) or not 0 < budget_hours <= MAX_BUDGET_HOURS:
        raise InvalidInput(
            "budget_hours", f"budget_hours must be above 0 and at most {MAX_BUDGET_HOURS:,.0f} device-hours."
        )


def _check_retries(retries: int | None) -> None:
    if retries is not None and (isinstance(retries, bool) or not 0 <= retries <= MAX_RETRIES):
        raise InvalidInput("retries", f"retries must be a whole number from 0 to {MAX_RETRIES}, or empty.")


def _check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise InvalidInput("seed", f"seed must be a whole number from 0 to {MAX_SEED}.")


def _clean_name(name: str) -> str:
    return _clean_text("name", name, MAX_NAME)


def _clean_text(field: str, value: str, limit: int) -> str:
    text = value.strip()
    if len(text) > limit or not text.isprintable():
        raise InvalidInput(field, f"{field} must have at most {limit} characters, all of them printable.")
    return text
