"""The OpenAPI document: every operation is asked for real, and what it answers is held to what the document says.

WRITE_API_EXAMPLES=1 pytest tests/webapp/interfaces/api/test_openapi.py writes the answers to
webapp/interfaces/api/examples.json: do so after an endpoint was added or has changed its shape.
"""

import json
import os
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client
from jsonschema import Draft202012Validator

from tests.checkpoints import whole_checkpoint
from tests.launching import launched, tracked_run
from tests.webapp.permissions import tables
from tests.webapp.permissions.world import make_world, trained
from training.records import Record
from webapp.identity.accounts.services import create_token
from webapp.interfaces.api.api import api
from webapp.interfaces.api.openapi import EXAMPLES_FILE, examples
from webapp.interfaces.imports.reading import take_turn
from webapp.record.evaluations.models import Evaluation
from webapp.record.evaluations.services import EvaluationRequest, ask_for
from webapp.record.runs import editing, ingest, lifecycle
from webapp.record.runs.models import Run
from webapp.science.studies.planning import StudyRequest
from webapp.science.studies.services import create_study

PREFIX = "/api/v1"
RECORD = {
    "attempt": 1, "seq": 4000, "step": 4000, "time": "2026-11-21T10:30:00+00:00",
    "compute": {"device_hours": 9.5, "flops": 9.5e15, "tokens": 9.5e6},
    "metrics": {"train/reward": 0.41, "eval/pass_rate": 0.57, "eval/pass_rate_stderr": 0.006},
}  # fmt: skip
# What tables.API_BODIES says so that a role is let in; here it has to be understood, too.
BODIES = {
    ("POST", "/runs"): lambda world: {
        "tracked": True, "name": "elsewhere", "task": "arithmetic", "model": "org/qwen-8b", "config": {"lr": 1e-6},
    },
    ("POST", "/runs/{run_id}/start"): lambda world: {"attempt": 1, "device": "8 x H200"},
    ("POST", "/runs/{run_id}/describe"): lambda world: {
        "name": "grpo, seed 3", "tags": ["paper"], "config": {"warmup": 20},
    },
    ("POST", "/runs/{run_id}/finish"): lambda world: {"attempt": 1, "state": "succeeded", "message": "All steps done."},
    ("POST", "/runs/{run_id}/extend"): lambda world: {"budget_hours": 32.0},
    ("POST", "/runs/{run_id}/meaning"): lambda world: {"pass_rate": "val/accuracy", "n_prompts": 500, "devices": 8.0},
    ("POST", "/runs/{run_id}/meaning/preview"): lambda world: {"pass_rate": "val/accuracy", "n_prompts": 500},
    ("PATCH", "/runs/{run_id}"): lambda world: {"name": "grpo 8b, seed 2", "seed": 2, "meaning": {"devices": 8.0}},
    ("POST", "/runs/bulk"): lambda world: {"action": "tag", "runs": [world.run.pk], "tag": "paper"},
    ("PUT", "/runs/{run_id}/artifacts/{path}"): lambda world: "2 + 2 = 4",
    ("PUT", "/runs/{run_id}/samples/{kind}/{step}"): lambda world: json.dumps(
        {"prompt_id": "sum-1", "prompt": "2 + 2 =", "response": "4", "reward": 1.0, "correct": True}
    ),
    ("POST", "/runs/{run_id}/refused"): lambda world: {
        "attempt": 1, "refused_records": 2, "refused_values": 1, "reason": "records.3.step is beyond 64 bits.",
    },
    ("POST", "/runs/{run_id}/records"): lambda world: {"records": [RECORD]},
    ("POST", "/recipes"): lambda world: {"slug": "my-recipe", "name": "My recipe", "config": _config(world)},
    ("POST", "/recipes/{slug}/revisions"): lambda world: {"config": _config(world), "message": "A smaller step."},
    ("POST", "/studies"): lambda world: {
        "name": "What matters", "recipe": "tiny-scalerl", "changes": ["loss=dapo"], "seeds": [7],
    },
    ("POST", "/predictions"): lambda world: {
        "run": world.run.pk, "statement": "pass_rate", "target": 16.0, "reasons": "The bend is behind us.",
    },
    ("POST", "/decisions"): lambda world: {
        "kind": "continue", "about": "run", "object_id": world.run.pk, "reason": "It still climbs.",
    },
}  # fmt: skip
TABLE = b"step,eval/pass_rate,gpu_hours\n1,0.1,0.5\n2,0.2,1.0\n3,0.3,1.5\n"
FORMS: dict = {
    ("POST", "/imports"): {"kind": "csv", "options": json.dumps({"task": "math"}), "files": ["grpo.csv"]},
    ("POST", "/imports/preview"): {"kind": "csv", "files": ["grpo.csv"]},
    ("POST", "/imports/{import_id}/resume"): {"files": ["grpo.csv"]},
}
QUERIES = {
    ("GET", "/curves"): lambda world: f"?run={world.run.pk}&column=compute&column=value",
    ("GET", "/series"): lambda world: f"?run={world.run.pk}&metric=eval/pass_rate&points=10",
    ("GET", "/runs/{run_id}/timeline"): lambda world: "?steps=10",
    ("GET", "/panels"): lambda world: f"?run={world.run.pk}&metric=train/*",
    ("GET", "/compare"): lambda world: f"?run={world.run.pk}&budget=16",
    ("GET", "/runs"): lambda world: "?filter=state:running",
    ("GET", "/studies/{study_id}"): lambda world: "?axis_value=1024",
    ("GET", "/runs/{run_id}/series"): lambda world: "?metric=eval/pass_rate&points=10",
    ("GET", "/leaderboard"): lambda world: "?published=false&budget=16",
    ("GET", "/runs/{run_id}/samples/{kind}/history"): lambda world: "?prompt_id=sum-1",
}
CUT = {"config", "frozen", "rival_frozen", "results", "points", "fit", "view", "ceiling", "answers", "how"}


