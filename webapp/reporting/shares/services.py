"""Shares: every write.

What a share is called unless its author says otherwise.

What a share shows: the question that the page's address asks, checked once and stored as JSON.
"""

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone

from webapp.base.errors import InvalidInput, NotFound
from webapp.base.formats import NoAmount, amount_in, whole_in
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.services import digest
from webapp.identity.audit.services import record
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import is_pass_rate
from webapp.reporting.shares.models import Share
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.words import AXES, DEFAULT_AXIS, DEFAULT_METRIC
from webapp.science.predictions import claims
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
TOKEN_BYTES = 24  # 192 random bits: a plain hash of it cannot be searched
MAX_DAYS = 3650
SEEN_RESOLUTION = timedelta(minutes=5)
LONGEST = 160


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
    runs = _known(
        Run.objects.filter(project=project),
        "pk",
        query.getlist("run"),
        "run",
        "There is no run {} in this project.",
    )
    for token in query.getlist("recipe"):
        runs += [run for run in _runs_of_recipe(project, token) if run not in runs]
    references = _known(
        ReferenceFit.objects.all(), "slug", query.getlist("ref"), "ref", "There is no published curve {}."
    )
    if not runs and not references:
        raise InvalidInput("run", "Choose at least one curve to share.")
    most = MOST_CURVES if asked["by"] == "run" else MOST_RUNS
    if len(runs) + len(references) > most:
        raise InvalidInput("run", f"At most {most} curves can be told apart on one chart.")
    return asked | {"runs": runs, "refs": references}


def _known(rows: QuerySet[Any], key: str, texts: list[str], field: str, missing: str) -> list[str]:
    """The texts without repetition. Raises NotFound for one that is no key of the rows."""
    wanted = list(dict.fromkeys(text for text in texts if text))
    known = set(rows.filter(**{f"{key}__in": wanted}).values_list(key, flat=True))
    if unknown := [text for text in wanted if text not in known]:
        raise NotFound(missing.format(unknown[0]), field=field)
    return wanted


def _runs_of_recipe(project: Project, token: str) -> list[str]:
    slug, _, number = token.rpartition("@")
    if not slug or (revision := whole_in(number)) is None:
        raise InvalidInput("recipe", "recipe must be a slug and a revision, such as scalerl@2.")
    runs = Run.objects.filter(
        project=project, revision__recipe__slug=slug, revision__number=revision
    ).order_by("seed", "pk")
    if not (found := list(runs.values_list("pk", flat=True))):
        raise NotFound(f"There is no run of {token} in this project.", field="recipe")
    return found


def clean_title(title: str) -> str:
    """Without odd spaces. Raises InvalidInput (title)."""
    title = " ".join(title.split())
    if not title:
        raise InvalidInput("title", "A title is required.")
    if len(title) > LONGEST:
        raise InvalidInput("title", f"The title must have at most {LONGEST} characters.")
    return title


@transaction.atomic
def create_share(
    *, user: User, project: Project, kind: str, title: str, question: Question, days: int | None
) -> str:
    """A new link, open for `days` days or until it is revoked; its token is returned here and never again.

    Raises InvalidInput for a title or a number of days that cannot be used.
    """
    title = clean_title(title)
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise InvalidInput("days", f"The number of days must be between 1 and {MAX_DAYS:,}.")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    share = Share.objects.create(
        project=project, created_by=user, kind=kind, title=title, question=question, digest=digest(token),
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
    )  # fmt: skip
    _record("share.made", share, user, days=days)
    return token


@transaction.atomic
def revoke_share(share: Share, *, user: User | None = None) -> None:
    """From now on the link shows nothing. Safe to repeat."""
    if Share.objects.filter(pk=share.pk, revoked_at=None).update(revoked_at=timezone.now()):
        _record("share.closed", share, user)


def _record(verb: str, share: Share, user: User | None, **detail: Any) -> None:
    record(verb, actor=user, project=share.project, kind="share", key=share.pk, name=share.title, **detail)


def note_visit(share: Share) -> None:
    """Remember that somebody looked, at most every five minutes."""
    now = timezone.now()
    if share.last_seen_at is None or share.last_seen_at < now - SEEN_RESOLUTION:
        Share.objects.filter(pk=share.pk).update(last_seen_at=now)


def title_of(kind: str, question: Question) -> str:
    """The run's name, "A against B", or the claim; one query at most."""
    if kind == Share.Kind.PREDICTION:
        claim = Prediction.objects.select_related("rival__revision__recipe").get(pk=question["prediction"])
        return claims.in_a_line(claim)[:LONGEST]
    wanted = [question["run"]] if kind == Share.Kind.RUN else question["runs"]
    found = Run.objects.filter(pk__in=wanted).only("name", "seed").in_bulk() if wanted else {}
    labels = [label_of(found[pk]) for pk in wanted if pk in found]
    if kind == Share.Kind.COMPARISON:
        labels += question["refs"]
    if len(labels) > 3:
        return f"{len(labels)} curves"
    return " against ".join(labels)[:LONGEST]
