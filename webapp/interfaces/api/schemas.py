"""Shapes of what the API takes and gives; they are also what /api/v1/openapi.json says."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Discriminator, FailFast, Field, Tag

from training.records import MAX_STEP, FewFields, Record, Time
from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.paging import DEFAULT_LIMIT, MAX_LIMIT, PageQuery
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.runs.bounds import MAX_TAGS
from webapp.record.runs.bulk import MAX_RUNS
from webapp.record.runs.ingest import MAX_REASON, MAX_RECORDS
from webapp.record.runs.models import Attempt, Point, Run, State, Transition
from webapp.record.runs.models import Record as StoredRecord
from webapp.record.runs.timeline import MOST_STEPS
from webapp.reporting.alarms.models import Alarm
from webapp.science.curves.comparison.panels import MOST_PANELS, MOST_PATTERNS
from webapp.science.curves.fitting import Question

Axis = Literal["device_hours", "flops", "tokens", "step"]
Format = Literal["json", "csv"]


PriorityName = Literal["low", "normal", "high"]


class Error(Schema):
    code: str
    message: str = Field(description="One sentence for people.")
    field: str | None = Field(
        None, description='Dotted path of the value at fault, e.g. "records.3.metrics".'
    )


class ErrorBody(Schema):
    error: Error


class Exact(Schema):
    """Everything that is answered is named here."""

    model_config = ConfigDict(extra="forbid")


class Body(FewFields, Schema):
    """What is sent to us: no unknown fields, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LaunchBody(Body):
    """Launch a run on the cluster."""

    tracked: Literal[False] = False
    recipe: str = Field(description="Slug of the recipe.")
    revision: int | None = Field(None, ge=1, le=2**31 - 1, description="Its revision; null: the newest.")
    task: str
    model: str
    seed: int = 0
    budget_hours: float = Field(description="Device-hours after which training stops.")
    name: str = ""
    priority: PriorityName = "normal"
    retries: int | None = Field(
        None,
        description="How often it goes on by itself after failures of the infrastructure; null: as set here.",
    )
    draft: bool = Field(False, description="Save it without launching it.")
    policies: dict[str, str] = Field(
        default_factory=dict,
        description="What stops this run by itself, where it is not what its project says: budget, advice, "
        "truncation, mismatch, not_finite, other -> warn, advise, stop or off.",
    )


class TrackBody(Body):
    """Track a run that trains elsewhere."""

    tracked: Literal[True]
    name: str = ""
    task: str = ""
    model: str = ""
    config: dict[str, Any] = Field(default_factory=dict)
    recipe: str | None = None
    seed: int = 0
    project: str | None = Field(None, description="Slug of the token's project, as a check.")


def _kind(data: Any) -> str:
    tracked = data.get("tracked") if isinstance(data, dict) else getattr(data, "tracked", None)
    return "tracked" if tracked else "launch"


RunBody = Annotated[
    Annotated[LaunchBody, Tag("launch")] | Annotated[TrackBody, Tag("tracked")], Discriminator(_kind)
]


_TOLD_LATER = Field(
    None, description="When it was, of a run that trains elsewhere and is told of later; null: now."
)


class StartBody(Body):
    attempt: int = Field(1, ge=1, le=32767)
    resumed_from_step: int | None = Field(None, ge=0, le=MAX_STEP)
    device: Any = Field(None, description="What it trains on, in words or as an object.")
    time: Time | None = _TOLD_LATER


class DescribeBody(Body):
    """What is left out stays as it is."""

    name: str = ""
    tags: list[str] = Field(
        default_factory=list, max_length=MAX_TAGS, description="Added to those that it has."
    )
    config: dict[str, Any] = Field(default_factory=dict, description="Entries to add, or to replace.")


class FinishBody(Body):
    attempt: int = Field(1, ge=1, le=32767)
    state: Literal["succeeded", "failed", "cancelled"]
    message: str = ""
    infrastructure: bool = Field(
        False, description="It failed because of what it ran on: the same again may go through."
    )
    time: Time | None = _TOLD_LATER


class RefusedBody(Body):
    """What the server refused, or the client could not send, of an attempt so far; told again it never counts less."""

    attempt: int = Field(1, ge=1, le=32767)
    refused_records: int = Field(ge=0, le=2**53, description="Records of which nothing is stored.")
    refused_values: int = Field(ge=0, le=2**53, description="Values left out of records that are stored.")
    reason: str = Field("", max_length=MAX_REASON, description="Of the newest, in words.")


