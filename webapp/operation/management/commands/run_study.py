"""`python manage.py run_study FILE.yaml`: a pre-registered study of many real runs, one after the other."""

import signal
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from stack.environment import ROOT, home, keep_private
from stack.home_lock import AlreadyRunning, lock_home
from training.study import plan
from training.study.book import Book
from training.study.corpus import CorpusError
from training.study.file import StudyFileError, Written, load_study
from training.study.runner import Means, Runner, StudyError, set_nice

GRACE_SECONDS = 60  # for a checkpoint
KEEPER = [sys.executable, "-P", str(ROOT / "stack" / "keeper.py"), "--grace", str(GRACE_SECONDS)]
TRAINER = [*KEEPER, sys.executable, "-m", "training"]


class Command(BaseCommand):
    help = (
        "Train the runs of a study file, one after the other, and keep their corpus up to date. The same command goes "
        "on where it was stopped or killed."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the study file")
        parser.add_argument("--check", action="store_true", help="only check it, and say what would run")
        parser.add_argument(
            "--only", metavar="STUDY[.ARM]", help="train the runs of one study, or of one arm"
        )
        parser.add_argument("--max-minutes", type=float, help="begin no run that would likely end later")
        parser.add_argument("--retry-lost", action="store_true", help="try runs again that failed twice")
        parser.add_argument(
            "--nice", type=int, default=0, help="give way to other work by this much (0 to 19)"
        )
        parser.add_argument("--home", type=Path, help="folder of all state (HEADROOM_HOME, else ./var)")
        parser.add_argument("--corpus", type=Path, help="folder of the corpus (corpus/FILE)")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = (options["home"] or home()).resolve()
        try:
            written = load_study(options["file"])
            runs = plan.plan(written)
            book = Book(options["corpus"] or ROOT / "corpus" / written.path.stem, runs)
            wanted = plan.only(runs, options["only"]) if options["only"] else runs
            plan.check_runs(written, wanted, folder, with_models=False)
            if options["check"]:
                return self._say(check_words(written, wanted, book, folder))
            self._train(written, wanted, book, folder, options)
        except (StudyFileError, CorpusError, StudyError, AlreadyRunning, ValueError) as error:
            raise CommandError(str(error)) from error

    def _train(
        self, written: Written, runs: list[plan.PlannedRun], book: Book, folder: Path, options: dict[str, Any]
    ) -> None:
        set_nice(options["nice"])
        keep_private(folder)
        path = folder / "studies" / written.path.stem
        path.mkdir(parents=True, exist_ok=True)
        lock = lock_home(path, self._say, patience=GRACE_SECONDS + 30)
        stopping: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, lambda number, _: stopping.append(number))
        minutes = options["max_minutes"]
        runner = Runner(
            written,
            runs,
            path,
            book,
            Means(TRAINER, folder, lock),
            self._say,
            stop=lambda: bool(stopping),
            max_seconds=None if minutes is None else minutes * 60,
        )
        if options["retry_lost"]:
            runner.forget_lost()
        runner.make_models()
        if not stopping:
            plan.check_runs(written, runner.open_runs(), folder)
            runner.run()

    def _say(self, words: str) -> None:
        self.stdout.write(words)
        self.stdout.flush()


def check_words(written: Written, runs: list[plan.PlannedRun], book: Book, folder: Path) -> str:
    """What a start would do, and about how long it would take."""
    path = folder / "studies" / written.path.stem
    runner = Runner(written, runs, path, book, Means(TRAINER, folder), print)
    steps = sum(run.steps for run in runs)
    lines = [f"{written.says.title}: {len(written.says.studies)} studies, {len(runs)} runs, {steps:,} steps"]
    for study in written.says.studies:
        own = [run for run in runs if any(place.study == study.name for place in run.places)]
        arms = ", ".join(f"{arm} ({len(study.seeds_of(arm))})" for arm in study.arms)
        lines.append(f"  {study.name}: {len(own)} runs of {arms}")
    done = sum(book.has_succeeded(run) for run in runs)
    hours = runner.hours_left()
    to_go = "as long as is not known before a run has ended" if hours is None else f"about {hours:.1f} h"
    models = plan.models_to_make(runs, folder)
    lines.append(f"models to make or to look at: {', '.join(models) or 'none'}")
    lines.append(f"{done} runs have succeeded, {len(runs) - done} to go: {to_go}")
    return "\n".join(lines)
