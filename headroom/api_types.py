"""What `headroom.Api` gives, as types: the JSON of the HTTP API; times are ISO 8601.

Written by scripts/api_types.py from the schemas of the server.
"""

from typing import Any, Literal, TypedDict

Axis = Literal["device_hours", "flops", "tokens", "step"]
State = Literal[
    "draft",
    "queued",
    "submitting",
    "starting",
    "running",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
    "lost",
]


class Compute(TypedDict):
    """Cumulative training compute; evaluation is not counted. None: not known."""

    device_hours: float | None
    flops: float | None
    tokens: float | None


class Record(TypedDict):
    """A record as it was reported."""

    attempt: int
    seq: int
    step: int
    time: str
    compute: Compute
    metrics: dict[str, float | None]  # None: it was not finite


class Run(TypedDict):
    """A run as in lists."""

    id: str
    name: str
    origin: Literal["launched", "tracked"]
    state: State
    state_reason: str
    recipe: str | None
    revision: int | None
    task: str
    model: str
    seed: int
    tags: list[str]
    notes: str
    archived_at: str | None
    deleted_at: str | None  # For a day after it the run can be restored
    budget_hours: float | None
    priority: Literal["low", "normal", "high"]
    retries: int | None  # After failures of the infrastructure; None: as set here
    attempt: int
    version: int
    created_by: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    heartbeat_at: str | None


class Refused(TypedDict):
    """What could not be stored of a run."""

    records: int  # Of which nothing is stored
    values: int  # Left out of records that are stored
    reason: str  # Of the newest, as the client or this server said it


class Attempt(TypedDict):
    """One launch of a run."""

    number: int
    state: State
    message: str
    submission_id: str
    resumed_from_step: int | None
    device: Any
    created_at: str
    started_at: str | None
    ended_at: str | None


class Value(TypedDict):
    """The newest value of a metric."""

    value: float
    stderr: float | None
    step: int


class Alarm(TypedDict):
    """An alarm of a run."""

    rule: str  # Name of the rule; docs/alarms.md has them all
    metric: str
    level: Literal["warning", "critical"]
    active: bool  # The newest values are still beyond the threshold
    threshold: float | None  # In units of the metric; None: values that are not finite
    value: float | None  # The worst of the newest episode
    latest: float | None
    first_step: int  # Of the newest episode
    last_step: int
    times: int  # Episodes so far
    raised_at: str  # When the newest episode was noticed
    message: str  # What is beyond which threshold, since when. One sentence
    meaning: str
    look_at: str


class RunDetail(Run):
    """One run with its configuration, attempts, newest values and alarms."""

    config: dict[str, Any]
    meaning: dict[str, Any]  # What was said of a tracked run's metrics (POST meaning)
    refused: Refused  # What its client could not have stored, of all attempts (POST refused)
    attempts: list[Attempt]
    # Newest value of every metric; of more than 1,000 evaluations before others, by name
    latest: dict[str, Value]
    alarms: list[Alarm]  # Active before past, critical before warnings


class Point(TypedDict):
    """A point of a curve on the axis that was asked for."""

    compute: float | None  # On the axis x; None: not known
    value: float
    stderr: float | None  # Standard error of the value, where the trainer reported one
    step: int
    attempt: int


class Curve(TypedDict):
    """Every point of a curve."""

    run: str
    metric: str
    x: Axis
    total: int
    points: list[Point]  # In the order of training, without superseded ones


class SampledPoint(Point):
    """A point of a sample."""

    roles: list[Literal["last", "min", "max"]]  # What it is of its bucket; empty where every point is shown


class Series(TypedDict):
    """Some points of a series, how they were chosen, and of how many."""

    run: str
    metric: str
    x: Axis
    sampled: bool
    method: str  # How the points were chosen, in words
    total: int  # Points that there are
    shown: int
    points: list[SampledPoint]