class ExtendBody(Body):
    budget_hours: float = Field(description="Device-hours that the run may use in all, from now on.")


class MeaningBody(Body):
    """What a tracked run's metrics mean; what is left out is not known."""

    pass_rate: str = Field(
        "",
        max_length=250,
        description="The metric that is the held-out pass rate, as it is stored or as its trainer calls it; empty: "
        "eval/pass_rate.",
    )
    stderr: str = Field(
        "",
        max_length=250,
        description="The metric that is its standard error, at the same step; empty: none is.",
    )
    percent: bool = Field(
        False, description="Pass rate and standard error are in percent; they are stored as shares."
    )
    n_prompts: int | None = Field(
        None,
        description="Prompts of each evaluation: the standard error is at most sqrt(p (1 - p) / n_prompts).",
    )
    devices: float | None = Field(
        None,
        description="Devices that it trains on: device-hours, where it reports none, are devices x the time since its "
        "first record, pauses before a resume left out.",
    )
    device_hours: str = Field(
        "",
        max_length=250,
        description="The metric that holds the device-hours (GPU-hours) used so far; empty: none does.",
    )
    flops: str = Field(
        "", max_length=250, description="The metric that holds the FLOPs used so far; empty: none does."
    )
    tokens: str = Field(
        "", max_length=250, description="The metric that holds the tokens used so far; empty: none does."
    )


class AxisQuery(Schema):
    x: Axis = "device_hours"


class MeaningPreview(Schema):
    x: Axis
    total: int = Field(
        description="Evaluations that the curve would have, also those whose compute is not known on this axis."
    )
    points: list[dict[str, Any]]


class RunChanges(Body):
    """What is to be put right of a run; what is not sent stays as it is."""

    name: str = ""
    tags: list[str] = Field(
        [], max_length=MAX_TAGS, description="All of its tags, in place of those that it has."
    )
    notes: str = Field("", description="Plain text of any number of lines.")
    task: str = Field("", description="What it trains on; empty: not said.")
    model: str = Field("", description="What it starts from; empty: not said.")
    seed: int = 0
    meaning: MeaningBody = Field(
        default_factory=lambda: MeaningBody.model_validate({}), description="What its metrics mean."
    )


class BulkBody(Body):
    """One action on many runs."""

    action: Literal[
        "stop", "resume", "priority", "tag", "untag", "change", "archive", "unarchive", "delete", "restore"
    ]
    runs: list[str] = Field(
        max_length=MAX_RUNS,
        description="Ids; stop and resume take 200 at a time, priority, change, delete and restore 1,000.",
    )
    tag: str = Field("", description="Of tag and untag.")
    priority: PriorityName | None = Field(None, description="Of priority, which changes only runs that wait.")
    changes: RunChanges | None = Field(None, description="Of change: the same for all runs.")


class BulkOutcome(Schema):
    run: str
    name: str
    phrase: str = Field(description='What became of it, such as "tagged" or "not deleted".')
    words: str = Field(description="Why, where there is more to say; else empty.")


class BulkOut(Schema):
    sentence: str = Field(description='What became of all of them: "3 tagged, 1 not found."')
    outcomes: list[BulkOutcome]


class PriorityBody(Body):
    priority: PriorityName


class RecipeBody(Body):
    slug: str
    name: str
    config: dict[str, Any] = Field(description="A complete recipe, as training.recipe describes it.")
    description: str = Field("", max_length=10_000)
    message: str = Field("", max_length=300)


class RevisionBody(Body):
    config: dict[str, Any]
    message: str = Field("", max_length=300, description="What changed and why.")


class RecordBatch(Body):
    records: Annotated[list[Record], FailFast()] = Field(max_length=MAX_RECORDS)


class TableQuery(PageQuery):
    """A list that is a table, too."""

    limit: int = Field(
        DEFAULT_LIMIT,
        ge=1,
        le=MAX_LIMIT,
        description="Items a page; rows of CSV, which has all unless it is given.",
    )
    format: Format = "json"

    @property
    def most_rows(self) -> int | None:
        """How many rows a table has at most; None: all."""
        return self.limit if "limit" in self.model_fields_set else None


class MetricsQuery(PageQuery):
    limit: int = Field(1000, ge=1, le=10_000, description="Names a page.")


class RecordQuery(PageQuery):
    since: str | None = Field(None, description='"since" of an earlier answer: only what came after it.')


