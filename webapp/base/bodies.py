"""How large the body of a request may be, and how it is read where it may be larger than most."""

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest

from webapp.base.errors import InvalidInput

MAX_BATCH_BYTES = 16 * 1024 * 1024  # of records, and of what clients of other trackers log
MAX_ITEMS = 500_000  # values, lists and objects of a JSON body: each takes up to 300 bytes once it is read


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