class SampledColumns(TypedDict):
    """A sample of a run's series, in columns."""

    run: str
    sampled: bool
    method: str  # How the points were chosen, in words
    total: int  # Points that there are
    shown: int
    step: list[int]
    compute: list[float]  # On the axis x
    value: list[float]
    last: list[int]  # Places in the columns; empty, as are min and max, where every point is shown
    min: list[int]
    max: list[int]


class Columns(TypedDict):
    """Every point of a run's curve, in columns."""

    run: str
    step: list[int]
    compute: list[float]
    value: list[float]
    stderr: list[float | None]
    time: list[float]  # Seconds since 1970


class Window(TypedDict):
    """What of a curve was fitted, in units of x."""

    lo: float | None  # None: from the first point
    cutoff: float | None  # Points after it were not used; None: all were


class Ahead(TypedDict):
    """The forecast at one compute."""

    compute: float
    value: float  # Forecast mean pass rate; single evaluations scatter around it
    interval: list[float]


class Forecast(TypedDict):
    """Forms that saturate in different ways, averaged; None where `status` is failed."""

    status: str  # ok, not_identified (the tail is not known yet) or failed
    message: str
    level: float  # Of the intervals
    seen: float  # The last compute used
    ceiling: float | None  # For compute without bound
    interval: list[float] | None  # Of the ceiling
    # Lower end of the mean pass rate at the last compute used: widened intervals do not begin below
    reached: float | None
    compute: list[float] | None  # From a quarter of the first compute used to 20 times the last
    value: list[float] | None
    lo: list[float] | None
    hi: list[float] | None
    multiples: dict[str, Ahead] | None  # At 2, 4 and 10 times the last compute used
    # What half widths were multiplied by, by the record of the project's other runs; 1: nothing
    recalibrated_by: float


class Fit(TypedDict):
    """A stored fit. Its parameters never change."""

    id: int
    run: str
    metric: str
    x: Axis
    form: str  # sigmoid, power or logistic
    method: str
    status: str  # ok, not_identified or failed
    message: str
    level: float  # Of the intervals
    window: Window
    fitted: list[float | None]  # x of the first and the last point used
    # R0, A (the ceiling), B, C_mid; A is None where the data do not identify it
    params: dict[str, float | None] | None
    intervals: dict[str, list[float | None]] | None  # Of each parameter [lo, hi]; an open end is None
    sse: float | None
    r2: float | None
    n: int  # Points used
    data_digest: str  # SHA-256 of the points used
    superseded: bool  # A later attempt resumed from before some of these points: it counts no more
    created_at: str
    forecast: Forecast | None  # From the same points; None where none is stored yet


class Ranked(TypedDict):
    """One revision of a recipe; also has words for the page that are not named here."""

    recipe: str
    recipe_slug: str | None
    revision: int | None
    published: bool
    source: str  # Of a published curve
    # One more than the number of recipes that are really better at compared_at; None: not compared
    rank: int | None
    tied: bool
    seeds: int | None
    identified_seeds: int | None
    runs: list[str]
    # Compute, on the axis asked for, at which the group is compared: the budget, or the largest seen
    compared_at: float | None
    not_compared: str  # Why it, or some of its runs, take no part; empty where nothing keeps them out
    forecast: float | None  # Forecast ceiling, form, noise and seeds in its interval at 90 %
    forecast_lo: float | None
    forecast_hi: float | None
    forecast_chance: float | None  # Probability that its forecast ceiling is the highest
    forecast_rank: int | None  # As rank, by forecast ceiling
    A: float | None  # The ceiling of Eq. 1, the paper's parameter; None: not identified
    lo: float | None
    hi: float | None
    B: float | None
    B_lo: float | None
    B_hi: float | None
    c90: float | None  # Compute to 90 % of the gain
    c90_lo: float | None
    c90_hi: float | None
    at_budget: float | None  # Pass rate forecast at compared_at, its interval as the ceiling's
    at_budget_lo: float | None
    at_budget_hi: float | None
    at_budget_chance: float | None  # Probability to be the best there
    evidence: str  # none, weak, fair, strong or published


