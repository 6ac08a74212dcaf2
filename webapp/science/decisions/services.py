"""Every write to the decision log. Nothing here changes a row that is stored.

A decision freezes how its run, prediction or study stood at that moment, as its page said it.

Of a run: pass rate, compute used, ceiling with its interval, and the forecast at its budget, read from its summary and
its newest stored fit.
"""

import numpy as np

from scaling.course import Course
from webapp.base.claims import once
from webapp.base.errors import Conflict, refuse
from webapp.identity.accounts.models import User
from webapp.identity.audit.services import record
from webapp.record.runs.bounds import label_of
from webapp.record.runs.ingest import spent_hours
from webapp.record.runs.models import Run, Summary
from webapp.science.curves import estimates, words
from webapp.science.curves.ranking.variation import seeds_of_tasks
from webapp.science.curves.record.recalibrating import Widening, record_of
from webapp.science.curves.words import DEFAULT_LEVEL, Payload
from webapp.science.decisions.models import DecisionKind, Entry
from webapp.science.decisions.selectors import Object, about_of
from webapp.science.predictions import claims
from webapp.science.predictions.models import Prediction
from webapp.science.predictions.status import status_of
from webapp.science.studies.results import progress_sentence, stored_headline
from webapp.science.studies.selectors import progress_of, stored_courses_of, study_by_id

LONGEST = 4000  # characters of a reason
LONGEST_TARGET = 300  # of what a switch goes to


def moment_of(found: Object) -> tuple[str, Payload]:
    """The object's name, and how it stands: of a run what `standing` says, else {"said": sentences}."""
    if isinstance(found, Run):
        return label_of(found), standing(found)
    if isinstance(found, Prediction):
        came = claims.capitalised(claims.what_came(found, list(found.outcomes.all())))
        return claims.sentence(found), {"said": f"{status_of(found).words} {came}."}
    study = study_by_id(found.project, found.pk)
    progress = progress_sentence(progress_of(study))
    arms, seeds = stored_courses_of([study])[study.pk], seeds_of_tasks(study.project)[study.task]
    return study.name, {"said": f"{progress} {stored_headline(arms, seeds)}"}


def said(state: Payload) -> str:
    """A stored state in words; "" of an entry that was stored without one."""
    if not state or "said" in state:
        return state.get("said", "")
    rate, error, ceiling = state["pass_rate"], state["stderr"], state["ceiling"]
    around = (None, None) if rate is None or error is None else (rate - error, rate + error)
    parts = [
        f"Pass rate {words.rate(rate, around)}",
        f"ceiling {ceiling['text']} ({ceiling['interval_text']})",
    ]
    if state["used_hours"] is not None:
        of = f" of {words.amount(state['budget_hours'])}" if state["budget_hours"] else ""
        parts.append(f"{words.amount(state['used_hours'])}{of} device-hours")
    if state["forecast"]:
        parts.append(f"forecast at the budget {state['forecast']['text']}")
    return f"{'; '.join(parts)}."


def standing(run: Run) -> Payload:
    """How a run stands by its newest whole-curve fit, JSON-ready.

    {"run_state", "pass_rate", "stderr", "used_hours", "budget_hours", "ceiling", "forecast"}; hours are device-hours,
    pass rates in [0, 1], null where nothing is known yet.
    """
    summary = Summary.objects.filter(run=run).first() or Summary(run=run)
    known = estimates.latest([run.pk]).get(run.pk)
    fit = known.fit if known is not None else None
    widening = record_of(run.project_id).widening(DEFAULT_LEVEL, run.pk)
    return {
        "run_state": run.state,
        "pass_rate": summary.pass_rate,
        "stderr": summary.pass_rate_stderr,
        "used_hours": spent_hours(run, summary.used_hours),
        "budget_hours": run.budget_hours,
        "ceiling": estimates.ceilings([[fit]])[0],
        "forecast": forecast(fit.forecast if fit else None, run.budget_hours, widening),
    }


def forecast(found: Course | None, hours: float | None, widening: Widening) -> Payload | None:
    """What is forecast at `hours` device-hours: {"at", "value", "lo", "hi", "level", "text"}; None without, and beyond
    what is stored with the fit."""
    if found is None or not hours:
        return None
    found = found.widened(widening.factor)
    value, lo, hi = found.value_at(hours)
    if not np.isfinite(value):
        return None
    said = words.between((lo, hi), found.level)
    return {"at": hours, "value": value, "lo": lo, "hi": hi, "level": found.level,
            "text": f"{words.rate(value, (lo, hi))}, {said}"}  # fmt: skip


def decide(
    found: Object, *, user: User, kind: str, reason: str, to: str = "", key: str | None = None
) -> Entry:
    """Store what was decided of a run, prediction or study, with how it stands; the same `key` is the same entry.

    It changes nothing else: stopping a run is done on its page. to: what a switch goes to. Raises
    InvalidInput (kind, reason, to, key), and Conflict (key) where the key was used for another entry.
    """
    entry = Entry(
        project=found.project, decided_by=user, about=about_of(found), object_id=found.pk, kind=kind,
        reason=reason.replace("\r\n", "\n").strip(), to=to.strip(), key=key,
    )  # fmt: skip
    _check(entry)

    def made() -> Entry:
        entry.name, entry.state = moment_of(found)
        entry.save(force_insert=True)
        record(
            "decision.made", actor=user, project=entry.project, kind="decision", key=entry.pk, name=kind,
            about=entry.about, object=entry.object_id,
        )  # fmt: skip
        return entry

    return once(lambda: _stored(entry), made)[0]


def _check(entry: Entry) -> None:
    kinds, to, key, is_switch = DecisionKind.values, entry.to, entry.key, entry.kind == DecisionKind.SWITCH
    refuse(
        (entry.kind not in kinds, "kind", f"kind must be one of {', '.join(kinds)}."),
        (not entry.reason, "reason", "A reason is required."),
        (len(entry.reason) > LONGEST, "reason", f"A reason must have at most {LONGEST:,} characters."),
        (len(to) > LONGEST_TARGET, "to", f"What a switch goes to must have at most {LONGEST_TARGET} characters."),
        (bool(to) != is_switch, "to", "Say of a switch, and of nothing else, what it goes to."),
        (key is not None and not 1 <= len(key) <= 64, "key", "The key must have 1 to 64 characters."),
    )  # fmt: skip


def _stored(entry: Entry) -> Entry | None:
    """What this key stored before. Raises Conflict where that was something else."""
    before = Entry.objects.filter(project=entry.project, key=entry.key).first() if entry.key else None
    said = ("decided_by_id", "about", "object_id", "kind", "reason", "to")
    if before is not None and any(getattr(before, name) != getattr(entry, name) for name in said):
        raise Conflict("This key was used for another decision.", field="key")
    return before
