"""Tags of the pages of studies and of the planner."""

from django import template

from webapp.curves import words
from webapp.studies.estimate import duration

register = template.Library()
register.filter("duration", duration)
register.filter("amount_of", words.amount)
