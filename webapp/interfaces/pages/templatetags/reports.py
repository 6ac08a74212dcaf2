"""Tags of the decision log and of reports."""

from django import template

from webapp.science.predictions.claims import in_a_line

register = template.Library()
register.filter("claim", in_a_line)
