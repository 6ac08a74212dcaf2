"""Answers as JSON: every time in one form (`webapp.base.times`)."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder

from webapp.base.times import utc


class _Encoder(NinjaJSONEncoder):
    def default(self, o: Any) -> Any:
        return utc(o) if isinstance(o, datetime) else super().default(o)


class Json(JSONRenderer):
    """Writes the answers of ninja."""

    encoder_class = _Encoder


def unchecked(payload: dict[str, Any]) -> HttpResponse:
    """An answer that is not put through the schema it is documented with: to check 100,000 numbers takes longer than to
    find them. The tests hold it to the schema."""
    text = Json().render(HttpRequest(), payload, response_status=200)
    return HttpResponse(text, content_type="application/json; charset=utf-8")
