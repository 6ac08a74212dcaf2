"""Tags of the decision log."""

from django import template

from webapp.interfaces.pages.decisions import address_of
from webapp.science.decisions.services import said

register = template.Library()
register.filter("stood", said)
register.filter("object_address", address_of)
