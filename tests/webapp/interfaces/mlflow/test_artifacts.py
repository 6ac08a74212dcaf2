"""/api/2.0/mlflow-artifacts: files of runs and of models that MLflow's clients log."""

import json

import pytest

from tests.webapp.interfaces.mlflow.conftest import Mlflow
from webapp.record.artifacts.models import Artifact
from webapp.record.samples.models import SampleFile
from webapp.record.samples.selectors import rows_of

ROOT = "/api/2.0/mlflow-artifacts/artifacts"


def put(client, address, content=b"x"):
    return client._client.put(f"{ROOT}/{address}", content, content_type="text/plain")


def listed(client, address):
    answer = client._client.get(ROOT, {"path": address})
    assert answer.status_code == 200, answer.content
    return answer.json()["files"]


def content(client, address):
    answer = client._client.get(f"{ROOT}/{address}")
    assert answer.status_code == 200, answer.content
    assert (
        answer["Content-Disposition"].startswith("attachment")
        and answer["Content-Type"] == "application/octet-stream"
    )
    return b"".join(answer.streaming_content)


@pytest.fixture
def run_id(mlflow):
    return mlflow.new_run()


@pytest.fixture
def address(mlflow, run_id):
    """What the client makes of the run's artifact_uri."""
    uri = mlflow.run(run_id)["info"]["artifact_uri"]
    assert uri == f"mlflow-artifacts:/0/{run_id}/artifacts"
    return uri.removeprefix("mlflow-artifacts:/")


def test_files_come_back_as_they_went(mlflow, reader, run_id, address):
    assert put(mlflow, f"{address}/plots/a b%25step.html", b"<script>").json() == {}
    put(mlflow, f"{address}/plots/more/c.bin", bytes(range(256)))
    put(mlflow, f"{address}/top.txt", b"")

    assert content(reader, f"{address}/plots/a b%25step.html") == b"<script>"
    assert content(reader, f"{address}/plots/more/c.bin") == bytes(range(256))
    assert listed(reader, address) == [
        {"path": "plots", "is_dir": True}, {"path": "top.txt", "is_dir": False, "file_size": 0},
    ]  # fmt: skip
    assert listed(reader, f"{address}/plots") == [
        {"path": "a b%step.html", "is_dir": False, "file_size": 8}, {"path": "more", "is_dir": True},
    ]  # fmt: skip
    assert listed(reader, f"{address}/top.txt") == listed(reader, f"{address}/nothing") == []
    assert reader.get("artifacts/list", run_id=run_id, path="plots").json() == {
        "root_uri": f"mlflow-artifacts:/{address}",
        "files": [
            {"path": "plots/a b%step.html", "is_dir": False, "file_size": 8},
            {"path": "plots/more", "is_dir": True},
        ],
    }


def test_a_file_is_replaced_and_a_folder_deleted(mlflow, address):
    for name in ("a/1", "a/2", "b"):
        put(mlflow, f"{address}/{name}", b"old")
    put(mlflow, f"{address}/b", b"new")

    assert mlflow._client.delete(f"{ROOT}/{address}/a").json() == {}

    assert [file["path"] for file in listed(mlflow, address)] == ["b"]
    assert content(mlflow, f"{address}/b") == b"new"


def test_files_of_a_model_lie_with_its_run_and_it_is_found_by_name(mlflow, reader, run_id):
    made = mlflow.ok("logged-models", experiment_id="0", name="policy", source_run_id=run_id)["model"]["info"]
    mlflow.ok("logged-models", experiment_id="0", name="other", source_run_id=run_id)
    address = made["artifact_uri"].removeprefix("mlflow-artifacts:/")

    put(mlflow, f"{address}/MLmodel", b"flavors: {}")

    assert content(reader, f"{address}/MLmodel") == b"flavors: {}"
    assert [one.path for one in Artifact.objects.all()] == [f"models/{made['model_id']}/MLmodel"]
    found = reader.post("logged-models/search", experiment_ids=["0"], filter="name = 'policy'").json()[
        "models"
    ]
    assert [(one["info"]["model_id"], one["info"]["source_run_id"]) for one in found] == [
        (made["model_id"], run_id)
    ]
    every = reader.post("logged-models/search", experiment_ids=["0"]).json()["models"]
    assert {one["info"]["name"] for one in every} == {"policy", "other"}
    assert reader.post("logged-models/search", experiment_ids=["77"]).json() == {"models": []}


