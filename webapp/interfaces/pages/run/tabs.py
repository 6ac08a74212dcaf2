"""What each tab of the run page shows. Heavier analyses are made here, so only while their tab is open.

What the run page says of the forecast: its ceiling beside the paper's, and the table at more compute.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Count, Sum
from django.http import QueryDict
from django.template.loader import render_to_string
from django.utils import timezone

from webapp.base.formats import whole_in
from webapp.interfaces.pages import configuration
from webapp.interfaces.pages.forms import decision_panel
from webapp.interfaces.pages.marks import shared_scale
from webapp.interfaces.pages.run import attempts
from webapp.interfaces.pages.run.attempts import attempt_rows, last_line
from webapp.interfaces.pages.run.benchmarks import benchmarks_context
from webapp.interfaces.pages.run.diagnostics import diagnostics_context
from webapp.interfaces.pages.run.questions import OF, BadQuestion, FigureRequest, delta_of
from webapp.interfaces.pages.run.timeline import machines_context, timeline_context
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import attempts_of, transitions_of
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.services import current_alarms
from webapp.reporting.policies.selectors import acted_on, policy_of
from webapp.science.curves import ahead, words
from webapp.science.curves.fitting import Curve, Question, curve_of
from webapp.science.curves.run.analyses import (
    MOST_ROWS,
    forms_payload,
    hindsight_rows,
    history_payload,
    whole_fits,
    window_payload,
)
from webapp.science.curves.run.figure import end_of_budget
from webapp.science.curves.run.forecast import DEFAULT_DELTA, plan_answers
from webapp.science.curves.words import AXES

Context = dict[str, Any]
MOST_TRANSITIONS = 200  # newest of a run that its tab shows
MOST_FILES = 500  # by path, that its tab shows
OFFERED = 200  # newest runs to compare the configuration with
PLAN_FIELDS = ("target", "of", "delta")

TABS = {
    "diagnostics": "Diagnostics",
    "machines": "Machines",
    "timeline": "Timeline",
    "benchmarks": "Benchmarks",
    "forms": "Forms",
    "window": "Window",
    "history": "Forecast history",
    "plan": "Plan",
    "log": "Log",
    "files": "Files",
    "configuration": "Configuration",
    "attempts": "Attempts",
    "decisions": "Decisions",
}
HEAVY = {"forms", "window", "history", "plan"}  # they take many fits


@dataclass(frozen=True)
class TabRequest:
    """A run and the query that asks about it; what cannot be read in the query is left out, and in `problems`."""

    run: Run
    query: QueryDict
    asked: FigureRequest
    problems: list[BadQuestion]

    @cached_property
    def alarms(self) -> list[Alarm]:
        """The run's alarms; read once a page."""
        return current_alarms(self.run)

    def curve(self) -> tuple[Curve, Question]:
        """The curve and the question about it. One query."""
        question = self.asked.question
        return curve_of(self.run, question.x, question.metric), question

    def kept(self, *without: str) -> list[tuple[str, Any]]:
        """The rest of the query, for the hidden fields of a form that sets `without`."""
        return [(name, self.query[name]) for name in self.query if name not in without]


def _forms(tab: TabRequest) -> Context:
    curve, question = tab.curve()
    return forms_context(curve, question, end_of_budget(tab.run, curve))


def forms_context(curve: Curve, question: Question, end: float | None) -> Context:
    """The forms side by side, up to `end`."""
    axis = AXES[question.x]
    found = forms_payload(curve, question, axis, end)
    return {"forms": found, "axis": axis, "scale": shared_scale([row["ceiling"] for row in found["rows"]])}


def window_context(curve: Curve, question: Question) -> Context:
    """Other windows on the same points."""
    found = window_payload(curve, question, AXES[question.x])
    return {"windows": found, "scale": shared_scale([row["ceiling"] for row in found["rows"]])}


def _history(tab: TabRequest) -> Context:
    curve, question = tab.curve()
    found = history_payload(whole_fits(tab.run, question.metric))
    every = tab.query.get("all") == "1"
    return {
        "history": found,
        "rows": found["rows"] if every else found["rows"][:MOST_ROWS],
        "more": 0 if every else max(0, len(found["rows"]) - MOST_ROWS),
        "scale": shared_scale([row["ceiling"] for row in found["rows"]]),
        "hindsight": hindsight_rows(curve, question, AXES[question.x]),
        "axis": AXES[question.x],
    }


