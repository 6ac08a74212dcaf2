"""Who asks: a person with a browser, or a script."""

from django.http import HttpRequest


def asked_by_script(request: HttpRequest) -> bool:
    """Whether htmx asks, or a script that wants JSON and no page."""
    accepted = request.headers.get("Accept", "")
    return bool(getattr(request, "htmx", False)) or (
        "application/json" in accepted and "text/html" not in accepted
    )