class RunQuery(PageQuery):
    state: list[State] = Field(default_factory=list, description="One or more states.")
    recipe: str = ""
    task: str = ""
    model: str = ""
    alarm: Literal["", "active", "any"] = Field(
        "", description="active: runs that alarm now; any: also those that once did."
    )
    q: str = Field("", max_length=200, description="Part of a name, a recipe or an id.")
    filter: str = Field(
        "",
        description="The filter language of the runs list, beside the other parameters: state:running,failed "
        "ceiling >= 0.6 NOT tag:draft. With a filter, archived runs are left out unless it names `archived`. "
        "A wrong one is answered by 422 with the character at fault.",
    )


@fields_of(
    Run,
    "id name origin state state_reason recipe revision task model seed tags notes archived_at "
    "deleted_at budget_hours priority retries attempt version created_by created_at started_at "
    "ended_at heartbeat_at",
)
class RunOut(Schema):
    """A run as in lists."""

    origin: Literal["launched", "tracked"]
    state: State
    recipe: str | None
    revision: int | None
    tags: list[str]
    deleted_at: datetime | None = Field(description="For a day after it the run can be restored.")
    priority: PriorityName
    retries: int | None = Field(description="After failures of the infrastructure; null: as set here.")
    attempt: int
    created_by: str | None


@fields_of(
    Attempt, "number state message submission_id resumed_from_step device created_at started_at ended_at"
)
class AttemptOut(Schema):
    """One launch of a run."""

    state: State
    device: Any


@fields_of(Transition, "attempt from_state to_state at actor part reason")
class TransitionOut(Schema):
    from_state: State | None = Field(description="null: it was made.")
    to_state: State
    actor: str | None = Field(description="The person who did it.")
    part: str = Field(
        description="Of the system, where no person did it: dispatch, driver, reconciliation, ..."
    )


class TransitionList(Schema):
    items: list[TransitionOut] = Field(description="Oldest first.")


@fields_of(Point, "value stderr step")
class ValueOut(Schema):
    """The newest value of a metric."""


@fields_of(
    Alarm,
    "rule metric level active threshold value latest first_step last_step times raised_at message meaning look_at",
)
class AlarmOut(Schema):
    """An alarm of a run."""

    rule: str = Field(description="Name of the rule; docs/alarms.md has them all.")
    level: Literal["warning", "critical"]
    active: bool = Field(description="The newest values are still beyond the threshold.")
    threshold: float | None = Field(description="In units of the metric; null: values that are not finite.")
    value: float | None = Field(description="The worst of the newest episode.")
    first_step: int = Field(description="Of the newest episode.")
    times: int = Field(description="Episodes so far.")
    raised_at: datetime = Field(description="When the newest episode was noticed.")
    message: str = Field(description="What is beyond which threshold, since when. One sentence.")
    meaning: str
    look_at: str


class RefusedOut(Schema):
    """What could not be stored of a run."""

    records: int = Field(description="Of which nothing is stored.")
    values: int = Field(description="Left out of records that are stored.")
    reason: str = Field(description="Of the newest, as the client or this server said it.")


class RunDetail(RunOut):
    """One run with its configuration, attempts, newest values and alarms."""

    config: dict[str, Any]
    meaning: dict[str, Any] = Field(description="What was said of a tracked run's metrics (POST meaning).")
    refused: RefusedOut = Field(
        description="What its client could not have stored, of all attempts (POST refused)."
    )
    attempts: list[AttemptOut]
    latest: dict[str, ValueOut] = Field(
        description="Newest value of every metric; of more than 1,000 evaluations before others, by name."
    )
    alarms: list[AlarmOut] = Field(description="Active before past, critical before warnings.")


class IngestOut(Schema):
    accepted: int
    duplicates: int
    gather_seconds: float
    warning: str | None = Field(
        None, description="What was stored otherwise than one may think; only where it was."
    )


@fields_of(Recipe, "slug name description latest_revision content_hash runs created_at")
class RecipeOut(Schema):
    """A recipe as in lists."""

    latest_revision: int | None
    content_hash: str | None
    runs: int


@fields_of(Revision, "recipe number content_hash message created_by created_at config")
class RevisionOut(Schema):
    recipe: str
    created_by: str | None


class HintOut(Schema):
    field: str = Field(description='Dotted path in the configuration, e.g. "optimizer.lr".')
    message: str


class RevisionAnswer(RevisionOut):
    hints: list[HintOut] = Field(
        description="Values outside of the ranges recommended for the model's size. They refuse nothing."
    )


class ComputeOut(Schema):
    """Cumulative training compute; evaluation is not counted. null: not known."""

    device_hours: float | None = None
    flops: float | None = None
    tokens: float | None = None


