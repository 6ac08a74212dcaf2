"""Tags of the pages of studies and of the planner."""

from django import template

from webapp.science.curves import words

register = template.Library()
register.filter("amount_of", words.amount)
