"""As many runs and points as years of use would leave, to see and measure pages with (`benchmarks.make_data`)."""

import os
import time
from typing import Any

from django.core.management import call_command, get_commands
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from benchmarks.made.plan import MadeRun, plan_runs
from benchmarks.made.store import store_runs
from webapp.base.errors import Conflict
from webapp.identity.accounts.models import Project, Role, User
from webapp.identity.accounts.services import DEFAULT_PROJECT, create_project, set_role
from webapp.record.recipes.models import Revision
from webapp.record.runs.editing import remove_runs
from webapp.record.runs.models import Run
from webapp.reporting.alarms.services import judge_run
from webapp.science.curves.stored_fits import store_fits

RECIPES = 12
SAY_SECONDS = 5.0


class Command(BaseCommand):
    help = (
        "Make runs of several recipes, tasks and models with curves along Eq. 1 and their fits, in a project of their "
        "own: `--runs 10000 --points 100000000`. `--remove` takes them away again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--runs", type=int, default=500)
        parser.add_argument("--points", type=int, default=2_000_000, help="values in all, over every series")
        parser.add_argument(
            "--project", default="made", metavar="SLUG", help="made where there is none (made)"
        )
        parser.add_argument("--seed", type=int, default=0, help="of all that is random")
        parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that fit (all cores)")
        parser.add_argument("--add", action="store_true", help="although the project has runs already")
        parser.add_argument(
            "--remove", action="store_true", help="delete the project's runs, and it with them"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        slug = options["project"]
        if options["remove"]:
            return self._remove(slug)
        try:
            project = _project(slug)
        except Conflict as error:
            raise CommandError(error.message) from error
        known = Run.objects.filter(project=project).count()
        if known and not options["add"]:
            raise CommandError(
                f"the project {slug} has {known:,} runs; --remove deletes them, --add adds to them, "
                "--project takes another"
            )
        revisions = _revisions(project)
        try:
            planned = plan_runs(options["runs"], options["points"], len(revisions), seed=options["seed"])
        except ValueError as error:
            raise CommandError(str(error)) from error
        began = time.monotonic()
        ids = self._store(project, revisions, planned)
        self._fit(ids, options["processes"])
        self._judge(ids, planned)
        self._settle()
        self.stdout.write(f"{len(ids):,} runs in the project {slug}, {time.monotonic() - began:,.0f} s")

    def _store(self, project: Project, revisions: list[Revision], planned: list[MadeRun]) -> list[str]:
        author = User.objects.order_by("pk").first()
        say = _Progress(self.stdout.write, "points", sum(made.values for made in planned))
        ids: list[str] = []
        for stored in store_runs(project, author, revisions, planned):
            ids += [run.pk for run in stored.runs]
            say.more(stored.points)
        return ids

    def _fit(self, ids: list[str], processes: int) -> None:
        say = _Progress(self.stdout.write, "runs fitted", len(ids))
        for number in store_fits(ids, processes=processes):
            say.more(number)

    def _judge(self, ids: list[str], planned: list[MadeRun]) -> None:
        """The alarms of the runs that were made to have some; the others keep within every rule."""
        troubled = [run_id for run_id, made in zip(ids, planned, strict=True) if made.truncated]
        say = _Progress(self.stdout.write, "troubled runs judged", len(troubled))
        for run_id in troubled:
            judge_run(run_id)
            say.more(1)

    def _settle(self) -> None:
        """What a database in use has long done: statistics, and the maps of what every reader may see."""
        if "rebuild_summaries" in get_commands():  # lists read summaries, which the services would have kept
            call_command("rebuild_summaries", stdout=self.stdout)
        if connection.in_atomic_block:
            return
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE)")

    def _remove(self, slug: str) -> None:
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            raise CommandError(f"there is no project {slug!r}")
        if slug == DEFAULT_PROJECT:
            raise CommandError("the default project is everybody's; its runs are not removed")
        say = _Progress(self.stdout.write, "runs removed", Run.objects.filter(project=project).count())
        for number in remove_runs(project):
            say.more(number)
        project.delete()
        self.stdout.write(f"the project {slug} is gone")


def _project(slug: str) -> Project:
    """The project; where there is none it is made, with every account as an admin. Members of one that is there stay
    what they are."""
    found = Project.objects.filter(slug=slug).first()
    if found is not None:
        return found
    project = create_project(slug=slug, name=slug.capitalize())
    for user in User.objects.all():
        set_role(project, user, Role.ADMIN)
    return project


def _revisions(project: Project) -> list[Revision]:
    """The newest revision of some recipes that are not for the local default."""
    found = (
        Revision.objects.filter(recipe__project=project)
        .exclude(recipe__slug__startswith="tiny-")
        .select_related("recipe")
        .order_by("recipe__slug", "-number")
        .distinct("recipe__slug")
    )
    return list(found[:RECIPES])


class _Progress:
    """Says how far something is, every few seconds."""

    def __init__(self, write: Any, noun: str, total: int) -> None:
        self._write, self._noun, self._total = write, noun, total
        self._done, self._began = 0, time.monotonic()
        self._said = self._began

    def more(self, number: int) -> None:
        """`number` more are done."""
        self._done += number
        now = time.monotonic()
        if now - self._said < SAY_SECONDS and self._done < self._total:
            return
        self._said = now
        rate = self._done / max(now - self._began, 1e-9)
        left = (self._total - self._done) / rate if rate else 0.0
        self._write(
            f"{self._done:,} of {self._total:,} {self._noun}, {rate:,.0f}/s, {max(left, 0):,.0f} s to go"
        )
