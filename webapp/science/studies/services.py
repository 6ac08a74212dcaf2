"""Studies: every write. A study, the revisions that it needs and its runs are one transaction.

Studies: what they are called, and whether the list still shows them. Runs and results are never touched by this.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, Max
from django.utils import timezone

from webapp.base.claims import body_digest, check_same, checked_key, once
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.recipes.services import add_revision, create_recipe
from webapp.record.runs.launch import LaunchRequest, launch_run
from webapp.record.runs.launch_set import MAX_RUNS
from webapp.record.runs.lifecycle import cancel_run
from webapp.record.runs.models import Run
from webapp.record.runs.states import ACTIVE
from webapp.science.studies.axes import base_number, base_value
from webapp.science.studies.models import Arm, Study, StudyKind, StudyRun
from webapp.science.studies.planning import (
    SAYS_NOTHING,
    Plan,
    StudyRequest,
    Variant,
    base_of,
    check_seeds,
    plan_of,
    what_it_trains,
)

MAX_NAME = 120
SLUG_LENGTH = 80


@dataclass(frozen=True)
class Created:
    """A study and whether this very call made it (False: the Idempotency-Key was used before)."""

    study: Study
    created: bool


def create_study(
    request: StudyRequest, *, user: User | None, project: Project, idempotency_key: str | None = None
) -> Created:
    """Store a study with its revisions and launch its runs, all of them or nothing.

    The same key and request give the same study. Raises InvalidInput (name, kind, and the fields of
    `webapp.science.studies.planning.plan`) and Conflict where the key was used for another request.
    """
    key, base = checked_key(idempotency_key), base_of(project, request)
    said = asdict(request) | {"task": base.task, "model": base.model, "budget_hours": base.budget_hours}
    digest = body_digest(said)

    def made() -> Study:
        title = checked_name(request.name)
        if request.kind not in StudyKind.values:
            raise InvalidInput("kind", f"kind must be one of {', '.join(StudyKind.values)}.")
        planned = plan_of(base, request)
        study = Study.objects.create(
            project=project, name=title, kind=request.kind, base=base.revision, task=base.task, model=base.model,
            budget_hours=base.budget_hours, seeds=[], idempotency_key=key, body_digest=digest, created_by=user,
        )  # fmt: skip
        for position, variant in enumerate(planned.variants):
            _store_arm(study, position, variant, planned, user)
        record_change("study.created", study, user)
        launch_seeds(study, request.seeds, user=user)
        return study

    return Created(*once(lambda: _known(project, key, digest), made))


def record_change(verb: str, study: Study, user: User | None, **detail: Any) -> None:
    """Note in the audit log what a person did to a study."""
    record(verb, actor=user, project=study.project, kind="study", key=study.pk, name=study.name, **detail)


def _store_arm(study: Study, position: int, variant: Variant, planned: Plan, user: User | None) -> Arm:
    """The base, told where it stands on the axis of a study of one axis; or a variant with its revision."""
    change, same_axis = variant.change, {one.change.axis for one in planned.variants if one.change}
    base = planned.variants[0]
    base_config = base.config.model_copy(update={"model": base.model})
    if change is None:
        axis = same_axis.pop() if len(same_axis) == 1 else ""
        titles = {one.change.axis_title for one in planned.variants if one.change}
        return Arm.objects.create(
            study=study,
            position=position,
            axis=axis,
            axis_title=titles.pop() if axis else "",
            value=base_value(axis, base_config)[:200] if axis else "",
            number=base_number(axis, base_config) if axis else None,
            label="Base",
            sentence=f"{planned.base.recipe.name} as it is.",
            revision=planned.base,
            task=variant.task,
            model=variant.model,
        )
    return Arm.objects.create(
        study=study,
        position=position,
        axis=change.axis[:120],
        axis_title=change.axis_title[:120],
        value=change.value[:200],
        number=change.number,
        label=change.label[:120],
        sentence=change.sentence,
        revision=_revision_for(study, variant, planned.base, user),
        task=variant.task,
        model=variant.model,
    )


def _revision_for(study: Study, variant: Variant, base: Revision, user: User | None) -> Revision:
    """A revision that trains exactly this: one that is there already, else a new one in a recipe of its own.

    Never in the base's recipe: its newest revision is what people launch by its name.
    """
    assert variant.change is not None
    wanted = what_it_trains(variant.config)
    if wanted == _trained_by(base):  # another model or task alone
        return base
    own_slug = _slug(f"{base.recipe.slug}-{variant.change.token}")
    shipped = (
        base.recipe.slug.removesuffix("scalerl") + variant.change.recipe if variant.change.recipe else ""
    )
    candidates = Revision.objects.filter(
        recipe__project=study.project, recipe__slug__in=[own_slug, shipped]
    ).select_related("recipe")
    for revision in candidates.order_by("recipe_id", "-number"):
        if _trained_by(revision) == wanted:
            return revision
    return _new_revision(study, variant, base, own_slug, user)


def _trained_by(revision: Revision) -> dict:
    return {name: value for name, value in revision.config.items() if name not in SAYS_NOTHING}


def _new_revision(study: Study, variant: Variant, base: Revision, slug: str, user: User | None) -> Revision:
    assert variant.change is not None
    message = f"Study {study.name}: {base} with {variant.change.token}"[:300]
    names = {
        "name": slug,
        "title": f"{base.recipe.name}: {variant.label}"[:100],
        "description": f"{base} with one change: {variant.change.token}.",
    }
    config = what_it_trains(variant.config) | names
    if (recipe := Recipe.objects.filter(project=study.project, slug=slug).first()) is None:
        recipe = create_recipe(
            project=study.project,
            slug=slug,
            name=names["title"],
            config=config,
            description=names["description"],
            message=message,
            user=user,
        )
        return recipe.revisions.select_related("recipe").get()
    revision, _ = add_revision(recipe=recipe, config=config, message=message, user=user)
    return revision


def _slug(text: str) -> str:
    """A slug for a recipe; a digest keeps long ones apart."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if len(plain) <= SLUG_LENGTH:
        return plain
    return f"{plain[: SLUG_LENGTH - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@transaction.atomic
