"""Each endpoint of the API x each scope of a token x each role of its owner today, and every token that is dead.

How to add an endpoint stands in tables.py.
"""

import json
import re
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from ninja.testing import TestClient

from tests.webapp.permissions import tables
from tests.webapp.permissions.tables import API_NEEDS
from tests.webapp.permissions.world import ELSEWHERE, OWNER, ROLES, SIGNED_OUT, is_asked, is_edge
from webapp.identity.accounts.models import ApiToken, Membership, Role, Scope
from webapp.identity.accounts.permissions import NEEDED_ROLE, Permission, grants
from webapp.identity.accounts.services import create_token, revoke_token
from webapp.interfaces.api import problems
from webapp.interfaces.api.api import HeadroomApi, api
from webapp.record.runs.models import Run, State
from webapp.record.runs.tokens import create_job_token

PREFIX = "/api/v1"
LEVELS = [Scope.READ, Scope.WRITE, Scope.LAUNCH]
REACHES = {
    Scope.READ: Permission.VIEW, Scope.WRITE: Permission.CONTRIBUTE, Scope.LAUNCH: Permission.LAUNCH,
}  # fmt: skip
LET_IN, UNKNOWN, REFUSED, NOT_THERE = "let in", "401", "403", "404"


def test_every_endpoint_needs_what_its_kind_must():
    """Said independently of the endpoints: one that gives too much away shows here."""

    def least(method, path):
        if method == "GET":
            return Scope.READ
        return Scope.LAUNCH if re.fullmatch(tables.API_SPENDS, f"{method} {path}") else Scope.WRITE

    for endpoint, needs in API_NEEDS.items():
        scope = least(*endpoint)
        permission = tables.API_PERMISSIONS.get(endpoint, REACHES[scope])
        assert (needs.scope, needs.permission) == (scope, permission), endpoint
        reports = bool(re.fullmatch(tables.API_REPORTS, " ".join(endpoint)))
        assert needs.run_token == reports, endpoint


def test_every_argument_of_a_path_has_a_maker():
    arguments = {name for _, path in API_NEEDS for name in re.findall(r"{(\w+)}", path)}

    assert arguments - set(tables.OBJECTS) == set(), "add what stands there to OBJECTS in tables.py"


def ask(client, endpoint, world):
    """In one word what became of a request. Nothing that it changes stays."""
    method, path = endpoint
    filled = re.sub(r"{(\w+)}", lambda match: str(tables.OBJECTS[match[1]](world)), path)
    query = tables.API_QUERIES[endpoint](world) if endpoint in tables.API_QUERIES else ""
    body = json.dumps(tables.API_BODIES.get(endpoint, {})) if method in ("POST", "PUT", "PATCH") else ""
    with transaction.atomic():
        answer = client.generic(method, f"{PREFIX}{filled}{query}", body, content_type="application/json")
        transaction.set_rollback(True)
    known = {401: UNKNOWN, 403: REFUSED, 404: NOT_THERE}
    status = answer.status_code
    return known.get(status, LET_IN if status < 500 else f"error {status}")


def walk(world, token, wanted, of=lambda needs, endpoint: True):
    """Every endpoint that answers this token otherwise than `wanted(needs, endpoint)` says, of those to be asked."""
    client = Client(headers={"Authorization": f"Bearer {token}"} if token else {})
    return [
        f"{' '.join(endpoint)}: {found}, not {wanted(needs, endpoint)}"
        for endpoint, needs in API_NEEDS.items()
        if of(needs, endpoint) and (found := ask(client, endpoint, world)) != wanted(needs, endpoint)
    ]


def reaches(scope, needed):
    return LEVELS.index(scope) >= LEVELS.index(needed)


def token_of(world, scope, project=None):
    """A token of the asking user, made while they were an admin: what counts is the role of today."""
    project = project or world.project
    before = Membership.objects.filter(project=project, user=world.user).first()
    Membership.objects.update_or_create(project=project, user=world.user, defaults={"role": Role.ADMIN})
    token = create_token(user=world.user, project=project, scope=scope)
    now = {"role": before.role} if before else None
    found = Membership.objects.filter(project=project, user=world.user)
    found.update(**now) if now else found.delete()
    return token


def least_role(needs, endpoint):
    """The lowest role whose tokens are let in."""
    return max(
        NEEDED_ROLE[needs.permission].value, tables.API_ROLES.get(endpoint, Role.VIEWER), key=ROLES.index
    )


@pytest.mark.long_form
@pytest.mark.parametrize("who", [*ROLES, OWNER])
def test_a_token_does_what_both_its_scope_and_its_owners_role_allow(towards, who):
    world = towards(who)
    for scope in LEVELS:
        token = token_of(world, scope)

        def wanted(needs, endpoint, scope=scope):
            least = Role(tables.API_ROLES.get(endpoint, Role.VIEWER))
            role = Role(world.role)
            is_enough = grants(role, needs.permission) and ROLES.index(world.role) >= ROLES.index(least)
            return LET_IN if reaches(scope, needs.scope) and is_enough else REFUSED

        def edge(needs, endpoint, scope=scope):
            return is_edge(LEVELS, scope, needs.scope) and is_asked(world.who, least_role(needs, endpoint))

        assert walk(world, token, wanted, edge) == [], scope


