"""What clients could not have stored of a run: counted, so that nobody takes what is there for all that was logged."""

from dataclasses import asdict, dataclass

from django.db import transaction

from webapp.identity.secrets.services import redact
from webapp.record.runs.lifecycle import ensure_attempts
from webapp.record.runs.models import Run
from webapp.record.runs.states import bump

MAX_REASON = 1000


@dataclass(frozen=True)
class Refused:
    """`records`: nothing of them is stored; `values`: left out of others; `reason`: of the newest, in words."""

    records: int = 0
    values: int = 0
    reason: str = ""

    @property
    def words(self) -> str:
        """A sentence for the run's page; empty where there is nothing."""
        counted = ((self.records, "record"), (self.values, "value"))
        parts = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counted if count]
        if not parts:
            return ""
        verb = "is" if self.records + self.values == 1 else "are"
        reason = f", the newest because: {self.reason}" if self.reason else ""
        return f"{' and '.join(parts)} that its trainer logged {verb} not stored{reason}"


@transaction.atomic
def note_refused(
    run: Run, *, attempt: int, refused_records: int, refused_values: int, reason: str = ""
) -> Run:
    """So much of what the attempt logged is not stored by now. Safe to repeat, in any order: counts never shrink.

    Raises InvalidInput (attempt) where the run has no such attempt.
    """
    ensure_attempts(run, {attempt: "attempt"})
    run = Run.objects.select_for_update().get(pk=run.pk)
    before = _of(run, str(attempt))
    counts = max(before.records, refused_records), max(before.values, refused_values)
    if counts != (before.records, before.values):
        now = Refused(*counts, redact(run.project_id, reason.replace("\0", ""))[:MAX_REASON])
        run.refused = run.refused | {str(attempt): asdict(now)}
        bump(run.pk, refused=run.refused)
    return run


def refused_of(run: Run) -> Refused:
    """Of all attempts together, with the reason of the last."""
    each = [_of(run, attempt) for attempt in sorted(run.refused, key=int)]
    reason = each[-1].reason if each else ""
    return Refused(sum(one.records for one in each), sum(one.values for one in each), reason)


def _of(run: Run, attempt: str) -> Refused:
    return Refused(**run.refused.get(attempt, {}))