def test_who_may(mlflow, reader, foreign, refusal, address):
    put(mlflow, f"{address}/a")

    for method in ("get", "put", "delete"):
        ask = lambda client, method=method: getattr(client._client, method)(f"{ROOT}/{address}/a")
        assert refusal(ask(Mlflow()))[:2] == (401, "UNAUTHENTICATED")
        assert refusal(ask(foreign))[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
        if method != "get":
            assert refusal(ask(reader))[:2] == (403, "PERMISSION_DENIED")
    assert refusal(Mlflow()._client.get(ROOT, {"path": address}))[0] == 401
    assert refusal(foreign._client.get(ROOT, {"path": address}))[0] == 404
    assert content(reader, f"{address}/a") == b"x"


def test_what_is_wrong_is_said_in_mlflows_form(mlflow, refusal, run_id, address, settings):
    settings.ARTIFACT_MAX_BYTES = 10

    status, code, message = refusal(put(mlflow, f"{address}/big", b"x" * 11))
    assert (status, code) == (400, "INVALID_PARAMETER_VALUE") and "HEADROOM_ARTIFACT_MAX_BYTES" in message
    assert refusal(put(mlflow, f"{address}/a%1B"))[:2] == (400, "INVALID_PARAMETER_VALUE")
    assert refusal(put(mlflow, f"{address}/a/%2e%2e/%2e%2e/b"))[0] in (400, 404)
    for wrong in (
        "elsewhere",
        f"0/{'0' * 32}/artifacts/a",
        f"0/models/m-{'0' * 32}-1/artifacts/a",
        f"{address}/none",
    ):
        assert refusal(mlflow._client.get(f"{ROOT}/{wrong}"))[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
    assert refusal(mlflow._client.post(f"{ROOT}/{address}/a"))[0] == 405
    assert refusal(mlflow._client.delete(ROOT))[0] == 405
    for path in ("mpu/create/x", "mpu/a%0Ab"):
        assert refusal(mlflow._client.post(f"/api/2.0/mlflow-artifacts/{path}"))[1] == "ENDPOINT_NOT_FOUND"
    mlflow.ok("runs/delete", run_id=run_id)
    assert "active" in refusal(put(mlflow, f"{address}/a"))[2]


def test_an_empty_file_is_a_file(mlflow, address):
    put(mlflow, f"{address}/empty", b"")

    assert content(mlflow, f"{address}/empty") == b""


def test_a_table_of_responses_is_samples_of_the_newest_step(mlflow, run_id, address):
    mlflow.post("runs/log-metric", run_id=run_id, key="loss", value=1, step=40, timestamp=1)
    table = {"columns": ["inputs", "outputs", "note"], "data": [["1 + 1 =", "2", "n"]]}

    put(mlflow, f"{address}/eval_results_table.json", json.dumps(table).encode())
    put(mlflow, f"{address}/numbers.json", b'{"columns": ["x"], "data": [[1]]}')

    (file,) = SampleFile.objects.all()
    assert (file.kind, file.step, file.rows, file.run.artifacts.count()) == ("eval", 40, 1, 2)


def started(client, trace_id="tr-0a", metadata=None, **info):
    info = {"trace_id": trace_id, "trace_metadata": metadata, "tags": {"a": "b"}} | info
    return client._client.post(
        "/api/3.0/mlflow/traces", {"trace": {"trace_info": info}}, content_type="application/json"
    )


def test_a_trace_of_a_run_is_a_sample_of_the_newest_step(mlflow, run_id):
    mlflow.post("runs/log-metric", run_id=run_id, key="loss", value=1, step=40, timestamp=1)
    for trace_id, answer in (("tr-0a", "2"), ("tr-0b", "3"), ("tr-0b", "4")):
        info = started(mlflow, trace_id, {"mlflow.sourceRun": run_id}).json()["trace"]["trace_info"]
        assert (info["trace_id"], info["tags"]["a"]) == (trace_id, "b")
        place = info["tags"]["mlflow.artifactLocation"].removeprefix("mlflow-artifacts:/")
        said = {
            "mlflow.spanInputs": '{"question": "1 + 1 ="}',
            "mlflow.spanOutputs": f'{{"output": "{answer}"}}',
        }
        spans = json.dumps({"spans": [{"parent_span_id": None, "attributes": said}]})
        put(mlflow, f"{place}/traces.json", spans.encode())

    (file,) = SampleFile.objects.all()
    rows, _ = rows_of(file)
    assert (file.kind, file.step) == ("train", 40)
    assert [(row["prompt"], row["response"], row["part"]) for row in rows] == [
        ("1 + 1 =", "2", "tr-0a"), ("1 + 1 =", "4", "tr-0b"),
    ]  # fmt: skip


def test_a_trace_that_has_no_place_is_refused(mlflow, reader, foreign, run_id, refusal):
    own = {"mlflow.sourceRun": run_id}

    assert refusal(started(mlflow, metadata={}))[2] == (
        "Headroom keeps traces of runs alone: begin with mlflow.start_run."
    )
    for answer in (
        started(mlflow, metadata=None),
        started(mlflow, "tr-../../x", own),
        started(mlflow, metadata={"mlflow.sourceRun": 7}),
        mlflow._client.post("/api/3.0/mlflow/traces", {"trace": [1]}, content_type="application/json"),
    ):
        assert refusal(answer)[:2] == (400, "INVALID_PARAMETER_VALUE")
    assert refusal(started(foreign, metadata=own))[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
    assert refusal(started(reader, metadata=own))[:2] == (403, "PERMISSION_DENIED")
