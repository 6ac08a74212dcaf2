"""`manage.py check --deploy` in the environment of a deployment finds nothing; without it local http stays usable."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DEPLOYMENT = {
    "HEADROOM_HTTPS": "1",
    "HEADROOM_SECRET_KEY": "k3y-" * 16 + "of-a-deployment",
    "HEADROOM_ALLOWED_HOSTS": "headroom.example.com",
    "HEADROOM_TRUSTED_ORIGINS": "https://headroom.example.com",
}


def run(home, code, **environment):
    """A new process with only this environment of ours."""
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("HEADROOM_", "DJANGO_"))
    }
    settings = {"DJANGO_SETTINGS_MODULE": "webapp.settings", "HEADROOM_HOME": str(home)}
    return subprocess.run(
        [sys.executable, *code],
        cwd=ROOT,
        env=ours | settings | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


START = """
import sys
import django
django.setup()
from django.core.management import call_command
from django.test import Client
"""
CHECK = 'call_command("check", deploy=True, fail_level="WARNING")'
ASK = """
client = Client(headers={"host": sys.argv[1]})
for secure in (False, True):
    answer = client.get("/sign-in", secure=secure)
    print(answer.status_code, answer.headers.get("Strict-Transport-Security"), answer.headers.get("Location"))
    cookies = answer.cookies.values()
    print(sorted((c.key, bool(c["secure"]), bool(c["httponly"]), c["samesite"]) for c in cookies))
    print(client.get("/api/v1/runs").status_code)
"""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """What Django's checks and requests of the sign-in page say in one process of a deployment."""
    home = tmp_path_factory.mktemp("deployment")
    return run(home, ["-c", START + CHECK + ASK, "headroom.example.com"], **DEPLOYMENT)


def test_a_deployment_passes_djangos_checks(deployed):
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    assert "no issues" in deployed.stdout


def test_the_checks_do_find_what_is_not_safe(tmp_path):
    done = run(tmp_path, ["manage.py", "check", "--deploy", "--fail-level", "WARNING"])
    assert done.returncode != 0
    for found in ("security.W004", "security.W008", "security.W012", "security.W016"):
        assert found in done.stdout + done.stderr


def test_with_https_pages_are_led_there_and_cookies_stay_there(deployed):
    assert deployed.returncode == 0, deployed.stderr
    lines = deployed.stdout.splitlines()[1:]  # the first is of the checks
    plain, secure = lines[:3], lines[3:]
    assert plain[0].startswith("301 None https://headroom.example.com/sign-in")
    assert plain[2] == "401"  # the API inside the cluster: refused for its token, not led away
    assert secure[0] == "200 max-age=31536000; includeSubDomains None"
    assert "('csrftoken', True," in secure[1]


@pytest.mark.deep
def test_without_https_the_pages_answer_on_http(tmp_path):
    done = run(tmp_path, ["-c", START + ASK, "localhost"])
    assert done.stdout.startswith("200 None None\n"), done.stderr
    assert "('csrftoken', False," in done.stdout
