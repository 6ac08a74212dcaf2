"""What is on disk of a planned run: its folder, what each try took, and the failed tries beside it.

STUDY/recipes/ID.yaml          what it trains
STUDY/runs/ID/                 as `python -m training run` writes it, with `output.log` and `parts.jsonl`
STUDY/runs/ID.failed-1/        a try that failed, with `failure.json`
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from training.study.plan import PlannedRun
from training.whole_files import read_json, replace_file

JOURNAL, SUMMARY, OUTPUT = "metrics.jsonl", "summary.json", "output.log"
PARTS, FAILURE = "parts.jsonl", "failure.json"
MOST_TRIES = 2
TAIL_BYTES = 20_000
MOST_REASON = 500  # characters


@dataclass(frozen=True)
class Spent:
    """What a try has taken: when it began, wall clock, and the share of the cores that nothing else had.

    weights: digest of the model's that it began from, as far as that was noted.
    """

    began: str
    wall_seconds: float
    cpu_free_share: float | None
    weights: str


class RunFolder:
    """Of one planned run, below the folder of its study file."""

    def __init__(self, home: Path, run: PlannedRun) -> None:
        self.run = run
        self.recipe = home / "recipes" / f"{run.id}.yaml"
        self.path = home / "runs" / run.id

    def write_recipe(self) -> None:
        """What the training reads."""
        self.recipe.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.recipe, yaml.safe_dump(self.run.recipe.model_dump(mode="json"), sort_keys=False))

    @property
    def has_begun(self) -> bool:
        """Whether a training can go on from what is there."""
        journal = self.path / JOURNAL
        return journal.is_file() and journal.stat().st_size > 0

    @property
    def state(self) -> str:
        """As its last summary says; empty without one of this very run."""
        summary = read_json(self.path / SUMMARY)
        return str(summary.get("state", "")) if summary.get("content_hash") == self.run.content_hash else ""

    @property
    def has_succeeded(self) -> bool:
        """Whether it reached its budget."""
        return self.state == "succeeded"

    def failed(self) -> list[Path]:
        """Its failed tries, in their order."""
        named = (self._failed(number) for number in range(1, MOST_TRIES + 1))
        return [folder for folder in named if folder.is_dir()]

    @property
    def is_lost(self) -> bool:
        """Whether it has failed as often as it may."""
        return len(self.failed()) >= MOST_TRIES

    @property
    def reason(self) -> str:
        """Why the last failed try failed."""
        failed = self.failed()
        return str(read_json(failed[-1] / FAILURE).get("reason", "")) if failed else ""

    def _failed(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.failed-{number}")

    def fail(self, reason: str) -> None:
        """Set the try aside, with its reason."""
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self.path / FAILURE, json.dumps({"reason": reason[:MOST_REASON]}) + "\n")
        self.settle()

    def forget_failures(self) -> None:
        """Have it tried as often again."""
        for failed in self.failed():
            shutil.rmtree(failed)

    def settle(self) -> None:
        """Finish a `fail` that was interrupted, and take away what a try left that never began."""
        if (self.path / FAILURE).is_file():
            self.path.rename(self._failed(len(self.failed()) + 1))
        elif self.path.is_dir() and not self.has_begun:
            shutil.rmtree(self.path)

    def why_failed(self, status: int) -> str:
        """The last line of its output that says an error, or its last one."""
        with (self.path / OUTPUT).open("rb") as output:
            size = output.seek(0, 2)
            output.seek(max(0, size - TAIL_BYTES))
            lines = [
                line.strip() for line in output.read().decode(errors="replace").splitlines() if line.strip()
            ]
        told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        last = (told or lines or ["no output"])[-1]
        return f"exit status {status}: {last}"

    def note(self, **content: Any) -> None:
        """One line more on when it ran."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / PARTS).open("a") as file:
            file.write(json.dumps(content) + "\n")

    def spent(self) -> Spent:
        """Of the newest try; a part that was killed counts until the journal's last record."""
        folder = self.path if self.path.is_dir() or not self.failed() else self.failed()[-1]
        parts = list(_lines_of(folder / PARTS))
        began = [part["began"] for part in parts if "began" in part]
        ends = [part for part in parts if "ended" in part]
        seconds = sum(part["wall_seconds"] for part in ends)
        for part, later in zip(parts, [*parts[1:], {}], strict=True):
            if "began" in part and "ended" not in later:
                seconds += _until_last_record(folder / JOURNAL, part["began"], later.get("began"))
        shares = [
            (p["cpu_free_share"], p["wall_seconds"]) for p in ends if p.get("cpu_free_share") is not None
        ]
        weight = sum(wall for _, wall in shares)
        share = sum(share * wall for share, wall in shares) / weight if weight else None
        weights = next((part["weights"] for part in parts if "weights" in part), "")
        return Spent(began[0] if began else now(), seconds, share, weights)


def _until_last_record(journal: Path, began: str, before: str | None) -> float:
    """Seconds from `began` to the last record that came before the next part."""
    first, last = datetime.fromisoformat(began), datetime.fromisoformat(before or now())
    times = (datetime.fromisoformat(record["time"]) for record in _lines_of(journal))
    return max(((time - first).total_seconds() for time in times if first <= time < last), default=0.0)


def _lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines; a killed process leaves half a line at the end."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def now() -> str:
    """ISO 8601, with offset."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
