"""Tags of the pages of studies and of the planner."""

from django import template

from webapp.science.curves import words
from webapp.science.studies.estimate import duration

register = template.Library()
register.filter("duration", duration)
register.filter("amount_of", words.amount)
