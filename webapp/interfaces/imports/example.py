"""The example project: the corpus that came with Headroom, imported once in the background of a first start.

Everybody who is signed in may look at it, and nobody changes it (`webapp.identity.accounts.permissions`). An owner of
its organisation may remove it; then it is not made again.

The report of the example project: what its runs say to each question of the study file.
"""

import hashlib
import logging
import math
import time
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.db import DataError, IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from training.study import corpus
from training.study.file import Study as PlannedStudy
from training.study.file import StudyFileError, load_study
from training.study.findings import finding
from webapp.base.claims import only_one
from webapp.base.errors import ServiceError, first_of
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.services import default_organisation
from webapp.identity.audit.services import record
from webapp.interfaces.imports.corpus_rows import store_corpus
from webapp.interfaces.imports.models import Example
from webapp.record.runs.editing import remove_runs
from webapp.record.runs.models import Run
from webapp.reporting.reports.document import text_of
from webapp.reporting.reports.models import Report
from webapp.reporting.reports.services import publish_unsigned
from webapp.science.curves.models import Fit
from webapp.science.curves.record.keeping import keep_overdue, not_judged
from webapp.science.curves.services import rebuild
from webapp.science.curves.stored_fits import store_fits
from webapp.science.studies.models import Study

TITLE = "Findings: the paper in miniature"
AUTHOR = "Headroom"
INTRODUCTION = """The questions of [arXiv 2510.13786](https://arxiv.org/abs/2510.13786), asked of models of 0.1 to 3
million parameters on two CPU cores. Each run is real training. Questions, arms, seeds, and what would count as yes, no
and undecided were written down before the first run.

A run's result is the mean of its held-out pass rate over the last eighth of its evaluations. An arm differs from its
baseline where the 90 % interval of the difference of means (over seeds) leaves out zero and the difference is beyond
the margin of its study. None of this says what holds for an 8B model.
"""
X = {"device_hours": "device_hours", "flops": "flops", "tokens": "tokens", "steps": "step"}
log = logging.getLogger(__name__)
ADVISORY_LOCK = 0x48455841  # "HEXA"
AT_ONCE = 10  # runs whose fits are made together: a second or two


def publish_findings(project: Project, folder: Path) -> None:
    """Of the corpus in this folder, once its runs are stored and fitted; where the report is there already, nothing."""
    if Report.objects.filter(project=project, title=TITLE).exists():
        return
    found = corpus.read_corpus(folder)
    parts = [_part(project, found, asked) for asked in load_study(folder / corpus.STUDY).says.studies]
    publish_unsigned(project=project, title=TITLE, text="\n\n".join([INTRODUCTION, *parts]), author=AUTHOR)


def _part(project: Project, found: corpus.Corpus, asked: PlannedStudy) -> str:
    study = Study.objects.filter(project=project, name__startswith=f"{asked.name}: ").first()
    chart = _chart(study, asked) if study else ""
    return f"## {asked.name.replace('-', ' ').capitalize()}\n\n{finding(found, asked).markdown(chart)}"


def _chart(study: Study, asked: PlannedStudy) -> str:
    """A block with all recipes of the study over its axis."""
    revisions = [arm.revision for arm in study.arms.select_related("revision__recipe")]
    names = dict.fromkeys(f"{each.recipe.slug}@{each.number}" for each in revisions if each)
    return text_of(
        {
            "chart": "compare",
            "recipes": ", ".join(names),
            "by": "recipe",  # seeds as one curve
            "x": X[asked.axis],
            "caption": asked.question,
        }
    )


SLUG, NAME, NONE = "example", "Example: the paper in miniature", "none"


def corpus_folder() -> Path | None:
    """Where its corpus is; None where there is none."""
    folder = Path(settings.EXAMPLE_CORPUS)
    return folder if settings.EXAMPLE_CORPUS != NONE and corpus.exists(folder) else None


def is_wanted() -> bool:
    """Whether something of it is still to do. One query, none without a corpus."""
    folder = corpus_folder()
    if folder is None:
        return False
    known = Example.objects.first()
    if known is None:
        return True
    return known.removed_at is None and (known.done_at is None or known.digest != _digest_of(folder))


