"""Template tags: numbers with the digits their intervals support, ages, what predictions and decisions say, and marks
(`webapp.interfaces.pages.marks`)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django import template
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, linebreaks
from django.utils.safestring import SafeString, mark_safe

from webapp.base.disk import bytes_in_words
from webapp.interfaces.pages import marks
from webapp.interfaces.pages.forms import address_of
from webapp.interfaces.pages.marks import age_words, ago_words, duration
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import State
from webapp.reporting.troubles import span_words
from webapp.science.curves import words
from webapp.science.curves.words import AXES
from webapp.science.decisions.services import said as said_of_decision
from webapp.science.predictions import claims
from webapp.science.predictions.discussion import MENTION
from webapp.science.predictions.models import Prediction
from webapp.science.predictions.status import Status

register = template.Library()
for tag in (
    marks.whisker, marks.sparkline, marks.small_multiple, marks.alarm_mark, marks.meter, marks.key,
):  # fmt: skip
    register.simple_tag(tag)
FILTERS: dict[str, Callable[..., Any]] = {
    "amount": words.amount, "rate": words.measured, "percent": words.percent, "share_percent": words.share_text,
    "run_label": label_of, "stood": said_of_decision, "object_address": address_of,
    "subject": claims.subject, "made_from": claims.made_from, "claim_words": claims.claim_words,
    "came": claims.outcome_words, "times": claims.times_as_far,
}  # fmt: skip
for name, function in FILTERS.items():
    register.filter(name, function)


@register.filter
def grouped(number: int) -> str:
    """A count with its thousands parted: "10,000"."""
    return f"{number:,}"


@register.filter
def in_bytes(size: float | None) -> str:
    """ "1.5 GiB"."""
    return "–" if size is None else bytes_in_words(size)


@register.filter
def in_seconds(seconds: float | None) -> str:
    """A span of time in words: "40 s", "25 min"; of short ones with a digit behind the point."""
    if seconds is None:
        return "–"
    return f"{seconds:.1f} s" if seconds < 10 else duration(timedelta(seconds=seconds))


@register.filter
def seconds_since(moment: datetime) -> str:
    """How long ago, to the second where a page is to say what has just stopped: "33 s", "5 min"."""
    return span_words(timezone.now() - moment)


@register.simple_tag(name="rank")
def rank_mark(rank: int | None, is_shared: bool) -> SafeString | str:
    """A place in a table, with "=" where others have it as well; a dash for who has none."""
    if rank is None:
        return "–"
    return format_html('{}<span title="shares this rank">=</span>', rank) if is_shared else str(rank)


@register.filter
def span(ceiling: dict) -> str:
    """The interval of a ceiling alone, for columns whose title has the level: "0.596 to 0.627"."""
    return words.span((ceiling["lo"], ceiling["hi"]))


@register.filter
def age(moment: datetime | None, form: str = "") -> SafeString | str:
    """A `time` element that says "3 h", or in the form "ago", for sentences, "3 h ago".

    Scripts keep it true, and start from the same words, so that nothing moves.
    """
    if moment is None:
        return "–"
    words = age_words(moment) if form != "ago" else ago_words(moment)
    return format_html('<time datetime="{}" data-age="{}">{}</time>', moment.isoformat(), form, words)


@register.filter
def moment(value: datetime | None, zone: str = " UTC") -> SafeString | str:
    """A `time` element with date and time of day, in UTC until static/js/times.js writes the reader's own zone.

    zone: "" where a column's heading says it."""
    if value is None:
        return "–"
    return format_html(
        '<time datetime="{}" data-moment>{}{}</time>',
        value.isoformat(),
        value.strftime("%Y-%m-%d %H:%M"),
        zone,
    )


@register.simple_tag
def pill(state: str) -> SafeString:
    """The state of a run or an attempt."""
    return format_html('<span class="pill" data-state="{}">{}</span>', state, State(state).label.lower())


