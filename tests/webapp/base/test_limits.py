"""How often something may be asked for: by a person, a token, or from an address."""

import socket
import subprocess
from dataclasses import replace

import pytest
from django.core.cache import caches

from stack.parts import redis_answers, redis_command, redis_url
from tests.members import member
from tests.waiting import wait_until
from webapp.base.requests import Limit, TooMany, spend
from webapp.identity.accounts.services import create_token, default_project
from webapp.interfaces.api import auth
from webapp.interfaces.pages.urls import urlpatterns

DAY = 86_400


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def cache_at(url):
    return {
        "BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": url,
        "OPTIONS": {"socket_connect_timeout": 0.2, "socket_timeout": 0.2},
    }  # fmt: skip


@pytest.fixture
def redis(tmp_path):
    """The address of a real server."""
    port = free_port()
    process = subprocess.Popen(redis_command(tmp_path, port))
    wait_until(lambda: redis_answers(redis_url(port)))
    yield redis_url(port)
    process.terminate()
    process.wait(10)


def test_a_limit_holds_within_its_window_and_says_how_long_to_wait():
    two = Limit(2, 60)
    for _ in range(2):
        spend("search", "ada", two, now=600.0)

    with pytest.raises(TooMany) as refused:
        spend("search", "ada", two, now=610.0)

    assert (refused.value.status, refused.value.wait) == (429, 50)
    assert "try again in 50 s" in refused.value.message
    spend("search", "ben", two, now=610.0)
    spend("export", "ada", two, now=610.0)
    spend("search", "ada", two, now=660.0)


def test_processes_count_together_in_redis(redis, settings):
    settings.CACHES = {**settings.CACHES, "limits": cache_at(redis)}
    spend("search", "ada", Limit(2, 60), now=600.0)
    caches["limits"].incr(":".join(("search", "ada", "60", "10")))  # as another process would

    with pytest.raises(TooMany):
        spend("search", "ada", Limit(2, 60), now=600.0)


def test_without_an_answer_of_redis_each_process_counts_for_itself(settings, caplog):
    settings.CACHES = {**settings.CACHES, "limits": cache_at(f"redis://127.0.0.1:{free_port()}/0")}
    spend("search", "ada", Limit(1, 60), now=600.0)

    with pytest.raises(TooMany):
        spend("search", "ada", Limit(1, 60), now=600.0)

    assert "by each process alone" in caplog.text


def limit_to(count, monkeypatch, name, which="limit"):
    """At most so many requests a day at the route of this name."""
    (view,) = (one.callback for one in urlpatterns if one.name == name)
    monkeypatch.setattr(view, "need", replace(view.need, **{which: Limit(count, DAY)}))


@pytest.mark.django_db
def test_a_search_is_limited_by_person(client, monkeypatch):
    limit_to(2, monkeypatch, "palette")
    client.force_login(member("ada"))
    for _ in range(2):
        assert client.get("/palette?q=a").status_code == 200

    refused = client.get("/palette?q=a")
    by_script = client.get("/palette?q=a", headers={"HX-Request": "true"})

    assert refused.status_code == by_script.status_code == 429
    assert int(refused["Retry-After"]) > 0 and b"Too many requests" in refused.content
    assert by_script["Content-Type"] == "text/plain" and "Content-Security-Policy" in refused
    other = type(client)()
    other.force_login(member("ben"))
    assert other.get("/palette?q=a").status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/s/unknown", "/embed/unknown", "/s/unknown.png", "/r/unknown", "/invitations/unknown"]
)
def test_what_is_open_to_everybody_is_limited_by_address(client, monkeypatch, path):
    for name in ("shared", "embed", "shared-picture", "shared-report", "invitation"):
        limit_to(1, monkeypatch, name)
    first = client.get(path).status_code

    assert first in (200, 404, 410)
    assert client.get(path).status_code == 429
    assert client.get(path, REMOTE_ADDR="192.0.2.7").status_code == first


@pytest.mark.django_db
def test_links_for_a_new_password_are_asked_for_a_few_times_only(client, monkeypatch):
    limit_to(1, monkeypatch, "forgot-password", "limit_of_writes")

    codes = [client.post("/password/forgotten", {"email": "a@lab.example"}).status_code for _ in range(2)]

    assert codes[0] < 400 and codes[1] == 429
    assert client.get("/password/forgotten").status_code == 200


@pytest.mark.django_db
def test_a_program_that_asks_for_much_without_a_pause_is_told_to_wait(client, monkeypatch):
    monkeypatch.setattr(auth.READ_HEAVY, "limit", Limit(1, DAY))
    token = create_token(user=member("ada"), project=default_project(), scope="read")
    headers = {"authorization": f"Bearer {token}"}
    codes = [client.get("/api/v1/leaderboard", headers=headers).status_code for _ in range(2)]

    refused = client.get("/api/v1/leaderboard", headers=headers)

    assert codes == [200, 429]
    assert refused.json()["error"]["code"] == "too_many_requests" and int(refused["Retry-After"]) > 0
    assert client.get("/api/v1/recipes", headers=headers).status_code == 200