def launch_seeds(study: Study, seeds: Sequence[int], *, user: User | None) -> int:
    """Launch every variant with each of these seeds; what was launched before is left alone. Returns how many are new.

    Raises InvalidInput (field seeds, and those of a launch),
    and Conflict where the study is archived.
    """
    check_seeds(seeds)
    study = Study.objects.select_for_update().select_related("project").get(pk=study.pk)
    if study.archived_at is not None:
        raise Conflict("This study is archived: take it out of the archive first.")
    arms = [arm for arm in study.arms.select_related("revision__recipe") if arm.revision and not arm.by_hand]
    new_seeds = [seed for seed in seeds if seed not in study.seeds]
    if len(arms) * len(new_seeds) + study.members.count() > MAX_RUNS:
        raise InvalidInput("seeds", f"A study has at most {MAX_RUNS} runs.")
    for seed in new_seeds:
        for arm in arms:
            StudyRun.objects.create(study=study, arm=arm, run=_launch(study, arm, seed, user))
    if new_seeds:
        _bump(study, seeds=sorted([*study.seeds, *new_seeds]))
        record_change("study.seeds_launched", study, user, seeds=new_seeds)
    return len(arms) * len(new_seeds)


def _launch(study: Study, arm: Arm, seed: int, user: User | None) -> Run:
    assert arm.revision is not None
    request = LaunchRequest(
        recipe=arm.revision.recipe.slug,
        revision=arm.revision.number,
        task=arm.task,
        model=arm.model,
        seed=seed,
        budget_hours=study.budget_hours,
        name=f"{arm.revision.recipe.name if arm.is_base else arm.label}"[:MAX_NAME],
    )
    key = f"study/{study.pk}/{arm.position}/{seed}"
    return launch_run(request, user=user, project=study.project, idempotency_key=key).run


