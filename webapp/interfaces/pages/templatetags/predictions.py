"""Tags of the pages of predictions and of the decision log."""

from django import template
from django.utils.html import conditional_escape, linebreaks
from django.utils.safestring import SafeString, mark_safe

from webapp.interfaces.pages.forms import address_of
from webapp.science.curves import words
from webapp.science.curves.words import AXES
from webapp.science.decisions.services import said as said_of_decision
from webapp.science.predictions import claims
from webapp.science.predictions.claims import outcome_words, times_as_far
from webapp.science.predictions.discussion import MENTION
from webapp.science.predictions.models import Comment, Outcome, Prediction
from webapp.science.predictions.status import Status

register = template.Library()
register.filter("stood", said_of_decision)
register.filter("object_address", address_of)


@register.filter
def said(text: str) -> SafeString:
    """What somebody wrote: paragraphs and mentions, nothing else of it is markup."""
    escaped = MENTION.sub(r'<span class="mention">@\1</span>', str(conditional_escape(text)))
    return mark_safe(linebreaks(mark_safe(escaped)))  # nosec B308, B703  # escaped above


@register.filter
def statement_words(prediction: Prediction) -> str:
    return claims.statement_words(claims.claim_of(prediction))


@register.filter
def subject(prediction: Prediction) -> str:
    return claims.subject(prediction)


@register.filter
def made_from(prediction: Prediction) -> str:
    return claims.made_from(prediction)


@register.filter
def claim_words(claim: claims.Claim) -> str:
    return claims.claim_words(claim)


@register.filter
def percent(level: float) -> str:
    return words.percent(level)


@register.filter
def came(outcome: Outcome) -> str:
    """What came of it, in a line of the list."""
    return outcome_words(outcome)


@register.filter
def horizon(prediction: Prediction) -> str:
    """ "8.00 to 16.0 h, 2 times"."""
    axis = AXES[prediction.x]
    ends = f"{axis.amount(prediction.known_until)} to {axis.short_text(prediction.target)}"
    return f"{ends}, {times_as_far(prediction.target / prediction.known_until)}"


@register.filter
def times(ratio: float) -> str:
    """ "2.5 times"."""
    return times_as_far(ratio)


@register.filter
def share_percent(share: float) -> str:
    return words.share_text(share)


@register.filter
def verdict_mark(verdict: str) -> str:
    """The class of a verdict's pill."""
    return REVIEWS[verdict][0]


@register.filter
def verdict_words(verdict: str) -> str:
    return REVIEWS[verdict][1]


@register.filter
def edit_key(comment: Comment) -> str:
    """Which form of the page a problem belongs to: the one that edits this comment."""
    return f"edit-{comment.pk}"


@register.filter
def marks_of(status: Status) -> list[tuple[str, str]]:
    """(class of a pill, words) of a status: what it lives through, then what the reviewers say."""
    life = LIVES.get(status.life, ("", status.life))
    review = REVIEWS.get(status.review, ("", status.review))
    return [life, review]


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
