"""The design tokens of static/css/tokens.css as data: for what is drawn on the server, and for tests."""

import re
from functools import cache

from django.conf import settings

_PAIR = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
Colours = dict[str, str]


@cache
def colours(theme: str = "light") -> Colours:
    """Token -> "#rrggbb" in the theme "light" or "dark"."""
    text = (settings.BASE_DIR / "static" / "css" / "tokens.css").read_text()
    place = ("light", "dark").index(theme)
    return {name: pair[place] for name, *pair in _PAIR.findall(text)}
