"""Who asks, a person with a browser or a script, and what of it can be stored."""

from django.http import HttpRequest, QueryDict


def asked_by_script(request: HttpRequest) -> bool:
    """Whether htmx asks, or a script that wants JSON and no page."""
    accepted = request.headers.get("Accept", "")
    return bool(getattr(request, "htmx", False)) or (
        "application/json" in accepted and "text/html" not in accepted
    )


def without_nul(query: QueryDict) -> QueryDict:
    """The same without NUL characters, which PostgreSQL cannot store in a text, nor be asked for."""
    pairs = [(name, value) for name, values in query.lists() for value in values]
    if not any("\0" in text for pair in pairs for text in pair):
        return query
    found = QueryDict(mutable=True)
    for name, value in pairs:
        found.appendlist(name.replace("\0", ""), value.replace("\0", ""))
    return found
