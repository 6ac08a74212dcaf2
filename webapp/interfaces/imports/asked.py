"""What somebody asks of an import, checked: each refusal names its field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from webapp.base.errors import InvalidInput
from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import Options
from webapp.record.runs.bounds import clean_text

MAX_NAME, MAX_TASK, MAX_MODEL, MAX_NAMES = 200, 80, 200, 2000


class OptionsBody(BaseModel):
    """The options of an import as they are sent: JSON."""

    model_config = ConfigDict(extra="forbid", strict=True)

    columns: dict[str, str] = Field(
        default_factory=dict,
        max_length=20,
        description="For tables: role -> name of the column that has it; roles are run, step, time, elapsed, "
        "device_hours, flops, tokens, pass_rate, pass_rate_stderr, metric and value. Without it the names of the "
        "columns decide, or the import is refused. For other kinds pass_rate and pass_rate_stderr name metrics.",
    )
    per_row: list[str] = Field(
        default_factory=list,
        max_length=3,
        description="Those of device_hours, flops, tokens that are the amount of each row, not the total so far.",
    )
    percent: bool = Field(
        False,
        description="The named pass rate and its standard error are in percent, from 0 to 100: they are stored from 0 "
        "to 1. Never assumed.",
    )
    devices: float | None = Field(
        None, allow_inf_nan=False, description="Device-hours are devices x time; null where you do not know."
    )
    timezone: str = Field("", max_length=60, description='Of times without an offset, such as "UTC".')
    name: str = Field("", max_length=120, description="Names the run where nothing in the source does.")
    experiments: list[str] = Field(
        default_factory=list,
        max_length=MAX_NAMES,
        description="Of MLflow: names of those to read. None: all.",
    )
    ignore: list[str] = Field(
        default_factory=list, max_length=MAX_NAMES, description="Names of columns or metrics to leave out."
    )
    source: str = Field(
        "",
        max_length=MAX_NAME,
        description="Names the source. What is imported again under the same name adds to the same runs. Without it "
        "the name of the file.",
    )
    task: str = Field("", max_length=MAX_TASK, description="Of runs whose source does not name theirs.")
    model: str = Field("", max_length=MAX_MODEL, description="Of runs whose source does not name theirs.")


@dataclass(frozen=True)
class ImportRequest:
    """`kind` empty: to be found out from the file."""

    kind: str
    options: Options
    source: str = ""
    task: str = ""
    model: str = ""


@dataclass(frozen=True)
class Server:
    """Where an import is read from in place of files, and what opens it. `account`: the user of a password."""

    address: str = ""
    token: str = field(default="", repr=False)
    account: str = ""


NO_SERVER = Server()


def asked_of(kind: str, options: Mapping[str, Any]) -> ImportRequest:
    """Check what was sent. Raises InvalidInput (kind, options.*)."""
    if kind and kind not in KINDS:
        raise InvalidInput("kind", f"kind must be one of {', '.join(sorted(KINDS))}.")
    try:
        body = OptionsBody.model_validate(options)
    except ValidationError as error:
        raise InvalidInput.from_problems(error.errors(include_url=False), under="options") from error
    _check("columns", lambda: Options(columns=body.columns, per_row=tuple(body.per_row)))
    _check("devices", lambda: Options(devices=body.devices))
    _check("timezone", lambda: Options(timezone=body.timezone))
    texts = {
        name: clean_text(f"options.{name}", getattr(body, name), MAX_NAME)
        for name in ("name", "source", "task", "model")
    }
    return ImportRequest(
        kind,
        Options(
            columns=body.columns,
            per_row=tuple(body.per_row),
            percent=body.percent,
            devices=body.devices,
            timezone=body.timezone,
            name=texts["name"],
            experiments=tuple(body.experiments),
            ignore=tuple(body.ignore),
        ),
        texts["source"],
        texts["task"],
        texts["model"],
    )


def asked_of_text(kind: str, text: str) -> ImportRequest:
    """As `asked_of`, of options that are JSON. Raises InvalidInput."""
    try:
        options = from_json(text or "{}", allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput("options", f"options is not valid JSON: {error}.") from error
    if not isinstance(options, dict):
        raise InvalidInput("options", "options must be an object.")
    if "\\u0000" in text:
        raise InvalidInput("options", "options holds a NUL character, which cannot be stored.")
    return asked_of(kind, options)


def _check(field: str, make: Callable[[], Options]) -> None:
    try:
        make()
    except ValueError as error:
        raise InvalidInput(f"options.{field}", f"options.{field}: {error}.") from error
