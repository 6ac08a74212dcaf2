"""The record: one line of metrics.jsonl and one item of `POST runs/{id}/records`."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
BESIDE = ("crc", "about")
MAX_METRICS = 1000
MOST_FIELDS = 100
MAX_NAME_LENGTH = 250
MIN_STEP, MAX_STEP = (
    -(2**63),
    2**63 - 1,
)  # some trainers count tokens; clients of MLflow may log steps below 0


def _checked_time(value: str) -> str:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("is not an ISO 8601 time") from None
    if moment.tzinfo is None:
        raise ValueError("has no offset from UTC")
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is not within the years 1 to 9999 of UTC") from None
    return value


Time = Annotated[
    str, Field(max_length=40, description="ISO 8601, with offset."), AfterValidator(_checked_time)
]


class FewFields(BaseModel):
    """What is refused at once where it has far too many fields: each unknown one is an error of 800 bytes."""

    @model_validator(mode="before")
    @classmethod
    def _fields_are_few(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MOST_FIELDS:
            raise ValueError(f"has more than {MOST_FIELDS} fields")
        return value


class Compute(FewFields):
    """Cumulative training compute when the record was made; evaluation is not counted. null: not known."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    device_hours: Amount | None = Field(description="Devices allocated x hours.")
    flops: Amount | None = Field(description="Floating point operations, generation and training.")
    tokens: Amount | None = Field(description="Tokens generated plus tokens trained on.")


class Record(FewFields):
    """What one moment of one attempt reports. (run, attempt, seq) identifies it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    attempt: int = Field(ge=1, le=32767, description="Launch of the run, from 1.")
    seq: int = Field(ge=0, le=2**53, description="Position in this attempt, from 0.")
    step: int = Field(
        ge=MIN_STEP, le=MAX_STEP, description="Updates made so far, or what counts as steps; 64 bits."
    )
    time: Time
    compute: Compute
    metrics: dict[str, float | None] = Field(
        description="Name -> value; null where it is not finite. X_stderr is the standard error of X."
    )

    @model_validator(mode="before")
    @classmethod
    def _line_is_taken_as_it_is(cls, value: Any) -> Any:
        """A journal's line ends in a checksum of its own (`headroom.journal`), and the first one of an export says what
        the run is: both are no part of the record."""
        if isinstance(value, dict) and not value.keys().isdisjoint(BESIDE):
            return {name: each for name, each in value.items() if name not in BESIDE}
        return value

    @field_validator("metrics", mode="before")
    @classmethod
    def _metrics_are_few(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MAX_METRICS:
            raise ValueError(f"has more than {MAX_METRICS} metrics")
        return value

    @field_validator("metrics", mode="after")
    @classmethod
    def _metrics_are_sane(cls, value: dict[str, float | None]) -> dict[str, float | None]:
        for name, number in value.items():
            if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
                raise ValueError(f"metric names have 1 to {MAX_NAME_LENGTH} printable characters")
            if number is not None and number - number != 0:  # NaN or infinite
                raise ValueError(f"{name} is not finite; send null")
        return value
