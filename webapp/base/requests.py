"""Who asks, a person with a browser or a script, and what of it can be stored.

How large the body of a request may be, and how it is read where it may be larger than most.
"""

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, QueryDict

from webapp.base.errors import InvalidInput

MAX_BATCH_BYTES = 16 * 1024 * 1024  # of records, and of what clients of other trackers log
MAX_ITEMS = 500_000  # values, lists and objects of a JSON body: each takes up to 300 bytes once it is read


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


def batch_of(request: HttpRequest, most: int = MAX_BATCH_BYTES) -> bytes:
    """The body of a request that may have more than `DATA_UPLOAD_MAX_MEMORY_SIZE`. Raises RequestDataTooBig above
    `most` bytes, none of which is read where the request says how many there are."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > most:
        raise RequestDataTooBig
    body = request.read(most + 1)
    if len(body) > most:
        raise RequestDataTooBig
    return body


def check_items(body: bytes) -> None:
    """Before JSON is read, since a short text can hold millions of lists. Raises InvalidInput (413)."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_ITEMS:
        raise InvalidInput(None, f"The body holds more than {MAX_ITEMS:,} values.", status=413)