def _plan(tab: TabRequest) -> Context:
    curve, question = tab.curve()
    goal = tab.asked.goal
    errors = {error.field: error.reason for error in tab.problems if error.field in PLAN_FIELDS}
    try:
        delta = delta_of(tab.query)
    except BadQuestion as error:
        errors["delta"], delta = error.reason, DEFAULT_DELTA
    shown = f"{goal.value:g}" if goal.of == "rate" else f"{100 * goal.value:g}"
    typed = {
        "target": tab.query.get("target") or shown,
        "of": tab.query.get("of", "rate" if tab.query.get("target") else goal.of),
        "delta": tab.query.get("delta") or f"{delta:g}",
    }
    end_x = end_of_budget(tab.run, curve)
    return {
        "plan": plan_answers(tab.run, curve, question, end_x, goal, delta),
        "errors": errors,
        "typed": typed,
        "of_choices": OF,
        "kept": tab.kept(*PLAN_FIELDS, "tab"),
    }


def _log(tab: TabRequest) -> Context:
    numbers = list(tab.run.attempts.order_by("-number").values_list("number", flat=True))
    wanted = tab.query.get("attempt", "")
    known = (number := whole_in(wanted)) in numbers
    if not known:
        number = numbers[0] if numbers else None
    attempt = tab.run.attempts.filter(number=number).first() if number is not None else None
    return {
        "attempt": attempt,
        "numbers": numbers,
        "missing": wanted if wanted and not known else "",
        "page": attempts.log_page(attempt, tab.query) if attempt else None,
        "last_error": last_line(attempt.message if attempt else tab.run.state_reason),
        "kept": tab.kept("q", "attempt", "before", "tab"),
    }


def _files(tab: TabRequest) -> Context:
    found = list(tab.run.artifacts.all()[:MOST_FILES])
    total = tab.run.artifacts.aggregate(count=Count("pk"), size=Sum("size"))
    return {"run": tab.run, "files": found, "total": total}


def _configuration(tab: TabRequest) -> Context:
    run = tab.run
    context: Context = {
        "sections": configuration.sections(run.config),
        "yaml": configuration.as_yaml(run.config),
        "others": _others(run),
        "other_id": tab.query.get("other", ""),
        "kept": tab.kept("other", "tab"),
    }
    parent = configuration.parent_of(run.revision) if run.revision else None
    if parent is not None and run.revision is not None:
        changes = configuration.differences(parent.config, run.revision.config)
        context |= {"parent": parent, "changes": changes}
    if context["other_id"]:
        context |= _against(run, context["other_id"])
    return context


def _others(run: Run) -> list[Run]:
    runs = Run.objects.filter(project=run.project_id).exclude(pk=run.pk)
    return list(runs.only("name", "seed").order_by("-created_at", "id")[:OFFERED])


def _against(run: Run, other_id: str) -> Context:
    """What differs from another run of the same project; one that is not there is said."""
    if (other := Run.objects.filter(project=run.project_id, pk=other_id).first()) is None:
        return {"other_problem": "There is no such run in this project."}
    return {"other": other, "other_changes": configuration.differences(other.config, run.config)}


def _attempts(tab: TabRequest) -> Context:
    run = tab.run
    changes = transitions_of(run).reverse()[:MOST_TRANSITIONS]
    return {
        "run": run,
        "attempts": attempt_rows(attempts_of(run), timezone.now()),
        "transitions": list(changes),
        "most_transitions": MOST_TRANSITIONS,
        "policy": policy_of(run) if run.origin == Run.Origin.LAUNCHED else None,
        "acted": acted_on(run),
    }


CONTEXTS: dict[str, Callable[[TabRequest], Context]] = {
    "diagnostics": lambda asked: diagnostics_context(asked.run, asked.query),
    "machines": lambda asked: machines_context(asked.run, asked.alarms, asked.query.get("node", "")),
    "timeline": lambda asked: timeline_context(asked.run, asked.query),
    "benchmarks": lambda asked: benchmarks_context(asked.run),
    "forms": _forms,
    "window": lambda asked: window_context(*asked.curve()),
    "history": _history,
    "plan": _plan,
    "log": _log,
    "files": _files,
    "configuration": _configuration,
    "attempts": _attempts,
    "decisions": lambda asked: decision_panel(asked.run),
}


def words_of(figure: dict[str, Any]) -> dict[str, Any]:
    """{"forecast_ceiling", "paper_text", "forecast_html"} of the payload of `run_figure`."""
    forecast, paper = figure["forecast"], figure["ceiling"]
    ceiling = forecast["ceiling"] if forecast else ahead.ceiling(None)
    context = {
        "forecast": forecast,
        "level": words.percent(forecast["level"]) if forecast else "",
        "ends": words.span((ceiling["lo"], ceiling["hi"])),
        "recalibrated": forecast["recalibrated"] if forecast else "",
    }
    return {
        "forecast_ceiling": ceiling,
        "paper_text": f"{paper['text']}, {paper['interval_text']}"
        if paper["lo"] is not None
        else "no fit yet",
        "forecast_html": render_to_string("run/_forecast.html", context).strip(),
    }
