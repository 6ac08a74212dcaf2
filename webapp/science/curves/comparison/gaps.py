"""What a comparison cannot show on its axis, and why: nothing reported yet, compute not known, no fit at hand."""

from collections.abc import Sequence

from webapp.record.runs.models import Run
from webapp.record.runs.names import label_of
from webapp.record.runs.points import arrays_of
from webapp.science.curves import words
from webapp.science.curves.answers import UNITS
from webapp.science.curves.axes import AXES, DEFAULT_AXIS, DEFAULT_METRIC
from webapp.science.curves.comparison.entries import PUBLISHED, Entry
from webapp.science.curves.fitting import CRASHED, crash_note


def notes(entries: Sequence[Entry], x: str) -> list[str]:
    """A sentence for each reason, with the names. One query, for runs that train elsewhere."""
    own = [entry for entry in entries if entry.kind != PUBLISHED]
    elsewhere = [run.pk for entry in own for run in entry.runs if run.origin == Run.Origin.TRACKED]
    is_unknown = f"p.{AXES[x].key} IS NULL AND p.step > 0"
    unknown = arrays_of(elsewhere, DEFAULT_METRIC, ["step"], is_unknown) if elsewhere and x != "step" else {}
    lacks = lambda entry: any(run.pk in unknown for run in entry.runs)
    silent = [entry.label for entry in own if not _is_shown(entry) and lacks(entry)]
    partly = [entry.label for entry in own if _is_shown(entry) and lacks(entry)]
    nothing = [entry.label for entry in own if not _is_shown(entry) and not lacks(entry)]
    found = []
    if silent:
        found.append(f"Not drawn, because their {UNITS[x]} are not known; steps are: {words.few(silent)}.")
    if partly:
        found.append(
            f"Drawn and fitted without the evaluations whose {UNITS[x]} are not known: {words.few(partly)}."
        )
    if nothing:
        found.append(f"No evaluation on this axis yet: {words.few(nothing)}.")
    if note := crash_note(_crashed(entries), "Without parameters of Eq. 1"):
        found.append(note)
    return found


def why_unfitted(entries: Sequence[Entry], x: str, *, many: bool) -> str:
    """Why no entry has a fit, in a sentence; empty where one has."""
    fits = [fit for entry in entries for fit in entry.fits if fit is not None]
    if fits:
        return f"Nothing fitted. {CRASHED}" if all(fit.message == CRASHED for fit in fits) else ""
    if many and x != DEFAULT_AXIS:
        return f"Of so many only the fits by {UNITS[DEFAULT_AXIS]} are at hand: choose fewer, or that axis."
    known = " whose compute is known" if _tracked(entries) and x != "step" else ""
    return f"Nothing fitted yet: a fit needs at least five evaluations after the first update{known}."


def is_empty(entries: Sequence[Entry]) -> bool:
    """Whether no run has a point on this axis and nothing published is chosen."""
    return not any(entry.kind == PUBLISHED or _is_shown(entry) for entry in entries)


def _crashed(entries: Sequence[Entry]) -> list[str]:
    return [
        label_of(run)
        for entry in entries
        for run, fit in zip(entry.runs, entry.fits, strict=False)
        if fit is not None and fit.message == CRASHED
    ]


def _is_shown(entry: Entry) -> bool:
    return any(len(one.x) for one in (*entry.curves, *entry.thinned) if one is not None)


def _tracked(entries: Sequence[Entry]) -> bool:
    return any(run.origin == Run.Origin.TRACKED for entry in entries for run in entry.runs)
