"""Tags of the decision log and of reports."""

from django import template

from webapp.decisions.claims import claim_words

register = template.Library()
register.filter("claim", claim_words)
