"""Requests made up from the forms and links of every page, with odd values in their fields: none is answered by a 5xx.

A few from every fourth page run with the other tests, ten thousand in `make test-deep`; before them forms and links
with NUL characters in all their fields. Each leaves everything as it was.
"""

import random
import time
from collections import Counter
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.core.cache import caches
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.signals import got_request_exception
from django.db import transaction
from django.test import Client

from tests.deep import IS_DEEP
from tests.made_up import ODD, changed
from tests.webapp.permissions import tables
from tests.webapp.permissions.test_controls import TABS, Controls
from tests.webapp.permissions.test_pages import PATTERNS, address
from tests.webapp.permissions.world import OWNER, make_world

CASES = 10_000 if IS_DEEP else 25
ENDS_THE_SESSION = {"sign-out", "end-session", "end-other-sessions"}
FILES = [
    b"",
    b"\0" * 100,
    b"step,eval/pass_rate\n1,0.5\n",
    b"a,b\n" + b"1," * 5000,
    b"PAR1" + b"\xff" * 200,
    b"PK\x03\x04",
]


def asked_by(client, world):
    """Every request that pages of this world offer, without doubles, and each address once by itself; in the short form
    of every fourth page.
    """
    offered = {}
    for name in [*PATTERNS][:: 1 if IS_DEEP else 4]:
        about = address(name, world)
        parts = urlsplit(about)
        for method in ("GET", "POST"):
            if name in tables.IN_PROJECT and tables.IN_PROJECT[name].of(method):
                fields = dict(parse_qsl(parts.query)) | (
                    tables.FORMS[name](world) if name in tables.FORMS else {}
                )
                offered.setdefault((method, parts.path), fields)
        if name in ENDS_THE_SESSION:
            continue
        shown = [about, *([f"{about}?tab={tab}" for tab in TABS] if name == "run" else [])]
        for page in shown:
            answer = client.get(page)
            if (
                answer.status_code == 200
                and "html" in answer.headers["Content-Type"]
                and not answer.streaming
            ):
                for method, target, fields in Controls(answer.content.decode()).found:
                    place = urlsplit(target)
                    if not (place.scheme or place.netloc):
                        offered.setdefault((method, place.path or parts.path), {}).update(fields)
    return sorted(offered.items())


def made_up(rng, offered):
    (method, path), fields = rng.choice(offered)
    if rng.random() < 0.1:
        parts = path.split("/")
        parts[rng.randrange(1, len(parts))] = (
            "".join(c for c in rng.choice(ODD)[:200] if c not in "\0\r\n?#\ud7ff") or "0"
        )
        path = "/".join(parts)
    if rng.random() < 0.05:
        method = {"GET": "POST", "POST": "GET"}[method]
    values = {name: value for name, value in changed(fields, rng, ODD).items() if value is not None}
    if method == "POST" and rng.random() < 0.1:
        values |= {
            "files": SimpleUploadedFile(
                rng.choice(["a.csv", "x.parquet", "y.zip", "\u202e"]), rng.choice(FILES)
            )
        }
    return method, path, values


def with_nul(offered):
    """Each of these requests with a NUL character in every name and value, also where a field holds another query."""
    for (method, path), fields in offered:
        yield (
            method,
            path,
            {f"{name}\0": f"{value}\0" for name, value in fields.items()} | {"back": "q=a%00b&%00=1"},
        )


@pytest.mark.long_form
@pytest.mark.timeout(4 * 3600)
def test_no_made_up_request_is_a_500(db, model_folder):
    world = make_world(OWNER)
    world.make_everything()
    client = Client(raise_request_exception=False)
    client.force_login(world.user)
    session = dict(client.cookies)
    offered = asked_by(client, world)
    errors, statuses, faults, slowest = [], Counter(), [], (0.0, "")
    note = lambda sender, **_: errors.append(True)
    got_request_exception.connect(note)
    rng = random.Random(20261125)
    try:
        nul = [*with_nul(offered)][:: 1 if IS_DEEP else 32]
        for case in range(CASES + len(nul)):
            caches["limits"].clear()
            client.cookies.clear()
            client.cookies.update(session)
            method, path, values = nul[case] if case < len(nul) else made_up(rng, offered)
            began = time.perf_counter()
            with transaction.atomic():
                answer = client.get(path, values) if method == "GET" else client.post(path, values)
                if answer.streaming:
                    b"".join(answer.streaming_content)
                transaction.set_rollback(True)
            slowest = max(slowest, (time.perf_counter() - began, f"{method} {path[:100]}"))
            statuses[answer.status_code] += 1
            if answer.status_code >= 500 or errors:
                said = {name: str(value)[:60] for name, value in values.items()}
                faults.append(
                    f"{method} {path[:200]} {said}: {answer.status_code} {answer.exc_info and answer.exc_info[1]!r}"
                )
                errors.clear()
    finally:
        got_request_exception.disconnect(note)

    said = dict(sorted(statuses.items()))
    print(f"{sum(statuses.values())} requests to {len(offered)} addresses: {said}; slowest {slowest}")
    assert faults == []
    assert {200, 302, 404, 422} <= set(statuses)
