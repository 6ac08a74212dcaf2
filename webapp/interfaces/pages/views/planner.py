"""The planner: what compute buys, per task and model. Every question is in the URL."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Max
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

import scaling
from scaling.ranking import Course
from scaling.seeds import Between
from webapp.base.formats import NoAmount, amount_in
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.access import current_project
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run, State
from webapp.record.runs.states import ACTIVE
from webapp.science.curves import planner as planning
from webapp.science.curves.fitting import crash_note, curves_of, fits_of
from webapp.science.curves.models import Fit
from webapp.science.curves.ranking.leaderboard import unranked
from webapp.science.curves.ranking.variation import courses_of, seeds_of_tasks
from webapp.science.curves.words import DEFAULT_AXIS

MOST_RUNS = 60  # newest of a task and model that are looked at
MOST_JUDGED = 12  # newest active runs that are judged unless the address names others
MAX_HOURS = 1e9


@dataclass
class Questions:
    """What the address asks, with what is wrong beside each field; a wrong number is answered with the default."""

    query: QueryDict
    values: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def number(self, name: str, default: float, *, most: float, what: str, whole: bool = False) -> float:
        """A number above 0 and at most `most`."""
        text = self.query.get(name, "").strip()
        self.texts[name] = text or f"{default:.6g}"
        value = default
        try:
            value = amount_in(text, most=most, whole=whole) if text else default
        except NoAmount:
            self.problems[name] = what
        self.values[name] = value
        return value


def planner(request: HttpRequest) -> HttpResponse:
    """Answers to four questions for one task and model; 422 where a number of the address is none.

    A task and model without a fitted run are answered for the newest that has one, which the page says.
    """
    project = current_project(request)
    if not (groups := _groups(project)):
        return render(request, "planner.html", {"groups": [], "unranked": unranked(project)})
    wanted = request.GET.get("group", "").strip()
    asked_for = next((group for group in groups if group["key"] == wanted), None)
    chosen = asked_for or groups[0]
    runs = _runs(project, chosen)
    fits, crashed = _fits(runs)
    courses = courses_of(project, list(runs), DEFAULT_AXIS, fits)
    candidates = _candidates(runs, fits, courses, seeds_of_tasks(project)[chosen["task"]])
    questions = Questions(request.GET)
    context = {
        "groups": groups,
        "chosen": chosen,
        "not_here": wanted if asked_for is None else "",
        "candidates": candidates,
        "total": chosen["runs"] - len(crashed),
        "looked_at": len(runs) - len(crashed),
        "crash_note": crash_note([label_of(runs[pk]) for pk in crashed]),
        "unranked": unranked(project, chosen["task"], chosen["model"]),
        "asked": questions,
    }
    if candidates:
        context |= _recipes(candidates, runs, questions) | _runs_questions(
            request, runs, fits, courses, questions
        )
    return render(request, "planner.html", context, status=422 if questions.problems else 200)


def _groups(project: Project) -> list[dict[str, Any]]:
    """(task, model) of everything fitted, the newest fit first."""
    found = (
        Fit.objects.filter(run__project=project, run__deleted_at=None)
        .values("run__task", "run__model")
        .annotate(newest=Max("pk"))
        .order_by("-newest")
    )
    fitted = Run.objects.filter(project=project, fits__isnull=False).distinct()
    counts = Counter(fitted.values_list("task", "model"))
    return [
        {
            "task": row["run__task"],
            "model": row["run__model"],
            "key": f"{row['run__task']}:{row['run__model']}",
            "runs": counts[row["run__task"], row["run__model"]],
        }
        for row in found
    ]


def _runs(project: Project, group: dict[str, Any]) -> dict[str, Run]:
    found = Run.objects.filter(
        project=project,
        task=group["task"],
        model=group["model"],
        pk__in=Fit.objects.filter(run__project=project, superseded=False).values("run_id"),
    ).select_related("revision__recipe")
    newest = found.defer("config", "revision__config").order_by("-created_at", "id")[:MOST_RUNS]
    return {run.pk: run for run in newest}


def _fits(runs: dict[str, Run]) -> "tuple[dict[str, scaling.Fit], list[str]]":
    """The fits that have a curve, and the runs whose fit crashed."""
    fits, crashed = fits_of(curves_of(runs))
    return {run: fit for run, fit in fits.items() if fit.params is not None}, crashed


def _candidates(
    runs: dict[str, Run], fits: "dict[str, scaling.Fit]", courses: dict[str, Course | None], between: Between
) -> list[planning.Candidate]:
    """One for each revision; a run tracked without a recipe stands under its own name."""
    grouped: dict[Any, dict[str, scaling.Fit]] = {}
    for run_id, run in runs.items():
        if run_id in fits:
            grouped.setdefault(run.revision_id or run.name, {})[run_id] = fits[run_id]
    found = []
    for own in grouped.values():
        run = runs[next(iter(own))]
        revision = run.revision
        name = str(revision) if revision else run.name
        slug, number = (revision.recipe.slug, revision.number) if revision else (None, None)
        found.append(
            planning.Candidate(name, slug, number, own, {pk: courses.get(pk) for pk in own}, between)
        )
    return sorted(found, key=lambda candidate: candidate.name)


def _recipes(
    candidates: list[planning.Candidate], runs: dict[str, Run], questions: Questions
) -> dict[str, Any]:
    target = questions.number(
        "target", default_target(candidates), most=1.0, what="a pass rate above 0 and at most 1"
    )
    budget = questions.number("budget", _default_budget(candidates, runs), most=MAX_HOURS, what=ABOVE_ZERO)
    marks = {candidate.name: index for index, candidate in enumerate(candidates)}
    marked = lambda rows: [row | {"series": marks[row["name"]]} for row in rows]
    reach = planning.to_target(candidates, target)
    rates, sentences = planning.at_budget(candidates, budget)
    return {
        "target": target,
        "budget": budget,
        "reach": marked(reach),
        "rates": marked(rates),
        "budget_sentences": sentences,
        "chart": planning.budget_chart(candidates, budget) | {"target": target},
    }


ABOVE_ZERO = "a number of device-hours above 0"


def default_target(candidates: list[planning.Candidate]) -> float:
    """A twentieth below the highest that is forecast at twice the compute seen: near enough to be of interest."""
    tops = [one.value for c in candidates if (one := c.at(2 * c.seen)) is not None]
    reached = [float(fit.predict(fit.window[1])) for c in candidates for fit in c.seeds]
    top = max(tops or reached)
    return max(0.01, math.floor(20 * top - 1e-9) / 20)


def _default_budget(candidates: list[planning.Candidate], runs: dict[str, Run]) -> float:
    """The largest budget that a run was given, else twice what was seen."""
    budgets = [run.budget_hours for run in runs.values() if run.budget_hours]
    return max(budgets, default=2 * max(candidate.seen for candidate in candidates))


def _runs_questions(
    request: HttpRequest,
    runs: dict[str, Run],
    fits: "dict[str, scaling.Fit]",
    courses: dict[str, Course | None],
    questions: Questions,
) -> dict[str, Any]:
    in_order = [run for run in runs if run in fits]
    active = [run for run in in_order if runs[run].state in ACTIVE]
    asked = [run for run in request.GET.getlist("run") if run in fits]
    among = {run: courses.get(run) for run in asked or (active or in_order)[:MOST_JUDGED]}
    keep = questions.number(
        "keep", min(3, max(1, len(among) - 1)), most=max(1, len(among)), whole=True,
        what=f"a whole number from 1 to {max(1, len(among))}",
    )  # fmt: skip
    more = questions.number("more", questions.values["budget"], most=MAX_HOURS, what=ABOVE_ZERO)
    hours = questions.number(
        "hours", float(f"{questions.values['budget'] / 10:.2g}"), most=MAX_HOURS, what=ABOVE_ZERO
    )
    running = {run: courses.get(run) for run in fits if runs[run].state == State.RUNNING}
    gained = planning.gains(running, hours)
    choice = planning.to_continue(among, int(keep), more)
    names = {run: label_of(runs[run]) for run in runs}
    with_run = lambda rows: [row | {"of": runs[row["run"]], "label": names[row["run"]]} for row in rows]
    return {
        "choice": choice | {"rows": with_run(choice["rows"]), "excluded": with_run(choice["excluded"])},
        "others": [(run, names[run]) for run in fits if run not in among],
        "among_active": not asked and bool(active),
        "keep": int(keep),
        "more": more,
        "hours": hours,
        "gains": with_run(gained),
        "gain_sentence": planning.gain_sentence(gained, names, hours),
    }
