"""schemathesis makes up requests by the OpenAPI document: none is answered by a 5xx, or otherwise than documented. All
of its checks are made but NOT_MEANT.

A hundred cases run with the other tests, ten thousand in `make test-deep`; SCHEMATHESIS_CASES says another number.
"""

import math
import os
from collections import Counter

import hypothesis
import pytest
import schemathesis
from django.core.cache import caches
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from schemathesis.checks import CHECKS as ALL_CHECKS
from schemathesis.specs.openapi import checks as openapi_checks

from tests.deep import IS_DEEP
from tests.webapp.permissions import tables
from tests.webapp.permissions.world import make_world
from webapp.identity.accounts.services import create_token
from webapp.wsgi import application

CASES = int(os.environ.get("SCHEMATHESIS_CASES") or (10_000 if IS_DEEP else 100))
# A value may be of its type and still name nothing, or fit nothing: 422 is an answer to data that its schema allows.
# Whether a token opens something, and which methods there are, tests/webapp/permissions walks for every address.
NOT_MEANT = {"positive_data_acceptance"}
CHECKS = [check for check in ALL_CHECKS.get_all() if check.__name__ not in NOT_MEANT]
schemathesis.serializer.alias("application/jsonl", "text/plain")
assert openapi_checks.status_code_conformance in CHECKS  # its import has registered them


@pytest.fixture
def world(db, model_folder):
    world = make_world("admin")
    world.make_everything()
    return world


@pytest.fixture(autouse=True)
def _one_connection():
    """The server closes its connection between requests; here they are all within the test's transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.long_form
@pytest.mark.timeout(4 * 3600)
def test_made_up_requests_are_answered_as_documented(world):
    token = create_token(user=world.user, project=world.project, scope="launch")
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)
    operations = [found.ok() for found in schema.get_all_operations()]
    has_choice = [one for one in operations if one.definition.raw.keys() & {"parameters", "requestBody"}]
    each = math.ceil(CASES / len(has_choice))
    statuses, wrong = Counter(), []
    for operation in operations:
        try:
            _try(operation, each, world, {"Authorization": f"Bearer {token}"}, statuses)
        except Exception as error:  # the example at fault stands in it
            wrong.append(f"{operation.label}: {error}"[:3000])

    print(f"{sum(statuses.values())} cases: {dict(sorted(statuses.items()))}")
    assert wrong == []
    assert sum(statuses.values()) >= 0.9 * CASES
    assert {200, 201, 422, 404} <= set(statuses)


def _try(operation, cases, world, headers, statuses):
    """Ask for one operation so often. Half of the cases are about things that exist; nothing that they change stays."""

    @hypothesis.settings(
        max_examples=cases, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck), derandomize=CASES < 1000,
    )  # fmt: skip
    @given(case=operation.as_strategy(), is_real=st.booleans())
    def ask(case, is_real):
        if is_real:
            for name in case.path_parameters or {}:
                case.path_parameters[name] = str(tables.OBJECTS[name](world))
        caches["limits"].clear()
        with transaction.atomic():
            response = case.call(headers=headers)
            transaction.set_rollback(True)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS, headers=headers)

    ask()
