"""`python manage.py launch_recipes`: a set of runs to be compared, e.g. the leave-one-out set with three seeds."""

from typing import Any

from django.core.management.base import CommandParser

from webapp.identity.accounts.services import DEFAULT_PROJECT
from webapp.operation.management.base import OperatorCommand, project_named, user_named
from webapp.record.runs.launch_set import RunSet, launch_set, leave_one_out
from webapp.record.runs.models import Run


class Command(OperatorCommand):
    help = (
        "Launch each recipe with each seed: `launch_recipes --leave-one-out --size tiny --seeds 0 1 2`. "
        "Safe to repeat: the same label, recipe and seed are the same run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("recipes", nargs="*", metavar="SLUG", help="recipes, by slug")
        parser.add_argument(
            "--leave-one-out", action="store_true", help="ScaleRL and the paper's leave-one-out set"
        )
        parser.add_argument("--size", default="", help="tiny: the overlays for the default task on CPU")
        parser.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED")
        parser.add_argument("--label", default="leave-one-out", help="name of the set (leave-one-out)")
        parser.add_argument("--task", help="instead of each recipe's own")
        parser.add_argument("--model", help="instead of each recipe's own")
        parser.add_argument("--budget-hours", type=float, help="device-hours of each run")
        parser.add_argument("--priority", choices=Run.Priority.labels, default=Run.Priority.NORMAL.label)
        parser.add_argument("--user", help="in whose name; default: nobody's")
        parser.add_argument("--project", default=DEFAULT_PROJECT, metavar="SLUG")

    def handle(self, *args: Any, **options: Any) -> None:
        recipes = [*options["recipes"], *(leave_one_out(options["size"]) if options["leave_one_out"] else [])]
        said = {name: options[name] for name in ("seeds", "label", "task", "model", "budget_hours")}
        user = user_named(options["user"]) if options["user"] else None
        priority = Run.Priority.labels.index(options["priority"])
        launched = launch_set(
            RunSet(recipes=recipes, priority=priority, **said),
            user=user,
            project=project_named(options["project"]),
        )
        for made in launched:
            note = "" if made.created else "  (launched before)"
            self.stdout.write(f"{made.run.pk}  {made.run.name}  seed {made.run.seed}{note}")
