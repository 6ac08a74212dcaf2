"""The corpus of one study file, kept up to date while its runs end."""

import json
import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from headroom import about
from headroom.adapters.naming import SYSTEM
from training.recipe import content_hash
from training.schema import Recipe
from training.study import corpus
from training.study.corpus import AXES, PASS_RATE, CorpusRun, point_table
from training.study.file import Written
from training.study.folder import JOURNAL, RunFolder
from training.study.plan import PlannedRun

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("torch", "transformers", "ray", "vllm", "numpy", "scipy")


class Book:
    """Of `runs`, all that the file plans; what the corpus holds beside them stays, without a place in a study."""

    def __init__(self, path: Path, runs: Sequence[PlannedRun]) -> None:
        """Raises CorpusError."""
        self.path = path
        known = corpus.read_corpus(path) if corpus.exists(path) else corpus.empty()
        places = {run.content_hash: run.places for run in runs}
        hashes = {one.id: _hash_today(one) for one in known.runs.values()}
        self._ids = {today: name for name, today in hashes.items()}
        self.runs = {
            name: replace(one, places=places.get(hashes[name], ())) for name, one in known.runs.items()
        }
        self._tables: dict[str, pa.Table] = {name: known.table_of(name) for name in self.runs}

    def has_succeeded(self, run: PlannedRun) -> bool:
        """Whether it needs no training any more."""
        known = self.runs.get(self._id_of(run))
        return known is not None and known.state == "succeeded"

    def _id_of(self, run: PlannedRun) -> str:
        """Its id in the corpus: that of the schema it was trained under, which today's may have outgrown."""
        return self._ids.get(run.content_hash, run.id)

    def note(self, files: RunFolder) -> None:
        """Put in a run that has ended, as its folder tells it."""
        run, recipe, spent = files.run, files.run.recipe, files.spent()
        succeeded = files.has_succeeded
        self._ids[run.content_hash] = run.id
        self.runs[run.id] = CorpusRun(
            id=run.id,
            places=run.places,
            recipe=recipe.name,
            content_hash=run.content_hash,
            task=recipe.task.name,
            model=recipe.model,
            seed=recipe.seed,
            steps=run.steps,
            state="succeeded" if succeeded else "lost",
            reason="" if succeeded else files.reason,
            failed_tries=len(files.failed()),
            began=spent.began,
            wall_seconds=round(spent.wall_seconds, 3),
            cpu_free_share=None if spent.cpu_free_share is None else round(spent.cpu_free_share, 4),
            config=recipe.model_dump(mode="json"),
            versions=versions() | ({"weights": spent.weights} if spent.weights else {}),
            machine=machine(),
        )
        journal = files.path / JOURNAL
        self._tables[run.id] = (
            points_of(journal, run.id, spent.began) if succeeded else corpus.point_table(run.id, [])
        )

    def weights(self, model: str) -> set[str]:
        """Digests of those that runs of a model began from, as far as they were noted."""
        of_model = [one.versions for one in self.runs.values() if one.model == model]
        return {noted["weights"] for noted in of_model if "weights" in noted}

    def write(self, written: Written) -> None:
        """Bring the files up to date. Nothing is written before the first run has ended."""
        if self.runs:
            corpus.write_corpus(self.path, self.runs.values(), self._tables.values(), written.text)

    def words(self, run: PlannedRun) -> str:
        """What became of it."""
        known, table = self.runs[self._id_of(run)], self._tables[self._id_of(run)]
        rates = table.filter(pc.equal(table.column("metric").cast(pa.string()), PASS_RATE)).column("value")
        last = f"pass rate {rates[-1].as_py():.3f}, " if len(rates) else ""
        return f"{last}{len(rates)} evaluations, {known.wall_seconds:.0f} s"

    def paces(self, run: PlannedRun) -> Iterator[list[float]]:
        """Wall seconds a step of runs that succeeded: of its arms, of its model, of any."""
        done = [one for one in self.runs.values() if one.state == "succeeded"]
        yield _paces(one for one in done if set(one.places) & set(run.places))
        yield _paces(one for one in done if one.model == run.recipe.model)
        yield _paces(done)


def _hash_today(run: CorpusRun) -> str:
    """Content hash of its recipe, with the defaults of settings that came after it was trained."""
    try:
        return content_hash(Recipe.model_validate(run.config))
    except ValidationError:
        return run.content_hash


def _paces(runs: Iterable[CorpusRun]) -> list[float]:
    return [one.wall_seconds / one.steps for one in runs]


@cache
def machine() -> dict[str, object]:
    """What this is."""
    named = [line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")]
    return {
        "processor": named[0] if named else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


@cache
def versions() -> dict[str, str]:
    """Of Python, the libraries that train, and the commit of this program where it is a checkout."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if commit := _commit():
        found["commit"] = commit
    return found


def _commit() -> str:
    """With a + where tracked files have changed since; empty without a checkout."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
        dirty = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "") if not head.returncode else ""


MOST_DIAGNOSTICS = 60  # points of a metric that is no evaluation
_STDERR = "_stderr"


def points_of(journal: Path, run_id: str, began: str) -> pa.Table:
    """As `training.study.corpus` stores them. Raises OSError, ValueError."""
    records = list(_effective(journal))
    kept = _kept(records)
    start = datetime.fromisoformat(began)
    rows: list[tuple[Any, ...]] = []
    for place, record in enumerate(records):
        seconds = (datetime.fromisoformat(record["time"]) - start).total_seconds()
        spent = [record["compute"][axis] for axis in AXES]
        metrics = record["metrics"]
        for metric in sorted(metrics):
            if place in kept[metric]:
                value, stderr = metrics[metric], metrics.get(metric + _STDERR)
                rows.append((metric, record["step"], seconds, *spent, value, stderr))
    return point_table(run_id, rows)


def _effective(journal: Path) -> Iterator[dict[str, Any]]:
    """Records without those that a later attempt has superseded: past the checkpoint that it went on from."""
    starts = about.load(journal).starts
    resumed = {int(number): start.get("resumed_from_step") for number, start in starts.items()}
    with journal.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return  # the half of a record that nobody was told of
            record = json.loads(line)
            later = [
                -1 if step is None else step for number, step in resumed.items() if number > record["attempt"]
            ]
            if record["step"] <= min(later, default=record["step"]):
                yield record


def _kept(records: list[dict[str, Any]]) -> dict[str, set[int]]:
    """Metric -> the records whose value of it is kept; what machines do, with their names, is not."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        metrics = record["metrics"]
        for metric, value in metrics.items():
            is_stderr = metric.endswith(_STDERR) and metric.removesuffix(_STDERR) in metrics
            if value is not None and not is_stderr and not metric.startswith(SYSTEM):
                found[metric].append(place)
    return defaultdict(
        set, {m: set(places if m.startswith("eval/") else _thinned(places)) for m, places in found.items()}
    )


def _thinned(places: list[int]) -> list[int]:
    """Evenly picked, the first and the last among them."""
    if len(places) <= MOST_DIAGNOSTICS:
        return places
    picked = np.linspace(0, len(places) - 1, MOST_DIAGNOSTICS).round().astype(int)
    return [places[index] for index in picked]