@transaction.atomic
def add_run(study: Study, run: Run, *, user: User | None = None, position: int | None = None) -> Arm:
    """Put a run of the project into the study: into the variant at `position`, else that of its own revision, else one
    of its own.

    Raises InvalidInput (field run or arm) and Conflict where it is in the study already.
    """
    if run.project_id != study.project_id:
        raise InvalidInput("run", f"There is no run {run.pk} in this project.")
    Study.objects.select_for_update().get(pk=study.pk)
    if StudyRun.objects.filter(study=study, run=run).exists():
        raise Conflict(f"The run {run.pk} is in this study already.", field="run")
    if study.members.count() >= MAX_RUNS:
        raise Conflict(f"A study has at most {MAX_RUNS} runs.", field="run")
    arm = _arm_for(study, run, position)
    StudyRun.objects.create(study=study, run=run, arm=arm)
    _bump(study)
    record_change("study.run_added", study, user, run=run.pk)
    return arm


def _arm_for(study: Study, run: Run, position: int | None) -> Arm:
    if position is not None:
        if (found := study.arms.filter(position=position).first()) is None:
            raise InvalidInput("arm", f"The study has no variant {position}.")
        return found
    if run.revision_id is not None:
        same = study.arms.filter(revision=run.revision_id, task=run.task, model=run.model).first()
        if same is not None:
            return same
    last = study.arms.aggregate(last=Max("position"))["last"] or 0
    label = str(run.revision) if run.revision else run.name
    return Arm.objects.create(
        study=study,
        position=last + 1,
        label=label[:120],
        sentence="Added by hand: it may differ from the base in more than one thing.",
        revision=run.revision,
        task=run.task,
        model=run.model,
        by_hand=True,
    )


@transaction.atomic
def remove_run(study: Study, run: Run, *, user: User | None = None) -> None:
    """Take a run out of the study; the run itself stays. Safe to repeat."""
    gone, _ = StudyRun.objects.filter(study=study, run=run).delete()
    Arm.objects.filter(study=study, by_hand=True, members=None).delete()
    if gone:
        _bump(study)
        record_change("study.run_removed", study, user, run=run.pk)


@transaction.atomic
def stop_all(study: Study, *, user: User | None) -> int:
    """Stop every run that has not ended; returns how many were asked to. What ended meanwhile is left alone."""
    stopped = 0
    for run in Run.objects.filter(studies__study=study).filter(state__in=ACTIVE).select_related("project"):
        try:
            cancel_run(run, user=user)
        except Conflict:
            continue
        stopped += 1
    if stopped:
        record_change("study.stopped", study, user, runs=stopped)
    return stopped


def _bump(study: Study, **fields: Any) -> None:
    Study.objects.filter(pk=study.pk).update(version=F("version") + 1, **fields)


def _known(project: Project, key: str | None, digest: str) -> Study | None:
    used = Study.objects.filter(project=project, idempotency_key=key).first() if key is not None else None
    if used is not None:
        check_same(str(key), used.body_digest, digest, f"study {used.pk}")
    return used


def checked_name(name: str) -> str:
    """The name without blanks around it. Raises InvalidInput (field name)."""
    text = name.strip()
    if not 1 <= len(text) <= MAX_NAME or not text.isprintable():
        raise InvalidInput("name", f"name must have 1 to {MAX_NAME} printable characters.")
    return text


@transaction.atomic
def rename_study(study: Study, name: str, *, was: str, user: User) -> bool:
    """Call a study `name` that was called `was` when the person looked; False where it has the name already.

    Raises InvalidInput (field name), and Conflict where somebody
    else gave it another name meanwhile.
    """
    title = checked_name(name)
    found = Study.objects.select_for_update().select_related("project").get(pk=study.pk)
    if found.name == title:
        return False
    if found.name != was:
        raise Conflict(f"Somebody renamed this study to “{found.name}” meanwhile.", field="name")
    Study.objects.filter(pk=study.pk).update(name=title)
    found.name = title
    record_change("study.renamed", found, user, was=was)
    return True


@transaction.atomic
def archive_study(study: Study, *, user: User) -> bool:
    """Hide a study from the list; its page, runs and results stay. False where it was archived before."""
    changed = Study.objects.filter(pk=study.pk, archived_at=None).update(archived_at=timezone.now())
    if changed:
        record_change("study.archived", study, user)
    return bool(changed)


@transaction.atomic
def unarchive_study(study: Study, *, user: User) -> bool:
    """List a study again; False where it was listed."""
    changed = Study.objects.filter(pk=study.pk, archived_at__isnull=False).update(archived_at=None)
    if changed:
        record_change("study.unarchived", study, user)
    return bool(changed)