def _config(world):
    config = world.project.recipes.get(slug="tiny-scalerl").revisions.first().config
    return config | {"optimizer": config["optimizer"] | {"lr": 2e-4}}


def _queued(world):
    return world.queued_run(seed=11).pk


def _failed(world):
    run = world.queued_run(seed=12)
    lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")
    return lifecycle.report_finished(run, attempt=1, state="failed", message="It ran out of memory.").pk


def _draft(world):
    return launched(
        user=world.author, project=world.project, recipe="tiny-scalerl", task="arithmetic", model="tiny-arithmetic",
        seed=13, budget_hours=16.0, draft=True,
    ).pk  # fmt: skip


def _with_checkpoint(world):
    whole_checkpoint(world.run.pk, 8)
    return world.run.pk


def _measured(world):
    _with_checkpoint(world)
    one, _ = ask_for(world.run, EvaluationRequest(task="arithmetic", limit=100), user=world.author)
    result = {"pass_rate": 0.41, "pass_rate_stderr": 0.012, "n_prompts": 100, "contamination": 0.0}
    Evaluation.objects.filter(pk=one.pk).update(state="succeeded", result=result)
    return world.run.pk


def _ended(world):
    return lifecycle.report_finished(Run.objects.get(pk=_tracked(world)), attempt=1, state="succeeded").pk


def _deleted(world):
    return editing.delete_run(Run.objects.get(pk=_ended(world)), user=world.author).pk


def _tracked(world):
    run = tracked_run(user=world.author, project=world.project, name="elsewhere")
    metrics = {"metrics": {"val/accuracy": 0.57}}
    ingest.store_records(run, [Record.model_validate(RECORD | metrics)])
    return run.pk


RUNS = {
    ("POST", "/runs/{run_id}/describe"): _tracked,
    ("POST", "/runs/{run_id}/meaning"): _tracked,
    ("POST", "/runs/{run_id}/meaning/preview"): _tracked,
    ("POST", "/runs/{run_id}/priority"): _queued,
    ("POST", "/runs/{run_id}/evaluations"): _with_checkpoint,
    ("GET", "/runs/{run_id}/evaluations"): _measured,
    ("POST", "/runs/{run_id}/resume"): _failed,
    ("POST", "/runs/{run_id}/launch"): _draft,
    ("PATCH", "/runs/{run_id}"): _tracked,
    ("DELETE", "/runs/{run_id}"): _ended,
    ("POST", "/runs/{run_id}/restore"): _deleted,
}


