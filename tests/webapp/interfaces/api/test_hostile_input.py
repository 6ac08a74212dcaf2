"""No input makes a 500: odd values in every place that takes one, through every address that OpenAPI describes."""

import itertools
import json

import pytest
from django.core.cache import caches

from tests.deep import IS_DEEP
from tests.fake_model import make_model
from webapp.record.recipes.services import sync_shipped_recipes

ODD_TEXTS = [
    "",
    " ",
    "\0",
    "%00",
    "'",
    '"; DROP TABLE',
    "é" * 300,
    "x" * 3000,
    "../..",
    "-1",
    "1e999",
    "nan",
    "\ud7ff",
]
ODD_JSON = [
    None, True, -1, 2**63, 2**31, 1.5, 1e308, "", "\0", "x" * 5000, [], [[]], {}, {"": None}, {"a": {"b": ["\0"]}},
]  # fmt: skip


def addresses(client):
    return client.get("openapi.json").json()["paths"]


def share(turn):
    """Of the odd texts: in the short form every address gets one, and every text goes to some addresses."""
    return ODD_TEXTS if IS_DEEP else [ODD_TEXTS[turn % len(ODD_TEXTS)]]


@pytest.mark.long_form
def test_odd_texts_in_addresses_and_queries(client_with, tracked, problem):
    client = client_with("launch")
    statuses = set()
    for turn, (path, operations) in enumerate(addresses(client).items()):
        if "get" not in operations:
            continue
        names = [p["name"] for p in operations["get"].get("parameters", []) if p["in"] == "query"]
        good = path.removeprefix("/api/v1/").replace("{run_id}", tracked.pk).replace("{slug}", "tiny-scalerl")
        for text in share(turn):
            caches["limits"].clear()  # of exports thirty a minute are allowed
            response = client.get(path.removeprefix("/api/v1/").replace("{", "").replace("}", text or "0"))
            statuses.add(response.status_code)
            for name in names:
                response = client.get(good.replace("{fit_id}", "1"), **{name: text})
                statuses.add(response.status_code)
                if response.status_code >= 400:
                    assert problem(response)

    assert statuses <= {200, 204, 404, 422}


@pytest.mark.parametrize(
    "path",
    [
        "runs",
        "recipes",
        "recipes/scalerl/revisions",
        "runs/{run}/start",
        "runs/{run}/describe",
        "runs/{run}/finish",
    ],
)
def test_odd_values_in_bodies(client_with, tracked, launch_body, problem, path):
    client = client_with("launch")
    good = {
        "runs": launch_body | {"name": "n", "revision": 1},
        "recipes": {"slug": "s", "name": "n", "config": {}, "description": "", "message": ""},
        "recipes/scalerl/revisions": {"config": {}, "message": ""},
        "runs/{run}/start": {"attempt": 1, "resumed_from_step": 1, "device": "cpu"},
        "runs/{run}/describe": {"name": "n", "tags": ["t"], "config": {"a": 1}},
        "runs/{run}/finish": {"attempt": 1, "state": "failed", "message": ""},
    }[path]
    address = path.replace("{run}", tracked.pk)
    statuses = {}
    for name, value in itertools.product(good, ODD_JSON):
        response = client.post(address, good | {name: value})
        statuses.setdefault(response.status_code, (name, value))
        if response.status_code >= 400:
            assert problem(response)
    for value in ODD_JSON:
        response = client.post(address, json.dumps(value).encode())
        statuses.setdefault(response.status_code, value)

    assert set(statuses) <= {200, 201, 400, 404, 409, 422}, statuses


def test_odd_values_in_tracked_runs_and_records(writer, tracked, record, problem):
    good = {
        "tracked": True,
        "name": "n",
        "task": "t",
        "model": "m",
        "config": {},
        "recipe": "scalerl",
        "seed": 0,
    }
    for name, value in itertools.product(good, ODD_JSON):
        assert writer.post("runs", good | {name: value}).status_code in {201, 400, 403, 422}, (name, value)
    whole = record(0, {"a": 1.0})
    for i, (name, value) in enumerate(itertools.product(whole, ODD_JSON)):
        response = writer.post(
            f"runs/{tracked.pk}/records", {"records": [whole | {"seq": 10 + i} | {name: value}]}
        )
        assert response.status_code in {200, 400, 409, 422}, (name, value, response.content)


@pytest.mark.parametrize("path", ["imports", "imports/preview", "imports/x/resume"])
@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=b"]
)
def test_forms_that_are_none(writer, problem, path, kind):
    for body in (b"", b"--b", b'--b\r\nContent-Disposition: form-data; name="kind"\r\n\r\nx', b"x" * 100):
        response = writer._client.post(f"/api/v1/{path}", body, content_type=kind)

        assert response.status_code in {400, 404, 422}
        assert problem(response)


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_times_at_the_ends_of_time(writer, tracked, record, problem, time):
    response = writer.post(
        f"runs/{tracked.pk}/records", {"records": [record(0, {"a": 1.0}) | {"time": time}]}
    )

    assert problem(response)[:3] == (422, "invalid_input", "records.0.time")


@pytest.mark.parametrize(
    "value",
    [
        "2001-99-99",
        "2001-12-14t21:59:43.10-25:00",
        "[" * 5000,
        "9" * 5000,
        "0x" + "f" * 5000,
        "&a [*a]",
        "!!binary x",
        "!!timestamp x",
        "!!bool x",
        "!!int ''",
    ],
)
def test_odd_values_of_a_study(launcher, project, model_folder, problem, value):
    sync_shipped_recipes(project)
    body = {"name": "n", "recipe": "tiny-scalerl", "changes": [f"loss.epochs={value}"], "seeds": [0]}
    response = launcher.post(
        "studies", body | {"task": "arithmetic", "model": "tiny-arithmetic", "budget_hours": 0.1}
    )

    assert response.status_code in {400, 422}, response.content
    assert problem(response)


def test_odd_values_in_predictions(writer, tracked, problem):
    good = {
        "run": tracked.pk, "question": {"x": "step", "metric": "eval/pass_rate", "form": "power", "cutoff": 1.0},
        "statement": "pass_rate", "target": 16.0, "level": 0.9, "value": 0.6, "lo": 0.5, "hi": 0.7, "rival": None,
        "probability": None, "reasons": "So.", "replaces": None,
    }  # fmt: skip
    question = good["question"] | {"window_lo": 0.1, "robust": True}
    bodies = [good | {name: value} for name, value in itertools.product(good, ODD_JSON)]
    bodies += [
        good | {"question": question | {name: value}} for name, value in itertools.product(question, ODD_JSON)
    ]
    for body in bodies:
        response = writer.post("predictions", body)
        assert response.status_code in {400, 404, 409, 422}, (body, response.content)
        assert problem(response)


def test_a_model_by_path_says_the_same_whether_it_is_there_or_not(launcher, launch_body, problem, tmp_path):
    make_model(tmp_path, "outside", 4096)
    said = {
        problem(launcher.post("runs", launch_body | {"model": model}))[:3]
        for model in (str(tmp_path / "models" / "outside"), "/etc", "/not/there")
    }

    assert said == {(422, "invalid_input", "model")}
