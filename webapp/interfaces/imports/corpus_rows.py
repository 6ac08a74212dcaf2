"""From a corpus to rows of a project: recipes and their revisions, runs with points, studies with arms.

Fits are not made here. Diagnostics are thinned once more: the page of a run draws them small.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from django.db import connection
from django.utils.text import slugify
from pyarrow import csv

from training.recipe import RecipeError, hash_of, parse_recipe
from training.study.corpus import AXES, Corpus, CorpusRun, Points
from training.study.file import Study as PlannedStudy
from training.study.file import StudyFile
from webapp.identity.accounts.models import Project
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.runs.models import Attempt, Record, Run, Series, State, submission_id_of
from webapp.record.runs.selectors import is_pass_rate
from webapp.science.studies.axes import NAMED_AXES, stated_size
from webapp.science.studies.models import Arm, Study, StudyKind, StudyRun

ATTEMPT = 1
MOST_DIAGNOSTICS = 18  # points of a metric that is no evaluation
MESSAGE = "from the corpus that came with Headroom"
COPY_POINTS = """
COPY runs_point (series_id, attempt, seq, step, "time", device_hours, flops, tokens, value, stderr)
FROM STDIN (FORMAT csv)
"""


def store_corpus(project: Project, corpus: Corpus, says: StudyFile) -> None:
    """Everything but fits. To be called in a transaction, on a project without runs."""
    ordered = sorted(corpus.runs.values(), key=lambda run: (run.began, run.id))
    questions = {study.name: study.question for study in says.studies}
    revisions = _store_recipes(project, ordered, questions)
    points = {run.id: corpus.points(run.id) for run in ordered}
    runs = {run.id: _run(project, run, revisions[_key(run)]) for run in ordered}
    Run.objects.bulk_create(runs.values())
    for run in ordered:  # bulk_create sets the present time
        Run.objects.filter(pk=run.id).update(created_at=run.began)
    Attempt.objects.bulk_create(_attempt(run, runs[run.id]) for run in ordered)
    _store_points(ordered, runs, points)
    hours = {name: float(np.nanmax(one.device_hours, initial=0.0)) for name, one in points.items()}
    for study in reversed(says.studies):  # lists begin with the newest
        _store_study(project, study, ordered, runs, hours)


# --- recipes --------------------------------------------------------------------------------------------------------


def _key(run: CorpusRun) -> str:
    """The same for runs that differ in their seed alone."""
    return hash_of(_config(run))


def _config(run: CorpusRun) -> dict[str, Any]:
    """Without its seed, and with the defaults of fields that came after it ran: those are no other recipe."""
    config = run.config | {"seed": 0}
    try:
        return parse_recipe(config).model_dump(mode="json")
    except RecipeError:  # the schema of today need not know it
        return config


def _store_recipes(
    project: Project, runs: Sequence[CorpusRun], questions: dict[str, str]
) -> dict[str, Revision]:
    """A recipe with one revision for each arm; one that stands in several studies is named after the first."""
    found: dict[str, CorpusRun] = {}
    for run in runs:
        found.setdefault(_key(run), run)
    names = _names(found)
    recipes = {
        key: Recipe(
            project=project,
            slug=slug,
            name=name[:100],
            description=questions.get(found[key].places[0].study, "") if found[key].places else "",
        )
        for key, (slug, name) in names.items()
    }
    Recipe.objects.bulk_create(recipes.values())
    revisions = {
        key: Revision(recipe=recipe, number=1, config=_config(found[key]), content_hash=key, message=MESSAGE)
        for key, recipe in recipes.items()
    }
    Revision.objects.bulk_create(revisions.values())
    return revisions


def _names(found: dict[str, CorpusRun]) -> dict[str, tuple[str, str]]:
    """Key -> (slug, name), each slug once."""
    names: dict[str, tuple[str, str]] = {}
    taken: set[str] = set()
    for key, run in found.items():
        name = f"{run.places[0].study}: {run.places[0].arm}" if run.places else run.recipe
        slug = slugify(name.replace(".", "-"))[:70]
        if slug in taken:
            slug = f"{slug}-{key[:8]}"
        taken.add(slug)
        names[key] = (slug, name)
    return names


# --- runs -----------------------------------------------------------------------------------------------------------


def _run(project: Project, run: CorpusRun, revision: Revision) -> Run:
    began = datetime.fromisoformat(run.began)
    return Run(
        id=run.id,
        project=project,
        revision=revision,
        origin=Run.Origin.TRACKED,
        name=f"{revision.recipe.name}, seed {run.seed}"[:120],
        task=run.task[:80],
        model=run.model[:200],
        seed=run.seed,
        config=run.config,
        state=State.SUCCEEDED if run.state == "succeeded" else State.FAILED,
        state_reason=run.reason,
        started_at=began,
        ended_at=began + timedelta(seconds=run.wall_seconds),
    )


def _attempt(run: CorpusRun, row: Run) -> Attempt:
    device = ", ".join([f"{run.machine.get('cores', '?')} CPU cores", str(run.machine.get("processor", ""))])
    return Attempt(
        run=row,
        number=ATTEMPT,
        submission_id=submission_id_of(row.pk, ATTEMPT),
        state=row.state,
        device=device,
        message=run.reason,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def _store_points(runs: Sequence[CorpusRun], rows: dict[str, Run], points: dict[str, Points]) -> None:
    metrics = {run.id: sorted(set(points[run.id].metric.tolist())) for run in runs}
    series = Series.objects.bulk_create(
        Series(run=rows[run.id], metric=metric) for run in runs for metric in metrics[run.id]
    )
    ids = {(one.run_id, one.metric): one.pk for one in series}
    placed = {run.id: _placed(points[run.id]) for run in runs}
    with connection.cursor() as cursor, cursor.copy(COPY_POINTS) as copy:
        for run in runs:
            copy.write(_csv(run, points[run.id], placed[run.id], ids))
    Record.objects.bulk_create(
        _newest_record(run, points[run.id], placed[run.id]) for run in runs if len(placed[run.id])
    )


def _placed(points: Points) -> np.ndarray:
    """The record [n] that each point came in: it has one step, moment and compute."""
    amounts = (np.nan_to_num(getattr(points, axis), nan=-1.0) for axis in AXES)
    rows = np.column_stack([points.step, points.seconds, *amounts])
    differs = (rows[1:] != rows[:-1]).any(axis=1)
    return np.r_[0, np.cumsum(differs)] if len(rows) else np.zeros(0, int)


def _csv(run: CorpusRun, points: Points, placed: np.ndarray, ids: dict[tuple[str, str], int]) -> bytes:
    """Lines for COPY. Arrow writes the shortest number that rounds to a float32, so that 0.3 is 0.3."""
    kept = np.flatnonzero(_kept(points))
    kept = kept[
        np.argsort(points.metric[kept].astype(str), kind="stable")
    ]  # an index grows least in its order
    began = np.datetime64(datetime.fromisoformat(run.began).astimezone(UTC).replace(tzinfo=None), "us")
    times = began + (points.seconds[kept].astype(float) * 1e6).astype("timedelta64[us]")
    numbers = [getattr(points, name)[kept] for name in (*AXES, "value", "stderr")]
    columns = [
        pa.array([ids[run.id, metric] for metric in points.metric[kept]]),
        pa.array(np.full(len(kept), ATTEMPT)),
        pa.array(placed[kept]),
        pa.array(points.step[kept]),
        pa.array(times, pa.timestamp("us", tz="UTC")),
        *(pa.array(column, from_pandas=True) for column in numbers),  # NaN is no value
    ]
    lines = pa.BufferOutputStream()
    plain = csv.WriteOptions(include_header=False, quoting_style="none")
    csv.write_csv(pa.table(columns, names=[str(place) for place in range(len(columns))]), lines, plain)
    return lines.getvalue().to_pybytes()


def _values(column: np.ndarray) -> list[float | None]:
    """As `_csv` stores them."""
    numbers = map(float, map(str, column)) if column.dtype == np.float32 else column.tolist()
    return [None if number != number else number for number in numbers]


def _kept(points: Points) -> np.ndarray:
    """Mask [n]: evaluations all of them, of each other metric some, evenly, the first and the last among them; and of
    what never changes (the number of prompts of an evaluation) only these two."""
    mask = np.zeros(len(points.step), bool)
    names, which = np.unique(points.metric.astype(str), return_inverse=True)
    for number, metric in enumerate(names):
        places = np.flatnonzero(which == number)
        most = len(places) if metric.startswith("eval/") else MOST_DIAGNOSTICS
        if not is_pass_rate(metric) and np.ptp(points.value[places]) == 0:
            most = 2
        if len(places) > most:
            places = places[np.linspace(0, len(places) - 1, most).round().astype(int)]
        mask[places] = True
    return mask


def _newest_record(run: CorpusRun, points: Points, placed: np.ndarray) -> Record:
    """Lists read the compute spent from it."""
    last = np.flatnonzero(placed == placed[-1])
    return Record(
        run_id=run.id,
        attempt=ATTEMPT,
        seq=int(placed[-1]),
        step=int(points.step[-1]),
        time=datetime.fromisoformat(run.began) + timedelta(seconds=float(points.seconds[-1])),
        compute={axis: _values(getattr(points, axis)[last[-1:]])[0] for axis in AXES},
        metrics=dict(zip(points.metric[last].tolist(), _values(points.value[last]), strict=True)),
    )


# --- studies --------------------------------------------------------------------------------------------------------


def _store_study(
    project: Project,
    asked: PlannedStudy,
    runs: Sequence[CorpusRun],
    rows: dict[str, Run],
    hours: dict[str, float],
) -> None:
    """Its arms in the order of the file, the baseline first; nothing while a run that the file asks for is missing."""
    members = {arm: [run for run in runs if (asked.name, arm) in run.places] for arm in asked.arms}
    if any(len(own) < len(asked.seeds_of(arm)) for arm, own in members.items()):
        return
    base = members[asked.baseline]
    revision = rows[base[0].id].revision
    assert revision is not None  # `_run` gives each one
    axis = _axis(asked)
    study = Study.objects.create(
        project=project,
        name=f"{asked.name}: {asked.question}"[:120],
        kind=StudyKind.AXIS if axis else StudyKind.LEAVE_ONE_OUT,
        base=revision,
        task=base[0].task,
        model=base[0].model,
        seeds=sorted({run.seed for own in members.values() for run in own}),
        budget_hours=max(hours[run.id] for own in members.values() for run in own),
    )
    names = [asked.baseline, *(arm for arm in asked.arms if arm != asked.baseline)]
    for position, name in enumerate(names):
        own = members[name]
        arm = Arm.objects.create(
            study=study,
            position=position,
            label=name[:120],
            revision=rows[own[0].id].revision,
            task=own[0].task,
            model=own[0].model,
            **_change(asked, name, axis, own[0].config),
        )
        StudyRun.objects.bulk_create(StudyRun(study=study, run=rows[run.id], arm=arm) for run in own)


def _axis(asked: PlannedStudy) -> str:
    """The one setting that all arms but the baseline change; empty where they do not, or it is neither a number nor the
    model."""
    changed = [arm.settings for name, arm in asked.arms.items() if name != asked.baseline]
    keys = {key for settings in changed for key in settings}
    numeric = all(isinstance(value, int | float) for settings in changed for value in settings.values())
    return keys.pop() if len(keys) == 1 and len(changed) > 1 and (numeric or keys == {"model"}) else ""


def _change(asked: PlannedStudy, name: str, axis: str, config: dict[str, Any]) -> dict[str, Any]:
    """What the arm changes: columns of its row."""
    settings = asked.arms[name].settings
    said = ", ".join(f"{key} {json.dumps(value)}" for key, value in settings.items())
    key = axis or (next(iter(settings), "") if name != asked.baseline else "")
    value = _at(config, key) if key else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    size = stated_size(name) or stated_size(str(value)) if axis == "model" else None
    return {
        "axis": key[:120],
        "axis_title": NAMED_AXES["model"].title if axis == "model" else key[:120],
        "value": "" if value is None else str(value)[:200],
        "number": float(value) if is_number and axis and value is not None else size,
        "sentence": said or f"{asked.recipe} as the study has it.",
    }


def _at(config: dict[str, Any], path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
