"""Shapes of what /api/v1/predictions takes and gives."""

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.schemas import Axis, Body, Exact, TableQuery
from webapp.science.predictions import calibration
from webapp.science.predictions.models import Comment, Outcome, Prediction, Review

StatementName = Literal["pass_rate", "ceiling", "passes"]
Life = Literal["open", "projection", "scored", "withdrawn", "replaced"]
ReviewState = Literal["unreviewed", "asked", "changes", "approved", "rejected"]
Verdict = Literal["approved", "changes", "rejected"]


class QuestionBody(Body):
    """Which fit is frozen: curve, axis, form, and the window [window_lo, cutoff] in units of x."""

    x: Axis = "device_hours"
    metric: str = "eval/pass_rate"
    form: str = Field("sigmoid", description="sigmoid, power or logistic.")
    window_lo: float | None = None
    cutoff: float | None = Field(None, description="null: all that is stored.")
    robust: bool = Field(False, description="Leave out evaluations that crashed.")


class PredictionBody(Body):
    """A claim. What is left null, the forecast says: value, lo and hi together, or the probability of `passes`."""

    run: str = Field(description="Id of the run whose curve is frozen.")
    question: QuestionBody | None = Field(None, description="null: the whole curve, on device-hours.")
    statement: StatementName
    target: float = Field(description="In units of x, beyond all that is stored of the run.")
    level: float = Field(0.9, description="Of the interval, 0.5 to 0.99.")
    value: float | None = Field(None, description="Pass rate at the target, or ceiling.")
    lo: float | None = None
    hi: float | None = None
    rival: str | None = Field(None, description="passes: id of the run whose curve is passed by the target.")
    probability: float | None = Field(None, description="passes: strictly between 0 and 1.")
    reasons: str
    replaces: str | None = Field(None, description="Id of a prediction of your own that this one replaces.")


class ReviewBody(Body):
    verdict: Verdict
    reason: str = Field("", description="Required unless approved.")


class ReviewersBody(Body):
    reviewers: list[str] = Field(description="Usernames of members who may review.", max_length=20)


class CommentBody(Body):
    text: str = Field(description="Plain; @username mentions a member.")
    parent: int | None = Field(None, description="Id of the first comment of a thread, to answer it.")
    anchor: list[float] | None = Field(None, description="[x, y]: a point of the chart.", max_length=2)


class WithdrawBody(Body):
    reason: str


class PredictionQuery(TableQuery):
    status: str = Field(
        "", description="One of open, projection, scored, withdrawn, replaced; or of unreviewed, asked, changes, "
        "approved, rejected.",
    )  # fmt: skip
    author: str = Field("", description="Username.")
    recipe: str = Field("", description="Slug.")
    run: str = ""
    task: str = ""
    model: str = ""


class CalibrationQuery(Schema):
    author: str = Field("", description="Username.")
    recipe: str = Field("", description="Slug.")
    horizon: str = Field("", description="2, 4, 8 or more: target / newest evaluation known, up to.")
    task: str = ""


@fields_of(
    calibration.Row,
    "kind key label n inside claimed observed lo hi runs interval_score width mean_error "
    "mean_abs_error words",
)
class CoverageRow(Exact):
    """Interval claims of one group: how many came inside, and what was claimed."""

    kind: str = Field(description="all, level, horizon, author, recipe or statement.")
    claimed: float | None = Field(description="Mean level.")
    observed: float | None = Field(description="Share inside; lo and hi are its exact interval.")
    runs: int = Field(description="Different runs that scored them.")
    words: str | None = None


class CalibrationOut(Exact):
    confidence: float = Field(description="Of each row's [lo, hi].")
    overall: CoverageRow
    rows: list[CoverageRow]
    probabilities: dict[str, Any] = Field(description="n, brier, log_score, happened, bins of reliability.")
    counts: dict[str, int] = Field(description="Of all predictions of the choice, by where they stand.")


@fields_of(calibration.Forecaster)
class ForecasterOut(Exact):
    score: float | None = Field(description="Below 1 is better than the forecast alone.")
    rank: int | None = Field(description="Shared by ties; null: too few.")
    coverage: CoverageRow


class ForecastersOut(Exact):
    ranks: bool = Field(description="Whether the project ranks people.")
    items: list[ForecasterOut]


@fields_of(
    Outcome,
    "run primary actual actual_lo actual_hi error inside interval_score happened probability_score "
    "log_score how created_at",
)
class OutcomeOut(Schema):
    """What came of a prediction by one run."""

    run: str
    primary: bool = Field(description="The one that counts in calibration.")
    error: float | None = Field(description="actual - value")
    probability_score: float | None = Field(description="Brier score.")
    how: dict[str, Any] = Field(description="The evaluations it was read from, with their digest.")


@fields_of(
    Prediction,
    "id run recipe revision task model author created_at life review statement x metric target level "
    "value lo hi rival probability cutoff known_until horizon reasons replaces replaced_by "
    "withdrawn_at withdrawn_reason outcomes waits",
)
class PredictionOut(Schema):
    """A claim that was made before the data."""

    run: str
    recipe: str | None
    revision: int | None
    author: str
    life: Life
    review: ReviewState
    statement: StatementName
    rival: str | None
    cutoff: float = Field(description="Last point that the fit used, in units of x.")
    known_until: float = Field(description="Last evaluation that was stored when the claim was made.")
    horizon: float = Field(description="target / known_until")
    replaces: str | None
    replaced_by: str | None
    outcomes: list[OutcomeOut]
    waits: list[str] = Field(description="Why runs that passed the target could not score it yet.")


class PredictionDetail(PredictionOut):
    """A prediction with all that was frozen."""

    fit: int = Field(description="Id of the stored fit; /fits/{id} has it.")
    data_digest: str
    frozen: dict[str, Any] = Field(
        description="The fit as it was; `seen`: runs that had passed the target then."
    )
    rival_frozen: dict[str, Any] | None


@fields_of(Review, "id reviewer verdict reason counts created_at")
class ReviewOut(Schema):
    reviewer: str
    verdict: Verdict
    counts: bool = Field(description="It is the reviewer's latest.")


class RequestOut(Schema):
    reviewer: str
    asked_by: str
    asked_at: datetime


class ReviewList(Schema):
    review: ReviewState = Field(description="What the latest verdict of each reviewer comes to.")
    requests: list[RequestOut]
    items: list[ReviewOut]


@fields_of(Comment, "id author parent text anchor mentions created_at edited_at earlier resolved_at")
class CommentOut(Schema):
    author: str
    parent: int | None
    text: str = Field(description="Plain text: escape it.")
    anchor: list[float] | None
    mentions: list[str]
    earlier: list[dict[str, Any]]


class CommentList(Schema):
    items: list[CommentOut]


class OutcomeList(Schema):
    items: list[OutcomeOut]
