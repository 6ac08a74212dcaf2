"""Answers as JSON: every time in one form (`webapp.base.times`)."""

from datetime import datetime
from typing import Any

from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder

from webapp.base.times import utc


class _Encoder(NinjaJSONEncoder):
    def default(self, o: Any) -> Any:
        return utc(o) if isinstance(o, datetime) else super().default(o)


class Json(JSONRenderer):
    """Writes the answers of ninja."""

    encoder_class = _Encoder
