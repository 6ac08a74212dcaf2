"""Template filters: numbers with the digits their intervals support, whiskers, sparklines."""

from django import template

register = template.Library()
