"""Everything that a study's page shows, as one JSON-ready payload: matrix, sentences, charts, progress."""

from collections.abc import Sequence
from typing import Any

import scaling
from scaling import ranking
from scaling.seeds import CORPUS, Between
from webapp.record.runs.models import State
from webapp.record.runs.pace import time_left
from webapp.record.runs.selectors import span_of_runs
from webapp.record.runs.states import ENDED
from webapp.science.curves import answers, estimates, words
from webapp.science.curves.fitting import crash_note
from webapp.science.curves.ranking import standing
from webapp.science.curves.ranking.variation import seeds_of_tasks
from webapp.science.curves.words import DEFAULT_LEVEL, DEFAULT_METRIC, Payload
from webapp.science.studies import figures
from webapp.science.studies.law import (
    OPEN,
    OTHER,
    PENDING,
    UNDECIDED,
    Ceiling,
    Efficiency,
    Verdict,
    axis_law,
    efficiency,
    headline,
    judge,
    pooled_ceiling,
    pooled_parameter,
    sentence,
    with_efficiency,
)
from webapp.science.studies.models import Arm, Study
from webapp.science.studies.planning import duration
from webapp.science.studies.selectors import Group, Member, Progress, why_no_fit

VERDICT_WORDS = {
    "lower": "worse",
    "higher": "better",
    "slower": "less efficient",
    "faster": "more efficient",
    "tie": "tie",
    "undecided": "may be chance",
    "open": "not identified yet",
    "pending": "to come",
    "other task": "other task",
}


def results(study: Study, groups: Sequence[Group], *, metric: str = DEFAULT_METRIC) -> Payload:
    """The payload of one study. Positions name its variants; 0 is the base."""
    ceilings = {group.arm.position: pooled_ceiling(group.fits) for group in groups}
    # The variants by their runs' forecasts; seeds as all recipes of the base's task have them.
    seeds_there = seeds_of_tasks(study.project)[groups[0].arm.task] if groups else CORPUS
    found_at = ranking.compared(
        [[member.course for member in group.members] for group in groups], seeds_there
    )
    names = ["the base" if group.arm.is_base else group.arm.label for group in groups]
    verdicts = {
        group.arm.position: _verdict(group, groups[0], judge(found_at, place, names), metric)
        for place, group in enumerate(groups)
        if not group.arm.is_base
    }
    found = efficiency({group.arm.position: group.fits for group in groups}, ceilings, verdicts)
    decided = {p: with_efficiency(p, verdict, found) for p, verdict in verdicts.items()}
    rows = [
        _row(group, ceilings, decided, found) | standing.told(found_at, place)
        for place, group in enumerate(groups)
    ]
    return {
        "seeds": sorted({m.run.seed for group in groups for m in group.members}),
        "rows": rows,
        "scale": words.scale(
            row[name] for row in rows for name in ("ceiling", "forecast_ceiling") if row[name]
        ),
        "headline": headline([verdict.kind for verdict in decided.values()]),
        "sentences": _sentences(rows),
        "answer": standing.answer([group.arm.label for group in groups], found_at),
        "compared_at": found_at.here.compute,
        "overlay": figures.overlay(groups),
        "slopes": figures.slope_figure(groups, found, verdicts),
        "axis": figures.axis_figure(groups, found_at),
        "law": axis_law(groups),
        "metric": metric,
        "spent": _spent(groups),
    }


def _verdict(group: Group, base: Group, judged: Verdict, metric: str) -> Verdict:
    if metric == DEFAULT_METRIC and _task(group) != _task(base):
        return Verdict(OTHER)
    return Verdict(PENDING) if not group.fits else judged


def _task(group: Group) -> tuple[str, Any]:
    """What its evaluations are of: the task, and of a mixture what it is mixed of."""
    options = group.arm.revision.config.get("task", {}).get("options") if group.arm.revision else None
    return group.arm.task, options if group.arm.task == "mixture" else None


def _row(
    group: Group, ceilings: dict[int, Ceiling | None], verdicts: dict[int, Verdict], found: Efficiency | None
) -> Payload:
    arm, position = group.arm, group.arm.position
    ceiling, verdict = ceilings[position], verdicts.get(position)
    crashed = [f"seed {member.run.seed}" for member in group.members if member.crashed]
    return {
        "position": position,
        "label": arm.label,
        "is_base": arm.is_base,
        "by_hand": arm.by_hand,
        "axis_title": arm.axis_title,
        "value": arm.value,
        "sentence": arm.sentence,
        "note": ". ".join(filter(None, [_note(arm), crash_note(crashed)])),
        "recipe_slug": arm.revision.recipe.slug if arm.revision else None,
        "recipe": str(arm.revision) if arm.revision else "",
        "revision": arm.revision.number if arm.revision else None,
        **figures.mark(position),
        "runs": [_cell(member) for member in group.members],
        "fitted": len(group.fits),
        "why_no_fit": "" if group.fits else why_no_fit(group),
        "identified": sum(fit.status == "ok" for fit in group.fits),
        "ceiling": _ceiling(group.fits, ceiling),
        "effect": _effect(arm, group, verdict, found),
        "B": _b(group.fits),
        "c90": _to_share(group.fits),
    }