def test_a_token_of_another_project_finds_nothing_of_this_one(towards):
    world = towards(ELSEWHERE)
    token = token_of(world, "launch", world.other)

    def wanted(needs, endpoint):
        about = set(re.findall(r"{(\w+)}", endpoint[1])) - tables.EVERYWHERE
        return NOT_THERE if about else LET_IN

    assert walk(world, token, wanted) == []


def test_without_a_living_token_every_endpoint_says_401(towards):
    world = towards("admin")
    revoked, expired = token_of(world, "launch"), token_of(world, "launch")
    first, second = ApiToken.objects.filter(scope="launch").order_by("pk")
    revoke_token(first)
    ApiToken.objects.filter(pk=second.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    left = make_left(world)

    for token in (None, "hr_unknown", revoked, expired, left):
        assert walk(world, token, lambda needs, endpoint: UNKNOWN) == []


def make_left(world):
    """A launch token of somebody who is no member any more."""
    from tests.members import member

    gone = member("gone", project=world.project)
    token = create_token(user=gone, project=world.project, scope="launch")
    Membership.objects.filter(user=gone).delete()
    return token


def test_a_runs_own_token_reports_that_run_and_nothing_else(towards):
    world = towards(SIGNED_OUT)
    own = create_job_token(world.run)
    other = create_job_token(world.queued_run(seed=9))

    assert walk(world, own, lambda needs, endpoint: LET_IN if needs.run_token else REFUSED) == []
    assert walk(world, other, lambda needs, endpoint: NOT_THERE if needs.run_token else REFUSED) == []


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED])
def test_a_runs_own_token_is_dead_an_hour_after_its_run(towards, state):
    world = towards(SIGNED_OUT)
    token = create_job_token(world.run)
    ended(world, state, timedelta(minutes=59))
    assert walk(world, token, lambda needs, endpoint: LET_IN if needs.run_token else REFUSED) == []

    ended(world, state, timedelta(minutes=61))
    assert walk(world, token, lambda needs, endpoint: UNKNOWN) == []


def test_a_lost_runs_token_lives_on(towards):
    world = towards(SIGNED_OUT)
    token = create_job_token(world.run)
    ended(world, State.LOST, timedelta(days=3))

    assert walk(world, token, lambda needs, endpoint: LET_IN if needs.run_token else REFUSED) == []


def ended(world, state, ago):
    Run.objects.filter(pk=world.run.pk).update(state=state, ended_at=timezone.now() - ago)
    world.run.attempts.update(state=state, ended_at=timezone.now() - ago)


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [
        ("launcher", "launch", 201),
        ("contributor", "launch", 403),
        ("launcher", "write", 403),
        ("viewer", "launch", 403),
    ],
)
def test_launching_needs_scope_and_role_though_tracking_needs_less(towards, role, scope, status):
    world = towards(role)
    before = Run.objects.count()
    body = {
        "recipe": "tiny-scalerl", "task": "arithmetic", "model": "tiny-arithmetic", "seed": 1, "budget_hours": 0.5,
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {token_of(world, scope)}"}

    answer = Client(headers=headers).post(f"{PREFIX}/runs", json.dumps(body), content_type="application/json")

    assert answer.status_code == status
    assert Run.objects.count() == before + (1 if status == 201 else 0)


def test_what_a_dead_token_is_told(towards):
    world = towards("admin")

    def told(token):
        headers = {"Authorization": f"Bearer {token}"}
        answer = Client(headers=headers).get(f"{PREFIX}/runs/{world.run.pk}")
        return answer.status_code, answer.json()["error"]["message"]

    token = token_of(world, Scope.READ)
    ApiToken.objects.update(expires_at="2026-01-02T03:04:00Z")
    assert told(token) == (401, "This token expired on 2 January 2026, 03:04 UTC.")
    revoke_token(ApiToken.objects.latest("pk"))
    assert told(token) == (401, "This token was revoked.")
    assert told("hr_x") == (401, "This token is unknown.")
    assert told(make_left(world)) == (401, "The owner of this token is no member of its project any more.")
    job = create_job_token(world.run)
    ended(world, State.FAILED, timedelta(hours=2))
    assert told(job) == (
        401,
        f"This token could only report attempt 1 of run {world.run.pk}, which has ended.",
    )


def test_an_endpoint_that_names_no_scope_is_closed_to_every_token(towards):
    forgetful = HeadroomApi(urls_namespace="forgetful", auth=api.auth)
    problems.install(forgetful)
    forgetful.get("/open")(lambda request: {"secret": 1})
    token = token_of(towards("admin"), "launch")

    answer = TestClient(forgetful).get("/open", headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == 403
    assert "does not say which scope" in answer.json()["error"]["message"]
