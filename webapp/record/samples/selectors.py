"""Reading samples: which steps have some, the rows of one, a prompt's history, what changed between two steps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Func, JSONField, Q, QuerySet, Value
from django.db.models.expressions import RawSQL

from training import samples
from webapp.base.errors import NotFound, first_of
from webapp.record.runs.models import Run
from webapp.record.samples.models import SampleFile
from webapp.record.samples.store import path_of

SOLVED = 0.5  # share of correct responses from which a prompt counts as solved
_LAST_STEP = """SELECT last_step FROM runs_effective_attempt
WHERE run_id = samples_samplefile.run_id AND attempt = samples_samplefile.attempt"""


class Gone(NotFound):
    """Samples whose file is not there any more; the message says why."""


@dataclass(frozen=True)
class Moment:
    """A prompt at one step: the rewards of its responses, and which of them are correct."""

    step: int
    rewards: list[float | None]
    correct: list[bool | None]

    @property
    def share(self) -> float | None:
        return share_of(self.correct)

    @property
    def reward(self) -> float | None:
        """Mean."""
        known = [value for value in self.rewards if value is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class Change:
    """A prompt that was solved at one step and not at another, or the other way round; shares of correct responses."""

    prompt_id: str
    text: str
    before: float
    after: float


def files_of(run: Run) -> QuerySet[SampleFile]:
    """By kind and step, without those that a later attempt superseded (the rule of the view `runs_effective_attempt`),
    and without what they hold."""
    own = run.samples.annotate(last_step=RawSQL(_LAST_STEP, []))  # nosec B611  # a constant
    return (
        own.filter(Q(last_step=None) | Q(step__lte=F("last_step"))).defer("prompts").order_by("kind", "step")
    )


def find(run: Run, kind: str, step: int) -> SampleFile:
    """With its prompts. Raises NotFound."""
    found = files_of(run).defer(None).filter(kind=kind, step=step)
    return first_of(found, f"Run {run.pk} has no {kind} samples of step {step}.")


def rows_of(
    file: SampleFile,
    wanted: samples.Wanted = samples.EVERYTHING,
    *,
    first: int = 0,
    most: int = samples.MOST_ROWS,
) -> tuple[list[dict[str, Any]], int]:
    """(the wanted rows from the `first` on, how many are wanted in all). Raises Gone."""
    what = f"The {file.kind} samples of step {file.step}"
    if not file.size:
        raise Gone(f"{what} were removed by the project's clean-up; their rewards are kept.")
    try:
        return samples.read(path_of(file.run_id, file.kind, file.step), wanted, first=first, most=most)
    except FileNotFoundError:
        raise Gone(f"{what} are not on the disk of this server.") from None
    except samples.SamplesError as error:
        raise Gone(f"{what} are damaged: {error}.") from None


def lines_of(files: Sequence[SampleFile], wanted: samples.Wanted) -> Iterator[dict[str, Any]]:
    """Wanted rows of several steps, each with its step; what is gone is left out."""
    for file in files:
        try:
            rows, _ = rows_of(file, wanted)
        except Gone:
            continue
        for row in rows:
            yield {"kind": file.kind, "step": file.step} | row


def history(run: Run, kind: str, prompt_id: str) -> list[Moment]:
    """A prompt over the steps. One query; opens no file."""
    # No KeyTransform: it takes a name of digits for a place in a list.
    entry = Func(F("prompts"), Value(prompt_id), function="jsonb_extract_path", output_field=JSONField())
    found = files_of(run).filter(kind=kind).annotate(entry=entry).filter(entry__isnull=False)
    return [
        Moment(step, entry["rewards"], entry["correct"]) for step, entry in found.values_list("step", "entry")
    ]


def changes(before: SampleFile, after: SampleFile) -> list[Change] | None:
    """Prompts of both that are solved in one of the two: lost ones first, then by how far they moved. None where no
    prompt was judged in both."""
    judged = []
    for key in before.prompts.keys() & after.prompts.keys():
        one, two = before.prompts[key], after.prompts[key]
        was, now = share_of(one["correct"]), share_of(two["correct"])
        if was is not None and now is not None:
            judged.append(Change(key, one["text"], was, now))
    found = [change for change in judged if (change.before >= SOLVED) != (change.after >= SOLVED)]
    found.sort(key=lambda change: (change.after - change.before, change.prompt_id))
    return found if judged else None


def share_of(correct: Sequence[bool | None]) -> float | None:
    """Of correct responses among those that were judged; None where none was."""
    known = [value for value in correct if value is not None]
    return math.fsum(known) / len(known) if known else None