def bring_example(seconds: float = math.inf) -> bool:
    """Import it, fit its runs, and take away one of an earlier corpus. True where this very call has ended that; after
    so many `seconds` of fitting it leaves the rest to the next call.

    Safe to repeat and to kill: one worker at a time is at it, and another goes on where it ended. A corpus that cannot
    be used is logged in one line, and the installation goes on without it.
    """
    with only_one(ADVISORY_LOCK) as alone:
        folder = corpus_folder()
        if not alone or folder is None or not is_wanted():
            return False
        digest = _digest_of(folder)
        try:
            project = _stored(folder, digest)
            if not _fit(project, seconds):
                return False
            try:
                publish_findings(project, folder)
            except ServiceError:  # without its report the project is worth having, too
                log.exception("the example project has no report")
        except (corpus.CorpusError, StudyFileError, DataError, IntegrityError, LookupError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            log.warning("no example project: %s", reason)
            _note(digest, problem=reason, done_at=timezone.now())
            return False
        _note(digest, problem="", done_at=timezone.now())
        return True


def _stored(folder: Path, digest: str) -> Project:
    """The project with all rows of the corpus. Raises CorpusError, StudyFileError."""
    project = Project.objects.filter(is_example=True).first()
    if project is not None and Example.objects.filter(digest=digest, problem="").exists():
        return project
    found, says = corpus.read_corpus(folder), load_study(folder / corpus.STUDY).says
    if project is not None:
        _delete(project)
    with transaction.atomic():
        project = Project.objects.create(
            organisation=default_organisation(), slug=_free_slug(), name=NAME, is_example=True
        )
        store_corpus(project, found, says)
        rebuild(found.runs)
        _note(digest, problem="", done_at=None)
    return project


def _free_slug() -> str:
    taken = set(Project.objects.filter(slug__startswith=SLUG).values_list("slug", flat=True))
    wanted = [SLUG, *(f"{SLUG}-{number}" for number in range(2, 1000))]
    return next(slug for slug in wanted if slug not in taken)


def _fit(project: Project, seconds: float = math.inf) -> bool:
    """Whether all is there that a refit of each run would have stored half way and at its end. What is missing is made,
    for so long. Before any fit is shown, forecasts of all runs are judged, for these widen its intervals."""
    began = time.monotonic()
    keep_overdue(seconds, in_brief_of=project)
    if not_judged(project).exists():
        return False
    fitted = Fit.objects.filter(run__project=project).values("run")
    runs = Run.objects.filter(project=project).order_by("pk")
    for _ in store_fits(list(runs.exclude(pk__in=fitted).values_list("pk", flat=True)), at_once=AT_ONCE):
        if time.monotonic() - began > seconds:
            return False
    rebuild(runs.values_list("pk", flat=True))
    runs.update(version=F("version") + 1)  # pages that were looked at meanwhile are made anew
    return True


def _note(digest: str, **fields: object) -> None:
    Example.objects.update_or_create(pk=1, defaults={"digest": digest} | fields)


def _delete(project: Project) -> None:
    for _ in remove_runs(project):
        pass
    Study.objects.filter(project=project).delete()  # they hold on to the recipes
    project.delete()


def remove_example(*, actor: User) -> None:
    """For good. Raises NotFound where there is none."""
    examples = Project.objects.filter(is_example=True).select_related("organisation")
    project = first_of(examples, "There is no example project.")
    with transaction.atomic():
        Example.objects.filter(pk=1).update(removed_at=timezone.now())
        record(
            "example.removed", actor=actor, organisation=project.organisation, kind="project", key=project.slug,
            name=project.name,
        )  # fmt: skip
        _delete(project)


def _digest_of(folder: Path) -> str:
    stats = [(folder / name).stat() for name in (corpus.RUNS, corpus.POINTS)]
    return _digest(folder, tuple((one.st_mtime_ns, one.st_size) for one in stats))


@lru_cache(maxsize=4)
def _digest(folder: Path, seen: tuple[tuple[int, int], ...]) -> str:
    """Of the files' bytes, read anew where they have changed."""
    content = b"".join((folder / name).read_bytes() for name in (corpus.RUNS, corpus.POINTS))
    return hashlib.sha256(content).hexdigest()