class Group(TypedDict):
    """The leaderboard of one task and model."""

    task: str
    model: str
    unit: str
    published: bool
    rows: list[Ranked]
    answer: list[str]  # What the rows come to, in sentences


class Outcome(TypedDict):
    """What came of a prediction by one run."""

    run: str
    primary: bool  # The one that counts in calibration
    actual: float | None
    actual_lo: float | None
    actual_hi: float | None
    error: float | None  # actual - value
    inside: bool | None
    interval_score: float | None
    happened: bool | None
    probability_score: float | None  # Brier score
    log_score: float | None
    how: dict[str, Any]  # The evaluations it was read from, with their digest
    created_at: str


class Prediction(TypedDict):
    """A claim that was made before the data."""

    id: str
    run: str
    recipe: str | None
    revision: int | None
    task: str
    model: str
    author: str
    created_at: str
    life: Literal["open", "projection", "scored", "withdrawn", "replaced"]
    review: Literal["unreviewed", "asked", "changes", "approved", "rejected"]
    statement: Literal["pass_rate", "ceiling", "passes"]
    x: str
    metric: str
    target: float
    level: float
    value: float | None
    lo: float | None
    hi: float | None
    rival: str | None
    probability: float | None
    cutoff: float  # Last point that the fit used, in units of x
    known_until: float  # Last evaluation that was stored when the claim was made
    horizon: float  # target / known_until
    reasons: str
    replaces: str | None
    replaced_by: str | None
    withdrawn_at: str | None
    withdrawn_reason: str
    outcomes: list[Outcome]
    waits: list[str]  # Why runs that passed the target could not score it yet


class PredictionDetail(Prediction):
    """A prediction with all that was frozen."""

    fit: int  # Id of the stored fit; /fits/{id} has it
    data_digest: str
    frozen: dict[str, Any]  # The fit as it was; seen: runs that had passed the target then
    rival_frozen: dict[str, Any] | None


class Study(TypedDict):
    """A study as in lists."""

    id: str
    name: str
    kind: str
    recipe: str
    revision: int
    task: str
    model: str
    seeds: list[int]
    budget_hours: float
    runs: int
    done: int
    created_at: str


class Arm(TypedDict):
    """A variant of a study."""

    position: int
    axis: str
    value: str
    label: str
    recipe: str | None
    revision: int | None


class Known(TypedDict):
    """A value with its error."""

    value: float
    error: float  # Its standard error


class RunOnAxis(TypedDict):
    """A run of a study at its value of the axis."""

    value: float
    ceiling: Known
    pass_rate: Known


class ValueWithInterval(TypedDict):
    """A value with its interval."""

    value: float
    lo: float
    hi: float


class OnAxis(TypedDict):
    """What the law says at a value of the axis."""

    value: float  # On the axis
    ceiling: ValueWithInterval  # The forecast ceiling there
    pass_rate: ValueWithInterval  # The pass rate at the end of a run's budget


class VariantOnAxis(OnAxis):
    """And which variant of the study has that value."""

    position: int


class ForecastOnAxis(OnAxis):
    """And the same in words."""

    sentence: str


class AxisLaw(TypedDict):
    """One law over a study's runs, by one number or the model's size. Intervals, at `level`, are of one more run."""

    axis: str
    title: str
    unit: str
    level: float
    why: str  # Why there is no law, such as two values only; empty where there is one
    sentence: str
    runs: list[RunOnAxis]  # What it rests on: what forecasts of the runs say
    variants: list[VariantOnAxis]  # The law at each variant's own value
    curve: list[OnAxis]
    forecast: ForecastOnAxis | None  # At axis_value, where that was asked for


class StudyDetail(Study):
    """A study with its variants and results."""

    progress: str
    variants: list[Arm]
    axis_law: AxisLaw | None  # None for a study of several axes, or of one without numbers
    results: dict[str, Any]  # What the page shows: matrix, sentences, charts. Null: not identified


class Recipe(TypedDict):
    """A recipe as in lists."""

    slug: str
    name: str
    description: str
    latest_revision: int | None
    content_hash: str | None
    runs: int
    created_at: str
