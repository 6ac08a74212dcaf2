"""The study file: YAML, checked before anything runs. Each error names its line and its field.

Written down before the runs: the question, what is compared, and what would count as yes, no and undecided.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from training.study.text import Lines, Loc, NotReadable, read_yaml

MAX_STEPS = 1_000_000
MAX_MINUTES = 7 * 24 * 60.0
MAX_RUNS = 10_000
OWN_FIELDS = ("name", "title", "description", "seed", "budget")  # of a recipe, which a study says itself
ARM_FIELDS = ("seeds", "budget")  # of an arm, beside its overrides

StudyName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,59}$")]
ArmName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
Sentence = Annotated[str, Field(min_length=1, max_length=2000)]
Seeds = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1, max_length=100)]
Overrides = dict[str, Any]


class Part(BaseModel):
    """One part of a study file. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Budget(Part):
    """How long a run is."""

    steps: int = Field(ge=1, le=MAX_STEPS, description="Updates, at which a run ends.")
    minutes: float = Field(
        default=60.0,
        gt=0,
        le=MAX_MINUTES,
        description="Wall clock of one try; one that takes longer has failed.",
    )


class Judgement(Part):
    """What is compared, and what would count as which answer."""

    measure: Literal["ceiling", "efficiency", "late_mean", "pass_rate_per_difficulty"] = Field(
        description="Of each arm, against the baseline."
    )
    margin: float = Field(gt=0, le=1, description="A smaller difference counts as none.")
    yes: Sentence
    no: Sentence
    undecided: Sentence


class Arm(Part):
    """What one arm changes in the study's recipe: dotted overrides, and where it has them seeds and budget."""

    settings: Overrides = {}
    seeds: Seeds | None = None
    budget: Budget | None = None

    @model_validator(mode="before")
    @classmethod
    def _overrides_stand_beside(cls, value: Any) -> Any:
        if value is None:
            return {}
        if not isinstance(value, dict):
            return value
        own = {name: value[name] for name in ARM_FIELDS if name in value}
        return {"settings": {name: one for name, one in value.items() if name not in own}} | own


class Study(Part):
    """One question: arms of the same recipe that are compared with its baseline."""

    name: StudyName
    question: Sentence
    paper: str = Field(default="", max_length=2000, description="What the paper found.")
    recipe: Annotated[str, Field(min_length=1)] = Field(description="A committed one, e.g. tiny/scalerl.")
    settings: Overrides = Field(default={}, description="Dotted overrides of all arms.")
    arms: dict[ArmName, Arm] = Field(min_length=1, max_length=50)
    baseline: str = Field(description="The arm that the others are compared with.")
    seeds: Seeds
    budget: Budget
    axis: Literal["device_hours", "flops", "tokens", "steps"]
    judgement: Judgement

    def seeds_of(self, arm: str) -> list[int]:
        """Of one arm."""
        return self.arms[arm].seeds or self.seeds

    def budget_of(self, arm: str) -> Budget:
        """Of one arm."""
        return self.arms[arm].budget or self.budget


class StudyFile(Part):
    """All studies of a file."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    machine: str = Field(default="", max_length=2000, description="Notes on what it is made for.")
    notes: str = Field(default="", max_length=20_000)
    studies: Annotated[list[Study], Field(min_length=1, max_length=100)]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    line: int
    field: str
    reason: str


class StudyFileError(ValueError):
    """A file that cannot be used: every problem on a line of its own, each with the line of the file and the field."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.problems = sorted(problems, key=lambda one: one.line)
        said = (
            f"{file}, line {one.line}: {': '.join(filter(None, [one.field, one.reason]))}"
            for one in self.problems
        )
        super().__init__("\n".join(said))


@dataclass(frozen=True)
class Written:
    """A file that was read: what it says, its bytes, and which line says what."""

    path: Path
    text: bytes
    says: StudyFile
    lines: Lines

    def error(self, found: list[tuple[Loc, str]]) -> StudyFileError:
        """Of (place, reason) pairs."""
        return _error(self.path, self.lines, found)


def load_study(path: Path) -> Written:
    """Raises StudyFileError."""
    try:
        text = path.read_bytes()
        value, lines = read_yaml(text)
    except OSError as error:
        raise StudyFileError(path.name, [Problem(1, "", error.strerror or str(error))]) from None
    except NotReadable as error:
        raise StudyFileError(path.name, [Problem(error.line, error.field, error.reason)]) from None
    try:
        says = StudyFile.model_validate(value)
    except ValidationError as error:
        raise _error(path, lines, [(one["loc"], _reason(one)) for one in error.errors()]) from None
    if found := list(_contradictions(says)):
        raise _error(path, lines, found)
    return Written(path, text, says, lines)


def _error(path: Path, lines: Lines, found: list[tuple[Loc, str]]) -> StudyFileError:
    return StudyFileError(
        path.name,
        [
            Problem(lines.of(loc), ".".join(str(part) for part in loc if part != "[key]"), reason)
            for loc, reason in found
        ],
    )


def _reason(error: Any) -> str:
    known = {"extra_forbidden": "no such field", "missing": "is missing"}
    return known.get(error["type"], error["msg"].removeprefix("Value error, "))


def _contradictions(says: StudyFile) -> Iterator[tuple[Loc, str]]:
    """What a schema alone does not see."""
    seen: set[str] = set()
    for place, study in enumerate(says.studies):
        at: Loc = ("studies", place)
        if study.name in seen:
            yield (*at, "name"), f"there are two studies named {study.name}"
        seen.add(study.name)
        if study.baseline not in study.arms:
            yield (*at, "baseline"), f"there is no arm {study.baseline!r}; there are: {', '.join(study.arms)}"
        yield from _repeated((*at, "seeds"), study.seeds)
        yield from _not_for_overrides((*at, "settings"), study.settings)
        for name, arm in study.arms.items():
            yield from _repeated((*at, "arms", name, "seeds"), arm.seeds or [])
            yield from _not_for_overrides((*at, "arms", name), arm.settings)
    total = sum(len(study.seeds_of(arm)) for study in says.studies for arm in study.arms)
    if total > MAX_RUNS:
        yield ("studies",), f"{total:,} runs are more than {MAX_RUNS:,}"


def _repeated(loc: Loc, seeds: list[int]) -> Iterator[tuple[Loc, str]]:
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            yield (*loc, place), f"seed {seed} stands there twice"


def _not_for_overrides(loc: Loc, settings: Overrides) -> Iterator[tuple[Loc, str]]:
    for key in settings:
        if key.split(".")[0] in OWN_FIELDS:
            yield (*loc, key), "a study says name, seeds and budget in fields of its own"
