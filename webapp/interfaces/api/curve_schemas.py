"""Shapes of what curves, series, fits and the leaderboard answer.

Answers of many points are not put through these when they are given: to check 100,000 numbers takes longer than to find
them. They stand in the OpenAPI document, and the tests hold the answers to them.
"""

from typing import Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.schemas import Axis, Exact
from webapp.record.runs.points import CurvePoint
from webapp.science.curves import words
from webapp.science.curves.models import Fit
from webapp.science.curves.record import reading

Ends = tuple[float | None, float | None]


@fields_of(CurvePoint, "compute value stderr step attempt")
class PointOut(Exact):
    """A point of a curve on the axis that was asked for."""

    compute: float | None = Field(description="On the axis x; null: not known.")
    stderr: float | None = Field(description="Standard error of the value, where the trainer reported one.")


class CurveOut(Exact):
    """Every point of a curve."""

    run: str
    metric: str
    x: Axis
    total: int
    points: list[PointOut] = Field(description="In the order of training, without superseded ones.")


Role = Literal["last", "min", "max"]


class SampledPointOut(PointOut):
    """A point of a sample."""

    roles: list[Role] = Field(description="What it is of its bucket; empty where every point is shown.")


class SeriesOut(Exact):
    """Some points of a series, how they were chosen, and of how many."""

    run: str
    metric: str
    x: Axis
    sampled: bool
    method: str = Field(description="How the points were chosen, in words.")
    total: int = Field(description="Points that there are.")
    shown: int
    points: list[SampledPointOut]


class TraceEvent(Exact):
    """A span (ph X), or the name of a process or a thread (ph M)."""

    name: str
    ph: Literal["X", "M"]
    pid: int
    tid: int
    args: dict[str, str | int]
    cat: str | None = None
    ts: int | None = Field(None, description="Microseconds since 1970.")
    dur: int | None = Field(None, description="Microseconds.")


class TraceOut(Exact):
    """The trace event format of Chrome."""

    displayTimeUnit: str  # noqa: N815
    traceEvents: list[TraceEvent]  # noqa: N815


class ColumnsOut(Exact):
    """Every point of a run's curve, in columns."""

    run: str
    step: list[int] = []
    compute: list[float] = []
    value: list[float] = []
    stderr: list[float | None] = []
    time: list[float] = Field([], description="Seconds since 1970.")


class SampledColumnsOut(Exact):
    """A sample of a run's series, in columns."""

    run: str
    sampled: bool
    method: str = Field(description="How the points were chosen, in words.")
    total: int = Field(description="Points that there are.")
    shown: int
    step: list[int]
    compute: list[float] = Field(description="On the axis x.")
    value: list[float]
    last: list[int] = Field(
        description="Places in the columns; empty, as are min and max, where every point is shown."
    )
    min: list[int]
    max: list[int]


class ManySeriesOut(Exact):
    metric: str
    x: Axis
    items: list[SampledColumnsOut] = Field(description="In the order in which the runs were asked for.")


@fields_of(words.Axis, "key label short is_metric")
class PanelAxis(Exact):
    is_metric: bool


class PanelGroup(Exact):
    """A recipe."""

    label: str
    runs: int


class PanelSeries(Exact):
    """Whose a line is: a run's, or a recipe's."""

    label: str
    group: int = Field(description="Its place among the groups.")


class PanelLine(Exact):
    series: int = Field(description="Its place among the series.")
    runs: int = Field(description="Runs behind it.")
    x: list[float]
    y: list[float | None]
    lo: list[float | None] | None = Field(None, description="The least of several runs.")
    hi: list[float | None] | None = None


class PanelOut(Exact):
    metric: str
    runs: int = Field(description="Runs that have it.")
    note: str = Field(description="What is not shown, in words.")
    whole: bool = Field(description="Whether every point is there.")
    lines: list[PanelLine]


class PanelsOut(Exact):
    """Any metrics of many runs."""

    x: PanelAxis
    by: Literal["run", "recipe"]
    groups: list[PanelGroup]
    series: list[PanelSeries]
    runs: int
    matching: int = Field(description="Metrics that the patterns mean.")
    unmatched: list[str] = Field(description="Patterns that mean none.")
    names: list[str] = Field(description="Metrics that the runs report, at most 1,000.")
    reported: str = Field(description="How many metrics they report, in words.")
    panels: list[PanelOut]


class ManyCurvesOut(Exact):
    metric: str
    x: Axis
    items: list[ColumnsOut] = Field(description="In the order in which the runs were asked for.")


class MetricList(Exact):
    items: list[str] = Field(description="By name.")
    next: str | None


class WindowOut(Exact):
    """What of a curve was fitted, in units of x."""

    lo: float | None = Field(description="null: from the first point.")
    cutoff: float | None = Field(description="Points after it were not used; null: all were.")


class AheadOut(Exact):
    """The forecast at one compute."""

    compute: float
    value: float = Field(description="Forecast mean pass rate; single evaluations scatter around it.")
    interval: tuple[float, float]


class ForecastOut(Exact):
    """Forms that saturate in different ways, averaged; null where `status` is failed."""

    status: str = Field(description="ok, not_identified (the tail is not known yet) or failed.")
    message: str
    level: float = Field(description="Of the intervals.")
    seen: float = Field(description="The last compute used.")
    ceiling: float | None = Field(description="For compute without bound.")
    interval: tuple[float, float] | None = Field(description="Of the ceiling.")
    reached: float | None = Field(
        description="Lower end of the mean pass rate at the last compute used: widened intervals do not begin below."
    )
    compute: list[float] | None = Field(
        description="From a quarter of the first compute used to 20 times the last."
    )
    value: list[float] | None
    lo: list[float] | None
    hi: list[float] | None
    multiples: dict[str, AheadOut] | None = Field(description="At 2, 4 and 10 times the last compute used.")
    recalibrated_by: float = Field(
        description="What half widths were multiplied by, by the record of the project's other runs; 1: nothing."
    )


