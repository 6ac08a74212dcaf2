"""`python manage.py clean_up --dry-run`: what the clean-up of checkpoints and logs takes away, and doing it now."""

from typing import Any

from django.core.management import CommandParser

from webapp.base.disk import bytes_in_words, disk_now
from webapp.identity.accounts.models import Project
from webapp.operation.management.base import OperatorCommand, project_named
from webapp.record.retention.selectors import policy_of, preview
from webapp.record.retention.services import clean_up, watch_disk
from webapp.science.curves import words


class Command(OperatorCommand):
    help = (
        "Remove checkpoints and logs as the projects' policies say; with --dry-run, only say what would go."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would go")
        parser.add_argument("--project", help="slug of one project, for --dry-run")
        parser.add_argument(
            "--seconds", type=float, default=600, help="how long to work at most (default: 600)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            only = (
                [project_named(options["project"])]
                if options["project"]
                else Project.objects.order_by("slug")
            )
            for project in only:
                self._say(project)
            return
        watch_disk()
        count = clean_up(options["seconds"])
        disk = disk_now()
        free = f"; {bytes_in_words(disk.free)} are free" if disk else ""
        self.stdout.write(f"{words.count(count, 'checkpoint')} removed{free}.")

    def _say(self, project: Project) -> None:
        policy = policy_of(project)
        found = preview(project, policy)
        state = "enabled" if policy.enabled else "not enabled: nothing goes by itself"
        self.stdout.write(
            f"{project.slug} ({state}): {words.count(found.count, 'checkpoint')}, {bytes_in_words(found.size)}"
        )
        for run, rows in found.rows:
            steps = ", ".join(str(one.kept.step) if one.kept.step is not None else "damaged" for one in rows)
            self.stdout.write(f"  {run.pk} {run.name}: step {steps}: {rows[-1].why}")
        if found.log_count:
            self.stdout.write(f"  and the stored logs of {words.count(found.log_count, 'attempt')}")
        if found.sample_count:
            self.stdout.write(f"  and the samples of {words.count(found.sample_count, 'step')}")
        if found.looked_at < found.runs:
            self.stdout.write(
                f"  ({found.looked_at:,} of {found.runs:,} ended runs were looked at in the time)"
            )