def _axis_study(world):
    asked = StudyRequest(
        name="Batch", kind="axis", recipe="tiny-scalerl", revision=None, changes=("batch=128", "batch=512"),
        seeds=(21,), task="arithmetic", model="tiny-arithmetic", budget_hours=16.0,
    )  # fmt: skip
    study = create_study(asked, user=world.author, project=world.project).study
    for place in study.members.select_related("run"):
        trained(place.run, 8)
    return study.pk


STUDIES = {("GET", "/studies/{study_id}"): _axis_study}


@pytest.fixture
def document(db):
    return api.get_openapi_schema(path_prefix="")


def operations(document):
    for path, found in document["paths"].items():
        for method, operation in found.items():
            yield (method.upper(), path), operation


def name_of(operation):
    return operation["operationId"].removeprefix("webapp_api_")


def broken_import(token):
    client = Client(headers={"Authorization": f"Bearer {token}"})
    broken = SimpleUploadedFile("grpo.csv", TABLE.replace(b"0.2", b"zero"))
    made = client.post(f"{PREFIX}/imports", {"kind": "csv", "files": [broken]}).json()
    take_turn()
    return made["id"]


def ask(endpoint, world, token, query=None):
    """(body that was sent, response); nothing that it changes stays."""
    method, path = endpoint
    with transaction.atomic():
        things = tables.OBJECTS | ({"run_id": RUNS[endpoint]} if endpoint in RUNS else {})
        things |= {"study_id": STUDIES[endpoint]} if endpoint in STUDIES else {}
        if endpoint == ("POST", "/imports/{import_id}/resume"):
            things |= {"import_id": lambda _: broken_import(token)}
        filled = re.sub(r"{(\w+)}", lambda match: str(things[match[1]](world)), path)
        if query is None:
            query = QUERIES.get(endpoint, lambda world: "")(world)
        client = Client(headers={"Authorization": f"Bearer {token}"})
        if endpoint in FORMS:
            body = FORMS[endpoint]
            form = body | {"files": [SimpleUploadedFile("grpo.csv", TABLE)]} if "files" in body else body
            answer = client.post(f"{PREFIX}{filled}{query}", form)
        else:
            body = BODIES[endpoint](world) if endpoint in BODIES else tables.API_BODIES.get(endpoint)
            is_raw = isinstance(body, str)
            sent = body if is_raw else json.dumps(body) if body is not None else ""
            content_type = "application/octet-stream" if is_raw else "application/json"
            answer = client.generic(method, f"{PREFIX}{filled}{query}", sent, content_type=content_type)
        answer.text_given = (
            b"".join(answer.streaming_content) if answer.streaming else answer.content
        ).decode()
        transaction.set_rollback(True)
    return body, answer


def complaints(document, schema, given):
    validator = Draft202012Validator(schema | {"components": document["components"]})
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(given)]


LIKE_A_TIME = re.compile(r'\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\s",]*')
A_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def other_times(text):
    """Every time that is not written as times are."""
    return [each for each in LIKE_A_TIME.findall(text) if not A_TIME.fullmatch(each)]


def short(value, key=""):
    """The same, with the first two items of a list, and of what is deep the first keys."""
    if isinstance(value, list):
        return [short(item) for item in value[:2]]
    if isinstance(value, dict):
        kept = list(value.items())[:6] if key in CUT else list(value.items())
        return {name: short(item, name) for name, item in kept}
    return value[:400] if isinstance(value, str) else value


def told(body, answer):
    content_type = answer.get("Content-Type", "").partition(";")[0]
    if not content_type or answer.status_code == 204:
        found = {}
    elif content_type == "application/json":
        found = {content_type: short(json.loads(answer.text_given))}
    else:
        found = {content_type: "\n".join(answer.text_given.splitlines()[:3])}
    asked = {"request": short(body)} if body is not None else {}
    return asked | {"status": answer.status_code, "responses": found}


