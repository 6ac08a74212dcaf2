"""Reading answers of pages."""

import re


def text_of(response) -> str:
    """Its HTML without the line breaks of templates, which are blanks at most on the page."""
    return re.sub(r"\s+", " ", response.content.decode()).replace(" >", ">")


def page_of(client, run, query="") -> str:
    return text_of(client.get(f"/runs/{run.pk}{query}"))
