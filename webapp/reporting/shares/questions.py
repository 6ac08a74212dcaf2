"""What a share shows: the question that the page's address asks, checked once and stored as JSON."""

from collections.abc import Mapping
from typing import Any

from django.http import QueryDict

from webapp.base.amounts import NoAmount, amount_in
from webapp.base.errors import InvalidInput, NotFound
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import is_pass_rate
from webapp.reporting.shares.models import Share
from webapp.science.curves.axes import AXES, DEFAULT_AXIS, DEFAULT_METRIC
from webapp.science.curves.models import ReferenceFit
from webapp.science.predictions.models import Prediction

MOST_CURVES, MOST_RUNS = 12, 36  # on one chart; runs that are grouped by recipe
SCALES = ("log", "linear")
VIEWS = ("rate", "share", "slope")
BY = ("run", "recipe")
KINDS = (
    Share.Kind.RUN.value,
    Share.Kind.COMPARISON.value,
    Share.Kind.PREDICTION.value,
)  # reports: their own page
Question = dict[str, Any]


def question_of(project: Project, kind: str, query: QueryDict) -> Question:
    """The stored form of an address of a run page, a comparison or a prediction. Raises InvalidInput, NotFound."""
    if kind not in KINDS:
        raise InvalidInput("kind", f"kind must be one of {', '.join(KINDS)}.")
    if kind == Share.Kind.PREDICTION:  # it has an axis of its own
        return _prediction(project, query)
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
    wanted = query.get("run", "")
    if not Run.objects.filter(project=project, pk=wanted).exists():
        raise NotFound(f"There is no run {wanted} in this project.", field="run")
    window = {name: _amount(query, name) for name in ("cutoff", "lo")}
    robust = _one_of(query, "robust", ("0", "1"), "0") == "1"  # without outliers
    return {"run": wanted, "metric": metric, "robust": robust} | window


def _prediction(project: Project, query: QueryDict) -> Question:
    wanted = query.get("prediction", "")
    if not Prediction.objects.filter(project=project, pk=wanted).exists():
        raise NotFound(f"There is no prediction {wanted} in this project.", field="prediction")
    return {"prediction": wanted, "scale": _one_of(query, "scale", SCALES, "log")}


def _amount(query: Mapping[str, str], field: str) -> float | None:
    text = query.get(field, "").strip()
    try:
        return amount_in(text) if text else None
    except NoAmount:
        raise InvalidInput(field, f"{field} must be a number above 0.") from None


def _comparison(project: Project, query: QueryDict) -> Question:
    """Runs by id and all runs of recipe revisions ("slug@2") as they are now, and published curves."""
    asked = {"view": _one_of(query, "view", VIEWS, "rate"), "by": _one_of(query, "by", BY, "run")}
    runs = _known_runs(project, query.getlist("run"))
    for token in query.getlist("recipe"):
        runs += [run for run in _runs_of_recipe(project, token) if run not in runs]
    references = _known_references(query.getlist("ref"))
    if not runs and not references:
        raise InvalidInput("run", "Choose at least one curve to share.")
    most = MOST_CURVES if asked["by"] == "run" else MOST_RUNS
    if len(runs) + len(references) > most:
        raise InvalidInput("run", f"At most {most} curves can be told apart on one chart.")
    return asked | {"runs": runs, "refs": references}


def _once(texts: list[str]) -> list[str]:
    """Without repetition."""
    return list(dict.fromkeys(text for text in texts if text))


def _known_runs(project: Project, ids: list[str]) -> list[str]:
    wanted = _once(ids)
    known = set(Run.objects.filter(project=project, pk__in=wanted).values_list("pk", flat=True))
    if missing := [run for run in wanted if run not in known]:
        raise NotFound(f"There is no run {missing[0]} in this project.", field="run")
    return wanted


def _runs_of_recipe(project: Project, token: str) -> list[str]:
    slug, _, number = token.rpartition("@")
    if not slug or not number.isdecimal() or len(number) > 9:
        raise InvalidInput("recipe", "recipe must be a slug and a revision, such as scalerl@2.")
    runs = Run.objects.filter(
        project=project, revision__recipe__slug=slug, revision__number=int(number)
    ).order_by("seed", "pk")
    if not (found := list(runs.values_list("pk", flat=True))):
        raise NotFound(f"There is no run of {token} in this project.", field="recipe")
    return found


def _known_references(slugs: list[str]) -> list[str]:
    wanted = _once(slugs)
    published = set(ReferenceFit.objects.filter(slug__in=wanted).values_list("slug", flat=True))
    if unknown := [slug for slug in wanted if slug not in published]:
        raise NotFound(f"There is no published curve {unknown[0]}.", field="ref")
    return wanted