def test_every_operation_answers_what_the_document_says(document, model_folder):
    world = make_world("admin")
    world.make_everything()
    token = create_token(user=world.user, project=world.project, scope="launch")
    wrong, recorded = [], {}
    for endpoint, operation in operations(document):
        body, answer = ask(endpoint, world, token)
        said = operation["responses"].get(answer.status_code)
        if said is None or answer.status_code >= 400:
            wrong.append(f"{endpoint}: {answer.status_code} {answer.text_given[:300]}")
            continue
        content_type = answer.get("Content-Type", "").partition(";")[0]
        if content_type == "application/json" and "content" in said:
            schema = said["content"][content_type]["schema"]
            found = complaints(document, schema, json.loads(answer.text_given))
            wrong += [f"{endpoint}: {each}" for each in found]
            wrong += [f"{endpoint}: {each}" for each in other_times(answer.text_given)]
        recorded[name_of(operation)] = told(body, answer)
        for form in operation["responses"][200].get("content", ()) if 200 in operation["responses"] else ():
            wrong += _add_file(form, endpoint, world, token, recorded[name_of(operation)])

    assert wrong == []
    if os.environ.get("WRITE_API_EXAMPLES") == "1":
        EXAMPLES_FILE.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


def _add_file(content_type, endpoint, world, token, known):
    """The answer as this file, put among the examples; what is wrong with it."""
    form = {"text/csv": "csv", "application/jsonl": "jsonl"}.get(content_type)
    if form is None:
        return []
    _, answer = ask(endpoint, world, token, f"?format={form}")
    known["responses"][content_type] = "\n".join(answer.text_given.splitlines()[:3])
    given = answer.get("Content-Type", "").partition(";")[0]
    wrong = other_times(answer.text_given)
    return wrong if given == content_type else [f"{endpoint} as {form}: {given}"]


def test_every_operation_has_an_example_that_fits(document):
    """After a change: WRITE_API_EXAMPLES=1 pytest tests/webapp/interfaces/api/test_openapi.py"""
    wrong = []
    for _, operation in operations(document):
        name, known = name_of(operation), examples().get(name_of(operation))
        if known is None:
            wrong.append(f"{name}: no example")
            continue
        if "requestBody" in operation:
            (content,) = operation["requestBody"]["content"].values()
            wrong += [
                f"{name} takes {each}" for each in complaints(document, content["schema"], content["example"])
            ]
        for content_type, content in operation["responses"][known["status"]].get("content", {}).items():
            if content_type == "application/json":
                wrong += [
                    f"{name} gives {e}" for e in complaints(document, content["schema"], content["example"])
                ]

    assert wrong == []


def test_every_parameter_and_refusal_is_described(document):
    for endpoint, operation in operations(document):
        assert operation["summary"] and operation.get("description"), endpoint
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (endpoint, parameter["name"])
        for status, response in operation["responses"].items():
            assert response["description"], (endpoint, status)
        assert {401, 403} <= set(operation["responses"]), endpoint
        can_be_long = any(each["in"] in ("path", "query") for each in operation.get("parameters", ()))
        assert (414 in operation["responses"]) == can_be_long, endpoint  # the web server's own answer


def test_every_example_is_of_an_operation(document):
    names = {name_of(operation) for _, operation in operations(document)}

    assert set(examples()) - names == set()


def test_the_document_is_itself_valid_and_open_to_everybody(client, db):
    answer = client.get("/api/v1/openapi.json")

    assert answer.status_code == 200
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    text = json.dumps(document)
    for reference in set(re.findall(r'"#/components/schemas/(\w+)"', text)):
        assert reference in document["components"]["schemas"], reference


def test_every_list_that_is_sent_has_a_bound():
    document = api.get_openapi_schema()
    unbounded = [
        f"{method} {path}: {place}"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for place, schema in _lists(operation.get("requestBody", {}), document, "body")
        if "maxItems" not in schema and not place.endswith(".files.anyOf")  # bounded by `uploads.check`
    ]

    assert unbounded == []


def _lists(node, document, place):
    """Every schema of a list in it, with where it stands; free objects (config) have none."""
    if isinstance(node, list):
        for each in node:
            yield from _lists(each, document, place)
    elif isinstance(node, dict):
        if "$ref" in node:
            yield from _lists(
                document["components"]["schemas"][node["$ref"].rsplit("/", 1)[1]], document, place
            )
        if node.get("type") == "array":
            yield place, node
        for name, each in node.items():
            if name not in ("example", "x-options-schema"):
                yield from _lists(each, document, f"{place}.{name}")