@fields_of(
    Fit,
    "id run metric x form method status message level window fitted params intervals sse r2 n "
    "data_digest superseded created_at forecast",
)
class FitOut(Exact):
    """A stored fit. Its parameters never change."""

    run: str
    x: Axis
    form: str = Field(description="sigmoid, power or logistic.")
    status: str = Field(description="ok, not_identified or failed.")
    level: float = Field(description="Of the intervals.")
    window: WindowOut
    fitted: Ends = Field(description="x of the first and the last point used.")
    params: dict[str, float | None] | None = Field(
        description="R0, A (the ceiling), B, C_mid; A is null where the data do not identify it."
    )
    intervals: dict[str, Ends] | None = Field(description="Of each parameter [lo, hi]; an open end is null.")
    n: int = Field(description="Points used.")
    data_digest: str = Field(description="SHA-256 of the points used.")
    superseded: bool = Field(
        description="A later attempt resumed from before some of these points: it counts no more."
    )
    forecast: ForecastOut | None = Field(description="From the same points; null where none is stored yet.")


class RankedOut(Schema):
    """One revision of a recipe; also has words for the page that are not named here."""

    model_config = ConfigDict(extra="allow")

    recipe: str
    recipe_slug: str | None
    revision: int | None
    published: bool
    source: str = Field(description="Of a published curve.")
    rank: int | None = Field(
        description="One more than the number of recipes that are really better at `compared_at`; null: not compared."
    )
    tied: bool
    seeds: int | None
    identified_seeds: int | None
    runs: list[str]
    compared_at: float | None = Field(
        description="Compute, on the axis asked for, at which the group is compared: the budget, or the largest seen."
    )
    not_compared: str = Field(
        description="Why it, or some of its runs, take no part; empty where nothing keeps them out."
    )
    forecast: float | None = Field(
        description="Forecast ceiling, form, noise and seeds in its interval at 90 %."
    )
    forecast_lo: float | None
    forecast_hi: float | None
    forecast_chance: float | None = Field(description="Probability that its forecast ceiling is the highest.")
    forecast_rank: int | None = Field(description="As `rank`, by forecast ceiling.")
    A: float | None = Field(description="The ceiling of Eq. 1, the paper's parameter; null: not identified.")
    lo: float | None
    hi: float | None
    B: float | None
    B_lo: float | None
    B_hi: float | None
    c90: float | None = Field(description="Compute to 90 % of the gain.")
    c90_lo: float | None
    c90_hi: float | None
    at_budget: float | None = Field(
        description="Pass rate forecast at `compared_at`, its interval as the ceiling's."
    )
    at_budget_lo: float | None
    at_budget_hi: float | None
    at_budget_chance: float | None = Field(description="Probability to be the best there.")
    evidence: str = Field(description="none, weak, fair, strong or published.")


class GroupOut(Schema):
    """The leaderboard of one task and model."""

    model_config = ConfigDict(extra="allow")

    task: str
    model: str
    unit: str
    published: bool
    rows: list[RankedOut]
    answer: list[str] = Field(description="What the rows come to, in sentences.")


class LeaderboardOut(Exact):
    groups: list[GroupOut] = Field(description="One a task and model.")


@fields_of(words.Axis, "key label short")
class AxisOut(Exact):
    key: Axis


class FigureOut(Schema):
    """What the run's page shows. What is not named here may change."""

    model_config = ConfigDict(extra="allow")

    version: int | None = Field(description="Send it as `since`: 204 where nothing is newer.")
    state: str
    ended: bool
    attempt: int
    x: AxisOut
    metric: str
    points: dict[str, Any]
    fit: dict[str, Any] | None
    ceiling: dict[str, Any] = Field(
        description="With its interval; value is null where it is not identified."
    )


class ComparisonOut(Schema):
    """Series side by side. What is not named here may change."""

    model_config = ConfigDict(extra="allow")

    x: AxisOut
    view: Literal["rate", "share", "slope"]
    by: Literal["run", "recipe"]
    series: list[dict[str, Any]]
    table: list[dict[str, Any]]
    sentences: list[str]


class UnjudgedOut(Exact):
    why: str
    runs: int


@fields_of(reading.Row)
class RecordRowOut(Exact):
    """A method over one group of forecasts; errors are what came minus the value."""

    method: str = Field(description="forecast, recalibrated, last, eq1 or paper.")
    key: str = Field(description="The group: a share of the compute, a task, a recipe, or all.")
    n: int = Field(description="Forecasts.")
    without: int = Field(description="Origins from which the method said nothing.")
    inside: int = Field(description="90 % intervals that held what came.")
    lo: float | None = Field(description="Exact 90 % interval of the observed share.")
    score: float | None = Field(description="Mean interval score at 90 %.")


@fields_of(reading.Level)
class RecordLevelOut(Exact):
    recalibrated_inside: int | None = Field(description="After recalibration; null: too few runs.")


class ForecastRecordOut(Exact):
    runs: int
    forecasts: int
    as_it_went: int = Field(description="Forecasts that were stored while their runs went on.")
    waiting: int = Field(description="Ended runs that are not judged yet.")
    unjudged: list[UnjudgedOut]
    recalibrates: bool
    factors: dict[str, float | None] = Field(description="Of half widths, by level; null: too few runs.")
    methods: list[RecordRowOut]
    levels: list[RecordLevelOut]
    by: dict[str, list[RecordRowOut]] = Field(description="share, task, recipe.")