@fields_of(StoredRecord, "attempt seq step time compute metrics")
class RecordOut(Schema):
    """A record as it was reported."""

    compute: ComputeOut
    metrics: dict[str, float | None] = Field(description="null: it was not finite.")


class RecordPage(Schema):
    items: list[RecordOut] = Field(description="In the order of arrival.")
    next: str | None
    since: str | None = Field(
        description="Cursor of the last record that was given or known: send it as `since` for what came after."
    )


class CurveQuery(Schema):
    metric: str = "eval/pass_rate"
    x: Axis = "device_hours"
    format: Format = "json"
    start: bool = Field(True, description="Keep points at zero compute (the evaluation before any update).")


class ManyCurvesQuery(Schema):
    run: list[str] = Field(max_length=100, description="Ids of at most 100 runs.")
    metric: str = "eval/pass_rate"
    x: Axis = "device_hours"
    column: list[Literal["step", "compute", "value", "stderr", "time"]] = Field(
        [],
        description="The columns that are wanted; none named: all. compute is on the axis x, time in seconds.",
    )


class SeriesQuery(Schema):
    metric: str = "eval/pass_rate"
    x: Axis = "step"
    points: int = Field(1000, ge=10, le=10_000, description="At most so many are shown of a series.")
    lo: float | None = Field(
        None, allow_inf_nan=False, description="Only from here on the axis x: to zoom in."
    )
    hi: float | None = Field(None, allow_inf_nan=False, description="Only up to here.")


class TimelineQuery(Schema):
    until: int | None = Field(
        None, ge=0, lt=2**63, description="The last step; the newest, if nothing is said."
    )
    steps: int = Field(MOST_STEPS, ge=1, le=MOST_STEPS, description="So many steps up to it.")


class ManySeriesQuery(SeriesQuery):
    run: list[str] = Field(max_length=100, description="Ids of at most 100 runs.")


class PanelsQuery(Schema):
    run: list[str] = Field(max_length=100, description="Ids of at most 100 runs.")
    metric: list[str] = Field(
        default_factory=list,
        max_length=MOST_PATTERNS,
        description="Names, patterns with `*`, or parts of names; the usual ones, if nothing is said. The first "
        f"{MOST_PANELS} that are meant are answered.",
    )
    x: str = Field(
        "step",
        max_length=250,
        description="device_hours, flops, tokens, step; wall_clock: hours since the run began, pauses "
        "included; or any metric that a run reports: pairs of the same step.",
    )
    by: Literal["run", "recipe"] = "run"
    lo: float | None = Field(
        None, allow_inf_nan=False, description="Only from here on x, thinned anew, and one point before it."
    )
    hi: float | None = Field(
        None, allow_inf_nan=False, description="Only up to here, and one point after it."
    )


class FitQuery(TableQuery):
    run: str = ""
    metric: str = Field("", description="Fits of this curve alone, e.g. eval/math/pass_rate.")


class ForecastRecordQuery(Schema):
    task: str = ""
    recipe: str = Field("", description="Slug of a recipe.")


class FigureQuery(Schema):
    x: Axis = "device_hours"
    metric: str = Field(
        "eval/pass_rate",
        pattern=r"^eval/([^/\x00]+/)*pass_rate$",
        max_length=250,
        description="The curve: eval/pass_rate, or of a mixture's part eval/<part>/pass_rate.",
    )
    cutoff: float | None = Field(None, gt=0, allow_inf_nan=False)
    lo: float | None = Field(None, ge=0, allow_inf_nan=False)
    level: float = Field(0.9, ge=0.5, le=0.999)
    since: int | None = Field(None, ge=0, description="Version that is known: 204 where nothing is newer.")

    @property
    def question(self) -> Question:
        return Question(self.x, self.cutoff, self.lo, self.level, self.metric)


class CompareQuery(Schema):
    run: list[str] = Field(default_factory=list, max_length=120)
    recipe: list[str] = Field(default_factory=list, max_length=40, description="slug@revision: all its runs")
    reference: list[str] = Field(default_factory=list, max_length=20)
    x: Axis = "device_hours"
    view: Literal["rate", "share", "slope"] = "rate"
    by: Literal["run", "recipe"] = "run"
    budget: float | None = Field(None, gt=0, allow_inf_nan=False, description="in units of x")


class LeaderboardQuery(Schema):
    budget: float | None = Field(None, gt=0, allow_inf_nan=False, description="in units of x")
    x: Axis = "device_hours"
    task: str = ""
    model: str = ""
    published: bool = True
    format: Format = "json"
