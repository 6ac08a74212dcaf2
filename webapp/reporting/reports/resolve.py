"""What a block shows: numbers of the report's own project, as JSON that can be drawn now or kept as it was.

A payload has a `kind`: chart, tables, number, facts, or problem with line and reason. Nothing here raises for a run
that is gone or belongs to another project: the block says so, and the rest of the report is as it was.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from typing import Any

from django.http import QueryDict
from django.urls import reverse

from webapp.base.errors import InvalidInput, NotFound, ServiceError, first_of
from webapp.identity.accounts.models import Project
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run
from webapp.reporting.reports.document import Ask, Problem
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.selectors import drawing_of
from webapp.reporting.shares.services import question_of
from webapp.science.curves import words
from webapp.science.curves.comparison.compare import comparison
from webapp.science.curves.ranking.leaderboard import leaderboard
from webapp.science.decisions.selectors import decision_by_id
from webapp.science.decisions.services import said, standing
from webapp.science.predictions import claims
from webapp.science.predictions.models import Prediction

Payload = dict[str, Any]
MOST_ROWS = 12
SEVERAL = {"runs": "run", "recipes": "recipe", "refs": "ref"}  # a block's key -> that of a page's address
log = logging.getLogger(__name__)


def shown(project: Project, ask: Ask | Problem) -> Payload:
    """The payload of one block; `caption` and `line` are in each. Never raises."""
    if isinstance(ask, Problem):
        return problem(ask)
    try:
        payload = READERS[ask.what](project, ask)
    except ServiceError as error:
        names = [error.field or "", f"{error.field}s"]  # an address's key may be a list in the block
        line = next((ask.lines[name] for name in names if name in ask.lines), ask.line)
        return problem(Problem(line, error.message))
    except Exception:
        log.exception("a block of a report crashed: %s", dict(ask.fields))
        return problem(Problem(ask.line, "this could not be worked out; the server's log says why."))
    whole = payload | {"caption": ask.fields.get("caption", ""), "line": ask.line}
    return json.loads(
        json.dumps(whole), parse_constant=lambda _: None
    )  # numbers that are not finite are null


def problem(found: Problem) -> Payload:
    return {"kind": "problem", "line": found.line, "reason": found.reason, "caption": ""}


def digest(payload: Payload) -> str:
    """SHA-256 of what a block says; its place, and the last digits of numbers, do not count."""
    said = json.dumps({key: each for key, each in payload.items() if key != "line"}, sort_keys=True)
    rounded = json.loads(said, parse_float=lambda number: f"{float(number):.6g}")
    return hashlib.sha256(json.dumps(rounded).encode()).hexdigest()


def _chart(project: Project, ask: Ask) -> Payload:
    kind = Share.Kind.RUN if ask.which == "run" else Share.Kind.COMPARISON
    query = QueryDict(mutable=True)
    for key, value in ask.fields.items():
        if key in SEVERAL and ask.which == "compare":
            query.setlist(SEVERAL[key], ask.items(key))
        elif key not in ("chart", "caption"):
            query[key] = value
    question = question_of(project, kind, query)
    drawing = drawing_of(Share(project=project, kind=kind, question=question))
    page = reverse("run", args=[question["run"]]) if ask.which == "run" else reverse("compare")
    link = f"{page}?{query.urlencode()}"
    return {"kind": "chart", "title": drawing.heading, "drawing": drawing.as_json(), "link": link}


def _run(project: Project, key: str, field: str = "run") -> Run:
    rows = Run.objects.filter(project=project, pk=key).select_related("revision__recipe")
    missing = f"there is no run {key[:40]} in this project: it may have been deleted."
    return first_of(rows, missing, field=field)


def _table(project: Project, ask: Ask) -> Payload:
    tables = _leaderboard(project, ask) if ask.which == "leaderboard" else _parameters(project, ask)
    return {"kind": "tables", "title": "", "tables": tables}


def _leaderboard(project: Project, ask: Ask) -> list[Payload]:
    task, model = (ask.fields.get(key, "") for key in ("task", "model"))
    if not (groups := leaderboard(project, published=False, task=task, model=model)):
        raise NotFound("no run of this task and model has been fitted yet.", field="task")
    head = ["Rank", "Recipe", "Pass rate", "Best with", "Forecast ceiling", "Eq. 1's A", "Seeds"]
    return [
        {"title": f"{group['task']}, {group['model']}", "head": head, "numeric": [0, 3, 6],
         "rows": [_board_row(row) for row in group["rows"][:MOST_ROWS]], "notes": group["answer"],
         "more": max(0, len(group["rows"]) - MOST_ROWS)}
        for group in groups
    ]  # fmt: skip


def _board_row(row: Payload) -> list[str]:
    rank = "–" if row["rank"] is None else f"{row['rank']}{' =' if row['tied'] else ''}"
    name = f"{row['recipe']} rev {row['revision']}" if row["revision"] is not None else row["recipe"]
    there = _with_span(row, "at_budget") if row["rank"] is not None else row["not_compared"]
    a = f"{row['ceiling']['text']} ({row['ceiling']['interval_text']})"
    likely = row["at_budget_chance_text"]
    return [rank, name, there, likely, _with_span(row, "forecast"), a, str(row["seeds"])]


def _with_span(row: Payload, name: str) -> str:
    span = row[f"{name}_span"]
    return f"{row[f'{name}_text']} ({span})" if span else row[f"{name}_text"]


def _parameters(project: Project, ask: Ask) -> list[Payload]:
    keys = ask.items("runs") if "runs" in ask.fields else [ask.fields["run"]]
    if len(keys) > MOST_ROWS:
        raise InvalidInput("runs", f"a table has at most {MOST_ROWS} runs.")
    runs = [_run(project, key, "runs" if "runs" in ask.fields else "run") for key in dict.fromkeys(keys)]
    rows = []
    for row in comparison(runs, [])["table"]:
        cells = {each["name"]: f"{each['value_text']} ({each['interval_text']})" for each in row["rows"]}
        ceiling = row["ceiling"]
        said = f"{ceiling['text']} ({ceiling['interval_text']})"
        rows.append([row["label"], said, *(cells.get(name, "–") for name in ("B", "C_mid", "R0"))])
    head = ["Run", "A of Eq. 1", "B", "C_mid, device-hours", "R0"]
    return [{"title": "", "head": head, "numeric": [], "rows": rows, "more": 0}]


def _number(project: Project, ask: Ask) -> Payload:
    run = _run(project, ask.fields["run"])
    state = standing(run)
    title, value, sentence = NUMBERS[ask.which](state)
    return {"kind": "number", "title": f"{title}, {label_of(run)}", "value": value, "sentence": sentence,
            "link": reverse("run", args=[run.pk])}  # fmt: skip


def _ceiling(state: Payload) -> tuple[str, str, str]:
    return "A of Eq. 1", state["ceiling"]["text"], state["ceiling"]["interval_text"]


def _pass_rate(state: Payload) -> tuple[str, str, str]:
    value, stderr = state["pass_rate"], state["stderr"]
    if value is None:
        return "Pass rate", "–", "no evaluation yet"
    if stderr is None:
        return "Pass rate", words.rate(value), "newest evaluation, without a standard error"
    return (
        "Pass rate",
        words.rate(value, (value - stderr, value + stderr)),
        f"newest evaluation, ± {stderr:.3f}",
    )


def _forecast(state: Payload) -> tuple[str, str, str]:
    if (found := state["forecast"]) is None:
        return "Forecast at the budget", "–", "no forecast, or no budget"
    ends = (found["lo"], found["hi"])
    at = f"at {words.amount(found['at'])} device-hours"
    return "Forecast", words.rate(found["value"], ends), f"{words.between(ends, found['level'])}, {at}"


def _compute(state: Payload) -> tuple[str, str, str]:
    if state["used_hours"] is None:
        return "Compute used", "–", "its device-hours are not known"
    budget = state["budget_hours"]
    of = f"of {words.amount(budget)} device-hours" if budget else "device-hours, without a budget"
    return "Compute used", words.amount(state["used_hours"]), of


NUMBERS: dict[str, Callable[[Payload], tuple[str, str, str]]] = {
    "ceiling": _ceiling, "pass_rate": _pass_rate, "forecast": _forecast, "compute": _compute,
}  # fmt: skip


def _prediction(project: Project, ask: Ask) -> Payload:
    rows = Prediction.objects.filter(project=project, pk=ask.which)
    rows = rows.select_related("author", "rival__revision__recipe", "run").prefetch_related("outcomes")
    missing = f"there is no prediction {ask.which[:40]} in this project."
    found = first_of(rows, missing, field="prediction")
    facts = [
        ["Claim", claims.in_a_line(found)],
        ["Made", f"{found.created_at:%-d %B %Y}, from {label_of(found.run)}, {claims.fitted_up_to(found)}"],
        ["Reasons", found.reasons],
        ["What came", claims.what_came(found, list(found.outcomes.all()))],
    ]
    return {"kind": "facts", "title": f"Prediction of {found.author.username}", "facts": facts}


def _decision(project: Project, ask: Ask) -> Payload:
    entry = decision_by_id(project, ask.which)
    facts = [
        ["Decided", f"{entry.get_kind_display()}: {entry.name}{f' → {entry.to}' if entry.to else ''}"],
        ["By", f"{entry.decided_by.username}, {entry.decided_at:%-d %B %Y}"],
        ["Why", entry.reason],
    ]
    if stood := said(entry.state):
        facts.append(["As it stood", stood])
    return {
        "kind": "facts",
        "title": "Decision",
        "facts": facts,
        "link": reverse("decision", args=[entry.pk]),
    }


READERS: dict[str, Callable[[Project, Ask], Payload]] = {
    "chart": _chart, "table": _table, "number": _number, "prediction": _prediction, "decision": _decision,
}  # fmt: skip
