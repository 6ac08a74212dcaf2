"""The launch form as its tests read it."""

import re


def error_of(response, field):
    """The error beside a field, as a browser shows it."""
    found = re.search(rf'id="id_{field}_error"[^>]*>([^<]*)<', response.content.decode())
    return found[1] if found else None


def check(ada, form):
    response = ada.post("/runs/new/check", form)
    assert response.status_code == 200
    return response.content.decode()
