"""What a share shows: the question that the page's address asks, checked once and stored as JSON."""

import math
from collections.abc import Mapping
from typing import Any

from django.http import QueryDict

from webapp.accounts.models import Project
from webapp.curves.axes import AXES, DEFAULT_AXIS, DEFAULT_METRIC
from webapp.curves.models import ReferenceFit
from webapp.errors import InvalidInput, NotFound
from webapp.runs.models import Run
from webapp.runs.selectors import is_pass_rate
from webapp.shares.models import Share

MOST_CURVES = 12
SCALES = ("log", "linear")
VIEWS = ("rate", "share")
Question = dict[str, Any]


def question_of(project: Project, kind: str, query: QueryDict) -> Question:
    """The stored form of an address of the run page or of the comparison. Raises InvalidInput and NotFound."""
    if kind not in Share.Kind.values:
        raise InvalidInput("kind", f"kind must be one of {', '.join(Share.Kind.values)}.")
    shared = {"x": _one_of(query, "x", AXES, DEFAULT_AXIS), "scale": _one_of(query, "scale", SCALES, "log")}
    return shared | (_run(project, query) if kind == Share.Kind.RUN else _comparison(project, query))


def _one_of(query: Mapping[str, str], field: str, allowed: Any, default: str) -> str:
    value = query.get(field) or default
    if value not in allowed:
        raise InvalidInput(field, f"{field} must be one of {', '.join(allowed)}.")
    return value


def _run(project: Project, query: QueryDict) -> Question:
    metric = query.get("metric") or DEFAULT_METRIC
    if not is_pass_rate(metric):
        raise InvalidInput("metric", "metric must be eval/pass_rate or eval/<part>/pass_rate.")
    wanted = query.get("run", "").replace("\0", "")
    if not Run.objects.filter(project=project, pk=wanted).exists():
        raise NotFound(f"There is no run {wanted} in this project.", field="run")
    window = {name: _amount(query, name) for name in ("cutoff", "lo")}
    return {"run": wanted, "metric": metric} | window


def _amount(query: Mapping[str, str], field: str) -> float | None:
    text = query.get(field, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise InvalidInput(field, f"{field} must be a number above 0.")
    return value


def _comparison(project: Project, query: QueryDict) -> Question:
    wanted = list(dict.fromkeys(run.replace("\0", "") for run in query.getlist("run") if run))
    known = set(Run.objects.filter(project=project, pk__in=wanted).values_list("pk", flat=True))
    if missing := [run for run in wanted if run not in known]:
        raise NotFound(f"There is no run {missing[0]} in this project.", field="run")
    slugs = [slug.replace("\0", "") for slug in query.getlist("ref") if slug]
    published = set(ReferenceFit.objects.filter(slug__in=slugs).values_list("slug", flat=True))
    if unknown := [slug for slug in slugs if slug not in published]:
        raise NotFound(f"There is no published curve {unknown[0]}.", field="ref")
    if not wanted and not slugs:
        raise InvalidInput("run", "Choose at least one curve to share.")
    if len(wanted) + len(slugs) > MOST_CURVES:
        raise InvalidInput("run", f"At most {MOST_CURVES} curves can be told apart on one chart.")
    view = _one_of(query, "view", VIEWS, "rate")
    return {"runs": wanted, "refs": slugs, "view": view}