def _note(arm: Arm) -> str:
    """What stands below its label: the axis where the label does not name it."""
    if arm.by_hand:
        return "added by hand"
    if arm.is_base:
        return f"{arm.axis_title} {arm.value}" if arm.axis and arm.value else arm.sentence
    return "" if arm.label.lower().startswith(arm.axis_title.lower()) else arm.axis_title


def _cell(member: Member) -> Payload:
    run, fit = member.run, member.fit
    newest, error = member.newest
    return {
        "id": run.pk,
        "name": run.name,
        "seed": run.seed,
        "state": run.state,
        "latest": newest,
        "latest_text": words.measured(newest, error),
        "latest_error_text": words.measured(error, error) if error else "",
        "used": member.used,
        "budget": run.budget_hours,
        "share": min(1.0, member.used / run.budget_hours)
        if run.budget_hours and member.used is not None
        else None,
        "ceiling": answers.ceiling_of(fit, DEFAULT_LEVEL) if fit is not None else None,
    }


def _ceiling(fits: "Sequence[scaling.Fit]", ceiling: Ceiling | None) -> Payload | None:
    if not fits:
        return None
    if ceiling is None:
        return answers.ceiling("not_identified", (figures.at_least(fits), None), None, DEFAULT_LEVEL)
    a, lo, hi = ceiling
    return answers.ceiling("ok", (lo, hi), a, DEFAULT_LEVEL)


def _effect(arm: Arm, group: Group, verdict: Verdict | None, found: Efficiency | None) -> Payload | None:
    if verdict is None:
        return None
    b = {p: pooled.value for p, pooled in found.b.items()} if found else {}
    said = sentence(
        arm.label,
        verdict,
        own_b=b.get(arm.position),
        base_b=b.get(0),
        shared_a=found.shared_a if found else None,
        lacks=why_no_fit(group),
    )
    ended = all(member.run.state in ENDED for member in group.members)
    return {
        "kind": verdict.kind,
        "verdict": "no fit" if verdict.kind == PENDING and ended else VERDICT_WORDS[verdict.kind],
        "delta": verdict.delta,
        "lo": verdict.interval[0],
        "hi": verdict.interval[1],
        "text": "–" if verdict.delta is None else words.signed(verdict.delta, verdict.interval),
        "interval_text": "" if verdict.delta is None else words.signed_span(verdict.interval),
        "sentence": said,
    }


def _b(fits: "Sequence[scaling.Fit]") -> Payload | None:
    """B of the runs' own fits, pooled; without an identified ceiling it means nothing."""
    if (pooled := pooled_parameter([fit for fit in fits if fit.status == "ok"], "B")) is None:
        return None
    return {"value": pooled.value, "lo": pooled.lo, "hi": pooled.hi, "text": f"{pooled.value:.2f}"} | {
        "interval_text": words.span((pooled.lo, pooled.hi), "{:.2f}".format)
    }


def _to_share(fits: "Sequence[scaling.Fit]") -> Payload | None:
    """Device-hours to 90 % of the gain A - R0, as a leaderboard has it of these runs; an end may be open."""
    (share,) = estimates.computes_to_share([[estimates.of_live(fit) for fit in fits]])
    if share is None:
        return None
    value, lo, hi = share
    return {"value": value, "lo": lo, "hi": hi, "text": words.amount(value)} | {
        "interval_text": words.compute_span(lo, hi)
    }


def _sentences(rows: Sequence[Payload]) -> list[Payload]:
    """What is decided first, the greatest difference first; then what cannot be told apart, then what is to come."""
    said = [row["effect"] | {"label": row["label"]} for row in rows if row["effect"]]
    late = {UNDECIDED: 1, OTHER: 2, OPEN: 3, PENDING: 4}
    return sorted(said, key=lambda e: (late.get(e["kind"], 0), -abs(e["delta"] or 0.0)))


