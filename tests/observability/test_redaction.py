"""Keys in addresses: shared links, invitations, links for a password, codes of OpenID are in no line of a log."""

import logging
import os
import subprocess
import sys

import httpx
import pytest

from observability import logs
from observability.redaction import Redacting, redacted
from stack.ports import free_port
from tests.waiting import wait_until

KEY = "Zm9vYmFyLXRoaXMtaXMtYS1rZXk"


@pytest.mark.parametrize(
    "address",
    [
        f"/s/{KEY}",
        f"/s/{KEY}.png",
        f"/embed/{KEY}?theme=dark",
        f"/r/{KEY}",
        f"/invitations/{KEY}",
        f"/password/MQ/{KEY}",
        f"/sign-in/openid/callback?state={KEY}&code={KEY}",
        f"https://x.example/s/{KEY} HTTP/1.1",
    ],
)
def test_what_is_a_key_is_hidden(address):
    assert KEY not in redacted(f'GET {address}" 200 "{address}"')


@pytest.mark.parametrize(
    "address", ["/runs/skds10mcng", "/password/forgotten", "/recipes/tiny-scalerl", "/imports/abc"]
)
def test_what_is_no_key_stays(address):
    assert redacted(address) == address


@pytest.mark.parametrize("form", [logs.TextFormatter(), logs.JsonFormatter("web")])
def test_both_forms_of_the_log_hide_it(form):
    record = logging.LogRecord(
        "django.request", logging.WARNING, "", 0, "Not Found: %s", (f"/s/{KEY}",), None
    )

    assert KEY not in form.format(record)


def test_a_filter_hides_it_in_lines_of_others():
    record = logging.LogRecord(
        "gunicorn.access", logging.INFO, "", 0, "%(r)s", ({"r": f"GET /s/{KEY}"},), None
    )

    assert Redacting().filter(record)
    assert record.getMessage() == "GET /s/[hidden]"


def test_the_log_of_the_web_server_has_no_key(tmp_path):
    port = free_port()
    command = [
        sys.executable, "-m", "gunicorn", "tests.stack.wsgi_echo", "--config", "python:observability.gunicorn_conf",
        "--worker-class", "stack.web_worker.Worker", "--bind", f"127.0.0.1:{port}", "--no-control-socket",
    ]  # fmt: skip
    environment = os.environ | {"HEADROOM_HOME": str(tmp_path), "HEADROOM_LOG_FORMAT": "text"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stderr=log, stdout=log)
    try:
        wait_until(lambda: _answers(port), 60)
        httpx.get(
            f"http://127.0.0.1:{port}/s/{KEY}", headers={"Referer": f"https://x/r/{KEY}"}, trust_env=False
        )
        wait_until(lambda: "/s/[hidden]" in (tmp_path / "log").read_text(), 30)
    finally:
        process.terminate()
        process.wait(60)

    assert KEY not in (tmp_path / "log").read_text()


def _answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
