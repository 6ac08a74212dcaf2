"""Making runs: launched on the cluster, tracked from elsewhere, resumed; and what the worker submits for them.

A request that may come twice: its Idempotency-Key finds the run that the first one made.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from headroom.adapters.naming import model_of, seed_of
from observability import tracing
from observability.context import bound
from stack import environment
from training.recipe import Recipe, RecipeError, parse_recipe, resolve
from webapp.base.claims import body_digest, check_same, checked_key, once
from webapp.base.errors import Conflict, InvalidInput, NoRoom
from webapp.identity.accounts.models import Project, User
from webapp.identity.secrets.services import hand_to_job
from webapp.record.recipes.models import Revision
from webapp.record.recipes.selectors import find_revision
from webapp.record.recipes.services import check_model_place, parse_config
from webapp.record.runs import outbox, places
from webapp.record.runs.bounds import (
    MAX_MODEL,
    MAX_TASK,
    SPENT_SHARE,
    check_budget,
    check_config,
    check_retries,
    check_seed,
    clean_name,
    clean_text,
)
from webapp.record.runs.models import Dispatch, IdempotencyKey, Run, State, submission_id_of
from webapp.record.runs.selectors import begins_anew, used_hours
from webapp.record.runs.states import (
    ENDED,
    INSTALLATION,
    move,
    new_attempt,
    note_made,
    queue_next_attempt,
    record_run,
)
from webapp.record.runs.tokens import create_job_token

log = logging.getLogger(__name__)
UNSTATED = "unspecified"  # task or model that a tracked run did not name
CLUSTER_THREADS = "1"


@dataclass(frozen=True)
class Launched:
    """A run and whether this very call made it (False: the Idempotency-Key was used before)."""

    run: Run
    created: bool


def run_once(project: Project, key: str | None, body: Mapping[str, Any], make: Callable[[], Run]) -> Launched:
    """Make the run, or find the one that this key made. A key that races with itself loses to the first commit.

    Raises InvalidInput (Idempotency-Key), and Conflict where the key was used with another `body`.
    """
    checked_key(key)
    if key is None:
        with transaction.atomic():
            return Launched(make(), created=True)
    digest, given = body_digest(body), key

    def known() -> Run | None:
        used = IdempotencyKey.objects.filter(project=project, key=key).select_related("run").first()
        if used is None:
            return None
        check_same(used.key, used.body_digest, digest, f"run {used.run_id}")
        return used.run

    def made() -> Run:
        run = make()
        IdempotencyKey.objects.create(project=project, key=given, body_digest=digest, run=run)
        return run

    return Launched(*once(known, made))


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


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """What a launch asks for, as form and API have built it. revision None: the newest; `retries`: how often it may go
    on by itself after failures of the infrastructure, None: as the installation says; a `draft` is stored alone."""

    recipe: str
    revision: int | None = None
    task: str
    model: str
    seed: int
    budget_hours: float
    name: str = ""
    priority: int = Run.Priority.NORMAL
    retries: int | None = None
    draft: bool = False

    def check(self) -> None:
        """Raises InvalidInput (seed, budget_hours, retries, name)."""
        check_seed(self.seed)
        check_budget(self.budget_hours)
        check_retries(self.retries)
        clean_name(self.name)

    @property
    def body(self) -> dict[str, Any]:
        """What two requests of one Idempotency-Key must have in common; what came later counts only where it is set."""
        plain = {"priority": Run.Priority.NORMAL, "retries": None, "draft": False}
        return {key: value for key, value in asdict(self).items() if key not in plain or value != plain[key]}


def launch_run(
    request: LaunchRequest, *, user: User | None, project: Project, idempotency_key: str | None = None
) -> Launched:
    """Store a run, its first attempt and its dispatch row in one transaction, and tell the worker. Of a draft the run
    alone; `drafts.launch_draft` does the rest later.

    `user` None is the installation itself. Raises InvalidInput (fields recipe, revision, task, model, seed,
    budget_hours, name, priority, retries), also where the project's quota does not reach, NoRoom where the disk is
    full, and Conflict where the Idempotency-Key was used for another request. On an error nothing is stored.
    """
    return run_once(project, idempotency_key, request.body, lambda: _make(request, project, user))


def objections(project: Project, hours: float) -> list[InvalidInput]:
    """What would refuse a launch of `hours` at this moment, however right its settings are: the quota, a full disk."""
    beyond, no_room = places.beyond_quota(project, hours), outbox.why_refused()
    found = [InvalidInput("budget_hours", beyond)] if beyond else []
    return found + ([NoRoom(no_room)] if no_room else [])


def _make(request: LaunchRequest, project: Project, user: User | None) -> Run:
    request.check()
    places.check_priority(request.priority, user=user, project=project)
    if not request.draft:
        places.check_quota(project, request.budget_hours)
    found = revision_of(project, request.recipe, request.revision)
    said: dict[str, Any] = {
        "task": request.task, "model": request.model, "seed": request.seed, "budget_hours": request.budget_hours,
    }  # fmt: skip
    run = Run.objects.create(
        project=project,
        revision=found,
        name=clean_name(request.name) or found.recipe.name,
        config=resolved_config(parse_config(found.config), **said),
        priority=request.priority,
        retry_limit=request.retries,
        state=State.DRAFT if request.draft else State.QUEUED,
        created_by=user,
        **said,
    )
    note_made(run, actor=user)
    if request.draft:
        record_run(
            "run.drafted", run, user, revision=str(found), seed=run.seed, budget_hours=run.budget_hours
        )
    else:
        _send_first_attempt(run, user)
    return run


def queue_first_attempt(run: Run, user: User | None) -> bool:
    """From a draft to its first attempt, queued; part of the caller's transaction. False where it is no draft any more.

    Raises InvalidInput (budget_hours) where the project's quota does not reach, and NoRoom where the disk is full.
    """
    places.check_quota(run.project, run.budget_hours or 0.0)
    part = "" if user else INSTALLATION
    if not move(run, State.QUEUED, attempt=1, leaving={State.DRAFT}, actor=user, part=part):
        return False
    _send_first_attempt(run, user)
    return True


def _send_first_attempt(run: Run, user: User | None) -> None:
    with tracing.span("launch", run=run.pk, attempt="1"):
        new_attempt(run, 1, State.QUEUED)
        outbox.submit(run, 1)
    _say("launched", run, 1)
    record_run(
        "run.launched", run, user, revision=str(run.revision), seed=run.seed, budget_hours=run.budget_hours
    )


@dataclass(frozen=True, kw_only=True)
class TrackRequest:
    """A run whose trainer works elsewhere and only reports here. `recipe`: the slug of what it trains, where known."""

    name: str = ""
    task: str = ""
    model: str = ""
    config: Mapping[str, Any] | None = None
    recipe: str | None = None
    seed: int = 0


def said_in(config: Mapping[str, Any]) -> dict[str, Any]:
    """`model` and `seed`, where what a trainer says of its configuration has them."""
    model = "".join(letter for letter in model_of(config) if letter.isprintable()).strip()[:MAX_MODEL]
    return {name: value for name, value in (("model", model), ("seed", seed_of(config))) if value}


def track_run(
    request: TrackRequest, *, user: User | None, project: Project, idempotency_key: str | None = None
) -> Launched:
    """A tracked run; it is running from the start. Model and seed that are not said are those of its configuration.

    Raises InvalidInput (fields name, task, model, recipe, seed) and Conflict for a used Idempotency-Key.
    """

    def make() -> Run:
        check_seed(request.seed)
        check_config(request.config or {})
        recipe = request.recipe
        said = {"model": clean_text("model", request.model, MAX_MODEL), "seed": request.seed}
        given = {field: value for field, value in said.items() if value}
        run = Run.objects.create(
            project=project,
            revision=revision_of(project, recipe, None) if recipe is not None else None,
            origin=Run.Origin.TRACKED,
            name=clean_name(request.name) or "tracked run",
            task=clean_text("task", request.task, MAX_TASK) or UNSTATED,
            **{"model": UNSTATED, "seed": 0} | said_in(request.config or {}) | given,
            config=dict(request.config or {}),
            state=State.RUNNING,
            started_at=timezone.now(),
            created_by=user,
        )
        new_attempt(run, 1, State.RUNNING)
        note_made(run, actor=user)
        record_run("run.tracked", run, user)
        return run

    return run_once(project, idempotency_key, {"tracked": True} | vars(request), make)


@transaction.atomic
def resume_run(run: Run, *, user: User | None) -> Run:
    """Queue the next attempt of an ended run; its driver goes on from the newest checkpoint.

    Raises Conflict where the run has not ended, is tracked,
    or has spent its budget, InvalidInput (budget_hours) where the project's quota does not reach, and NoRoom where the
    disk is full. Where there is no checkpoint the attempt begins anew, and says so.
    """
    if run.origin == Run.Origin.TRACKED:
        raise Conflict("This run trains elsewhere; resume it there.")
    if run.state not in ENDED:
        raise Conflict(f"This run is {run.state}; only an ended run can be resumed.")
    used = used_hours(run)
    if run.budget_hours is not None and used >= SPENT_SHARE * run.budget_hours:
        raise Conflict(
            f"The budget of {run.budget_hours:,.7g} device-hours is spent; extend it, or launch a new run."
        )
    places.check_quota(run.project, max(0.0, (run.budget_hours or 0.0) - used))
    before = run.attempt_number
    was_lost = run.state == State.LOST
    reason = "There is no checkpoint: it begins anew." if begins_anew(run) else ""
    if not queue_next_attempt(run, reason=reason, actor=user, part="" if user else INSTALLATION):
        run.refresh_from_db()
        raise Conflict(
            f"This run was changed meanwhile: it is {run.state} now, attempt {run.attempt_number}."
        )
    if was_lost:  # it may still be training somewhere
        outbox.stop(run, before)
    with tracing.span("launch", run=run.pk, attempt=str(run.attempt_number)):
        outbox.submit(run, run.attempt_number)
    _say("resumed", run, run.attempt_number)
    record_run("run.resumed", run, user, attempt=run.attempt_number)
    return run


def resolved_config(
    recipe: Recipe, *, task: str, model: str, seed: int, budget_hours: float
) -> dict[str, Any]:
    """The configuration that the run will train with. Raises InvalidInput for task, model, seed or budget_hours."""
    home = settings.HEADROOM_HOME
    try:
        check_model_place(model)
        resolved = resolve(recipe, task=task, model=model, seed=seed, device_hours=budget_hours, home=home)
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
    spec = JobSpec(
        run_dir=run_dir,
        recipe=run.config,
        submission_id=submission_id_of(run.pk, dispatch.attempt),
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
        token=create_job_token(run, dispatch.attempt),
        secrets=hand_to_job(run.project),
    )
    if spec.secrets:  # the driver is told of the file's place where there is one; never of its content
        spec.env["HEADROOM_SECRETS_FILE"] = str(spec.secrets_path)
    return spec


def _check_schema(run: Run) -> None:
    try:
        parse_recipe(run.config)
    except RecipeError as error:
        raise RuntimeError(
            f"this worker is of another version than what launched the run, and cannot read its recipe "
            f"({error.field}: {error.reason}); a worker of that version will take it"
        ) from None


def _say(done: str, run: Run, attempt: int) -> None:
    """Where a click's lines in the log begin."""
    with bound(run=run.pk, attempt=attempt):
        log.info("run %s is %s", run.pk, done)


def revision_of(project: Project, slug: str, number: int | None) -> Revision:
    """A recipe's revision by number, or its newest. Raises InvalidInput (recipe, revision)."""
    if (found := find_revision(project, slug, number)) is not None:
        return found
    if number is not None and find_revision(project, slug, None) is not None:
        raise InvalidInput("revision", f"The recipe {slug} has no revision {number}.")
    raise InvalidInput("recipe", f"There is no recipe {slug}.")
