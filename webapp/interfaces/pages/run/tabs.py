"""What each tab of the run page shows. Heavier analyses are made here, so only while their tab is open."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Count, Sum
from django.http import QueryDict
from django.utils import timezone

from webapp.interfaces.pages import configuration
from webapp.interfaces.pages.decisions import panel
from webapp.interfaces.pages.marks import shared_scale
from webapp.interfaces.pages.run import diagnostics, logs
from webapp.interfaces.pages.run.attempts import attempt_rows, last_line
from webapp.interfaces.pages.run.enlarged import diagnostics_context
from webapp.interfaces.pages.run.questions import OF, BadQuestion, delta_of, forgiving
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import attempts_of, transitions_of
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.services import current_alarms
from webapp.reporting.policies.selectors import acted_on, policy_of
from webapp.science.curves.axes import AXES
from webapp.science.curves.fitting import Curve, Question, curve_of
from webapp.science.curves.run.figure import end_of_budget
from webapp.science.curves.run.forms_table import forms_payload
from webapp.science.curves.run.history import MOST_ROWS, hindsight_rows, history_payload, whole_fits
from webapp.science.curves.run.planning import DEFAULT_DELTA, plan_answers
from webapp.science.curves.run.window_table import window_payload

Context = dict[str, Any]
MOST_TRANSITIONS = 200  # newest of a run that its tab shows
MOST_FILES = 500  # by path, that its tab shows
OFFERED = 200  # newest runs to compare the configuration with
PLAN_FIELDS = ("target", "of", "delta")

TABS = {
    "diagnostics": "Diagnostics",
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
class Asked:
    """A run and the query that asks about it; what cannot be read in the query is left out, and in `problems`."""

    run: Run
    query: QueryDict
    question: dict[str, Any]
    problems: list[BadQuestion]

    @cached_property
    def alarms(self) -> list[Alarm]:
        """The run's alarms; read once a page."""
        return current_alarms(self.run)

    @classmethod
    def of(cls, run: Run, query: QueryDict) -> "Asked":
        question, problems = forgiving(query)
        return cls(run, query, question, problems)

    def curve(self) -> tuple[Curve, Question]:
        """The curve and the question about it. One query."""
        asked = self.question
        question = Question(
            asked["x"], asked["cutoff"], asked["window_lo"], metric=asked["metric"], robust=asked["robust"]
        )
        return curve_of(self.run, asked["x"], asked["metric"]), question

    def kept(self, *without: str) -> list[tuple[str, Any]]:
        """The rest of the query, for the hidden fields of a form that sets `without`."""
        return [(name, self.query[name]) for name in self.query if name not in without]


def tab_context(tab: str, asked: Asked) -> Context:
    """The context of one tab's template."""
    return CONTEXTS[tab](asked)


def _diagnostics(asked: Asked) -> Context:
    panels = diagnostics.panels(asked.run, asked.alarms)
    return diagnostics_context(asked.run, panels, asked.query.get("panel", ""))


def _forms(asked: Asked) -> Context:
    curve, question = asked.curve()
    axis = AXES[question.x]
    found = forms_payload(curve, question, axis, end_of_budget(asked.run, curve))
    return {"forms": found, "axis": axis, "scale": shared_scale([row["ceiling"] for row in found["rows"]])}


def _window(asked: Asked) -> Context:
    curve, question = asked.curve()
    found = window_payload(curve, question, AXES[question.x])
    return {"windows": found, "scale": shared_scale([row["ceiling"] for row in found["rows"]])}


def _history(asked: Asked) -> Context:
    curve, question = asked.curve()
    found = history_payload(whole_fits(asked.run, question.metric))
    every = asked.query.get("all") == "1"
    return {
        "history": found,
        "rows": found["rows"] if every else found["rows"][:MOST_ROWS],
        "more": 0 if every else max(0, len(found["rows"]) - MOST_ROWS),
        "scale": shared_scale([row["ceiling"] for row in found["rows"]]),
        "hindsight": hindsight_rows(curve, question, AXES[question.x]),
        "axis": AXES[question.x],
    }


def _plan(asked: Asked) -> Context:
    curve, question = asked.curve()
    goal = asked.question["goal"]
    errors = {error.field: error.reason for error in asked.problems if error.field in PLAN_FIELDS}
    try:
        delta = delta_of(asked.query)
    except BadQuestion as error:
        errors["delta"], delta = error.reason, DEFAULT_DELTA
    shown = f"{goal.value:g}" if goal.of == "rate" else f"{100 * goal.value:g}"
    typed = {
        "target": asked.query.get("target") or shown,
        "of": asked.query.get("of", "rate" if asked.query.get("target") else goal.of),
        "delta": asked.query.get("delta") or f"{delta:g}",
    }
    end_x = end_of_budget(asked.run, curve)
    return {
        "plan": plan_answers(asked.run, curve, question, end_x, goal, delta),
        "errors": errors,
        "typed": typed,
        "of_choices": OF,
        "kept": asked.kept(*PLAN_FIELDS, "tab"),
    }


def _log(asked: Asked) -> Context:
    numbers = list(asked.run.attempts.order_by("-number").values_list("number", flat=True))
    wanted = asked.query.get("attempt", "")
    known = wanted.isdecimal() and len(wanted) < 9 and int(wanted) in numbers
    number = int(wanted) if known else (numbers[0] if numbers else None)
    attempt = asked.run.attempts.filter(number=number).first() if number is not None else None
    return {
        "attempt": attempt,
        "numbers": numbers,
        "missing": wanted if wanted and not known else "",
        "page": logs.log_page(attempt, asked.query) if attempt else None,
        "last_error": last_line(attempt.message if attempt else asked.run.state_reason),
        "kept": asked.kept("q", "attempt", "before", "tab"),
    }


def _files(asked: Asked) -> Context:
    found = list(asked.run.artifacts.all()[:MOST_FILES])
    total = asked.run.artifacts.aggregate(count=Count("pk"), size=Sum("size"))
    return {"run": asked.run, "files": found, "total": total}


def _configuration(asked: Asked) -> Context:
    run = asked.run
    context: Context = {
        "sections": configuration.sections(run.config),
        "yaml": configuration.as_yaml(run.config),
        "others": _others(run),
        "other_id": asked.query.get("other", ""),
        "kept": asked.kept("other", "tab"),
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
    other = Run.objects.filter(project=run.project_id, pk=other_id).first()
    if other is None:
        return {"other_problem": "There is no such run in this project."}
    return {"other": other, "other_changes": configuration.differences(other.config, run.config)}


def _attempts(asked: Asked) -> Context:
    run = asked.run
    changes = transitions_of(run).reverse()[:MOST_TRANSITIONS]
    return {
        "run": run,
        "attempts": attempt_rows(attempts_of(run), timezone.now()),
        "transitions": list(changes),
        "most_transitions": MOST_TRANSITIONS,
        "policy": policy_of(run) if run.origin == Run.Origin.LAUNCHED else None,
        "acted": acted_on(run),
    }


CONTEXTS: dict[str, Callable[[Asked], Context]] = {
    "diagnostics": _diagnostics,
    "forms": _forms,
    "window": _window,
    "history": _history,
    "plan": _plan,
    "log": _log,
    "files": _files,
    "configuration": _configuration,
    "attempts": _attempts,
    "decisions": lambda asked: panel(asked.run),
}