def _spent(groups: Sequence[Group]) -> Payload:
    members = [m for group in groups for m in group.members]
    used = sum(m.used or 0.0 for m in members)
    budget = sum(m.run.budget_hours or m.used or 0.0 for m in members)
    unknown = sum(m.used is None for m in members)
    rest = f"; of {words.count(unknown, 'run')} not known" if unknown else ""
    left = hours_left(groups)
    return {
        "used": used,
        "budget": budget,
        "share": min(1.0, used / budget) if budget else None,
        "text": f"{words.amount(used)} of {words.amount(budget)} device-hours{rest}",
        "left": "" if left is None else f"At their pace, those that run end in about {duration(left)}.",
    }


def hours_left(groups: Sequence[Group]) -> float | None:
    """Wall time in hours until the last of the running runs has spent its budget, at the pace of each so far."""
    running = [m for group in groups for m in group.members if m.run.state == State.RUNNING]
    spans = span_of_runs([member.run.pk for member in running])
    left = [time_left(member.run, member.used, spans.get(member.run.pk)) for member in running]
    return max((known.total_seconds() / 3600 for known in left if known is not None), default=None)


def progress_sentence(progress: Progress) -> str:
    """What is done and what is still to come."""
    if not progress.total:
        return "No run yet."
    parts = [
        f"{count} {name}"
        for count, name in (
            (progress.running, "running"),
            (progress.starting, "starting"),
            (progress.waiting, "waiting"),
            (progress.stopped, "ended early"),
        )
        if count
    ]
    rest = f", {', '.join(parts)}" if parts else ""
    return f"{progress.succeeded} of {words.count(progress.total, 'run')} done{rest}."


def stored_headline(arms: Sequence[tuple[Arm, Sequence[ranking.Course | None]]], seeds_there: Between) -> str:
    """The list's one line, of stored forecasts: pass rates alone, for B at a shared ceiling takes refits."""
    tasks = {arm.task for arm, _ in arms if arm.is_base}
    found = ranking.compared([courses for _, courses in arms], seeds_there)
    names = [arm.label for arm, _ in arms]
    kinds = []
    for place, (arm, courses) in enumerate(arms):
        if arm.is_base:
            continue
        if arm.task not in tasks or arm.axis == "mixture":
            kinds.append(OTHER)
        else:
            kinds.append(judge(found, place, names).kind if any(courses) else PENDING)
    return headline(kinds, rates_alone=True)


CSV_COLUMNS = (
    "variant", "axis", "value", "recipe", "revision", "run", "seed", "state", "device_hours", "latest",
    "A", "A_lo", "A_hi", "variant_A", "variant_lo", "variant_hi", "effect", "effect_lo", "effect_hi", "verdict",
    "B", "B_lo", "B_hi", "to_90", "to_90_lo", "to_90_hi", "B_shared", "B_shared_lo", "B_shared_hi", "shared_A",
    "law", "law_lo", "law_hi",
)  # fmt: skip


def csv_rows(payload: Payload) -> list[list[Any]]:
    """A row for each run in the order of CSV_COLUMNS, with what its variant says; a variant without runs has one."""
    slopes = {row["position"]: row for row in payload["slopes"]["rows"]}
    law = {one["position"]: one["ceiling"] for one in (payload["law"] or {"variants": ()})["variants"]}
    rows = []
    for row in payload["rows"]:
        shared = slopes.get(row["position"])
        variant = {
            "variant": row["label"],
            "axis": row["axis_title"],
            "value": row["value"],
            "recipe": row["recipe_slug"],
            "revision": row["revision"],
            **_triple("variant_A", "variant_lo", "variant_hi", row["ceiling"]),
            **_triple("effect", "effect_lo", "effect_hi", row["effect"], "delta"),
            "verdict": row["effect"]["verdict"] if row["effect"] else "base",
            **_triple("B", "B_lo", "B_hi", row["B"]),
            **_triple("to_90", "to_90_lo", "to_90_hi", row["c90"]),
            **_triple("B_shared", "B_shared_lo", "B_shared_hi", shared, "B"),
            "shared_A": payload["slopes"]["shared_A"],
            **_triple("law", "law_lo", "law_hi", law.get(row["position"])),
        }
        for run in row["runs"] or [None]:
            flat = variant | (_flat_run(run) if run else {})
            rows.append([flat.get(column) for column in CSV_COLUMNS])
    return rows


def _triple(value: str, lo: str, hi: str, of: Payload | None, key: str = "value") -> Payload:
    return {value: of[key], lo: of["lo"], hi: of["hi"]} if of else {}


def _flat_run(run: Payload) -> Payload:
    ceiling = run["ceiling"] or {"value": None, "lo": None, "hi": None}
    return {
        "run": run["id"],
        "seed": run["seed"],
        "state": run["state"],
        "device_hours": run["used"],
        "latest": run["latest"],
        "A": ceiling["value"],
        "A_lo": ceiling["lo"],
        "A_hi": ceiling["hi"],
    }
