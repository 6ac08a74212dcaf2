"""`manage.py run_study` with the toy trainer: python -m tests.training.study.toy_study FILE HOME [SECONDS A STEP]."""

import signal
import sys
from pathlib import Path

from stack.environment import ROOT
from stack.home_lock import lock_home
from training.study import plan
from training.study.book import Book
from training.study.file import load_study
from training.study.runner import Means, Runner

TOY = [sys.executable, "-m", "tests.training.study.toy_trainer"]


def keeper(grace: float) -> list[str]:
    return [sys.executable, "-P", str(ROOT / "stack" / "keeper.py"), "--grace", str(grace)]


def toy_runner(
    file: Path, home: Path, lines: list[str], *, lock: int | None = None, grace: float = 10
) -> Runner:
    """What it says goes to `lines`."""
    written = load_study(file)
    runs = plan.plan(written)
    path = home / "studies" / file.stem
    path.mkdir(parents=True, exist_ok=True)
    means = Means([*keeper(grace), *TOY], home, lock)
    return Runner(written, runs, path, Book(home / "corpus", runs), means, lines.append)


def main(file: Path, home: Path) -> None:
    path = home / "studies" / file.stem
    path.mkdir(parents=True, exist_ok=True)
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    runner = toy_runner(file, home, [], lock=lock_home(path, print))
    runner.say = lambda words: print(words, flush=True)
    runner.stop = lambda: bool(stopping)
    runner.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