@register.simple_tag(takes_context=True)
def with_query(context: template.Context, **changes: object) -> str:
    """The current query string with some keys set, or dropped where the value is None: state lives in the URL."""
    kept = [text for name, text in _encoded(context["request"]) if name not in changes]
    new = [urlencode([(name, value)]) for name, value in changes.items() if value is not None]
    return f"?{'&'.join(kept + new)}"


def _encoded(request: HttpRequest) -> list[tuple[str, str]]:
    """(name, "name=value") of all that the address asks for, once a request: a comparison names a hundred runs."""
    if not hasattr(request, "encoded_query"):
        asked = [(name, value) for name, values in request.GET.lists() for value in values]
        request.encoded_query = [(name, urlencode([(name, value)])) for name, value in asked]  # type: ignore[attr-defined]
    return request.encoded_query  # type: ignore[attr-defined]


SHARED_CHART = "chart"  # the id of the chart of a page that can be shared
SHAREABLE = {"run": "run", "compare": "comparison", "prediction": "prediction"}  # url name -> kind of share


@register.simple_tag(takes_context=True)
def shareable(context: template.Context, chart: str) -> str:
    """Where a link to this chart is made, with the page's question; "" on pages whose chart cannot be shared."""
    request: HttpRequest | None = context.get("request")
    match = request.resolver_match if request else None
    if request is None or match is None or chart != SHARED_CHART or match.url_name not in SHAREABLE:
        return ""
    query = request.GET.copy()
    query["kind"] = SHAREABLE[match.url_name]
    if match.url_name == "run":
        query["run"] = match.kwargs["run_id"]
    elif match.url_name == "prediction":
        query["prediction"] = match.kwargs["prediction_id"]
    elif not query.getlist("run") and not query.getlist("ref"):
        return ""
    return f"{reverse('new-share')}?{query.urlencode()}"


@register.filter
def iframe(address: str, title: str) -> str:
    """The markup that puts a shared chart into another page, as text to copy."""
    markup = format_html(
        '<iframe src="{}" title="{}" width="720" height="520" loading="lazy"></iframe>', address, title
    )
    return markup + ""  # plain text again: shown and copied as it is, so it is escaped once more


@register.filter
def said(text: str) -> SafeString:
    """What somebody wrote: paragraphs and mentions, nothing else of it is markup."""
    escaped = MENTION.sub(r'<span class="mention">@\1</span>', str(conditional_escape(text)))
    return mark_safe(linebreaks(mark_safe(escaped)))  # nosec B308, B703  # escaped above


@register.filter
def statement_words(prediction: Prediction) -> str:
    return claims.statement_words(claims.claim_of(prediction))


@register.filter
def horizon(prediction: Prediction) -> str:
    """ "8.00 to 16.0 h, 2 times"."""
    axis = AXES[prediction.x]
    ends = f"{axis.amount(prediction.known_until)} to {axis.short_text(prediction.target)}"
    return f"{ends}, {claims.times_as_far(prediction.target / prediction.known_until)}"


@register.filter
def verdict_mark(verdict: str) -> tuple[str, str]:
    """(class of a pill, words)."""
    return REVIEWS[verdict]


@register.filter
def marks_of(status: Status) -> list[tuple[str, str]]:
    """(class of a pill, words) of a status: what it lives through, then what the reviewers say."""
    return [LIVES[status.life], REVIEWS[status.review]]


LIVES = {
    "open": ("accent", "open"),
    "projection": ("", "projection"),
    "scored": ("good", "scored"),
    "withdrawn": ("warn", "withdrawn"),
    "replaced": ("", "replaced"),
}
REVIEWS = {
    "unreviewed": ("", "not reviewed"),
    "asked": ("", "review asked"),
    "changes": ("warn", "changes asked"),
    "approved": ("good", "approved"),
    "rejected": ("bad", "rejected"),
}
