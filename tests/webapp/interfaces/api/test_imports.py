"""/api/v1/imports: multipart in, an import that a worker reads, errors in our form."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from webapp.identity.accounts.services import create_token
from webapp.interfaces.imports import uploads
from webapp.interfaces.imports.models import Import
from webapp.interfaces.imports.reading import take_turn
from webapp.record.runs.models import Record, Run

CSV = b"step,eval/pass_rate,gpu_hours\n1,0.1,0.5\n2,0.2,1.0\n3,0.3,1.5\n"
MENDED = CSV
BROKEN = b"step,eval/pass_rate,gpu_hours\n1,0.1,0.5\n2,zero,1.0\n3,0.3,1.5\n"


def file(content=CSV, name="grpo.csv"):
    return SimpleUploadedFile(name, content)


@pytest.fixture
def send(user, project):
    """send("imports", kind="csv", files=[...]): a form with the token of the scope write."""
    token = create_token(user=user, project=project, scope="write")

    def post(path="imports", **form):
        client = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {token}"})
        return client.post(f"/api/v1/{path}", form)

    return post


def test_a_table_is_imported_and_followed_to_its_end(send, reader, user):
    answer = send(kind="csv", files=[file()], options=json.dumps({"task": "math", "model": "8b"}))

    assert answer.status_code == 201
    made = answer.json()
    assert (made["kind"], made["state"], made["file_name"], made["size"]) == (
        "csv",
        "waiting",
        "grpo.csv",
        len(CSV),
    )
    assert len(made["digest"]) == 64 and made["created_by"] == "ada" and made["runs"] == []
    assert made["options"]["columns"] == {
        "step": "step", "pass_rate": "eval/pass_rate", "device_hours": "gpu_hours",
    }  # fmt: skip

    take_turn()

    found = reader.get(f"imports/{made['id']}").json()
    assert (found["state"], found["rows_read"], found["rows_stored"], found["runs_made"]) == (
        "finished",
        3,
        3,
        1,
    )
    assert found["broken"] is None and not found["can_resume"]
    (run,) = found["runs"]
    assert (run["name"], run["state"], run["rows_stored"]) == ("grpo", "succeeded", 3)
    records = reader.get(f"runs/{run['run']}/records").json()["items"]
    assert [record["compute"]["device_hours"] for record in records] == [0.5, 1.0, 1.5]
    assert [record["metrics"]["eval/pass_rate"] for record in records] == [0.1, 0.2, 0.3]
    assert reader.get("imports").json()["items"][0]["id"] == made["id"]


def test_the_kind_is_found_out_where_it_is_not_said(send):
    assert send(files=[file()]).json()["kind"] == "csv"


def test_a_broken_file_names_its_line_and_is_resumed_with_a_mended_one(send, reader):
    made = send(kind="csv", files=[file(BROKEN)]).json()
    take_turn()

    found = reader.get(f"imports/{made['id']}").json()
    assert (found["state"], found["can_resume"]) == ("partial", True)
    assert (found["broken"]["file"], found["broken"]["line"]) == ("grpo.csv", 3)
    assert found["runs"][0]["is_broken"] and Record.objects.count() == 1

    answer = send(f"imports/{made['id']}/resume", files=[file(MENDED)])
    assert (answer.status_code, answer.json()["state"]) == (200, "waiting")
    take_turn()
    found = reader.get(f"imports/{made['id']}").json()
    assert (found["state"], found["rows_stored"]) == ("finished", 3)
    assert Record.objects.count() == 3 and Run.objects.count() == 1


def test_what_has_finished_is_not_resumed(send, problem):
    made = send(kind="csv", files=[file()]).json()
    take_turn()

    assert problem(send(f"imports/{made['id']}/resume", files=[file()]))[:2] == (409, "conflict")


def test_an_imported_run_is_put_right_and_comes_back_within_a_day(send, writer, launcher, reader):
    send(files=[file(b"step,acc,used\n1,10,2\n2,20,4\n")], options=json.dumps({"columns": {"step": "step"}}))
    take_turn()
    path = f"runs/{Run.objects.get().pk}"
    meaning = {"pass_rate": "acc", "percent": True, "device_hours": "used"}
    said = {
        "name": "grpo 8b",
        "task": "code",
        "model": "8b",
        "seed": 7,
        "tags": ["paper"],
        "notes": "Node 3.",
    }

    shown = writer.post(f"{path}/meaning/preview", meaning).json()["points"]
    changed = writer.request("PATCH", path, said | {"meaning": meaning}).json()

    assert [(point["compute"], point["value"]) for point in shown] == [(2, 0.1), (4, 0.2)]
    assert changed == changed | said and reader.get(path).json()["meaning"] == meaning
    assert reader.get(f"{path}/curve").json()["points"] == shown
    assert launcher.request("DELETE", path).status_code == 204
    assert launcher.post(f"{path}/restore").json()["name"] == "grpo 8b"
    assert reader.get(f"{path}/curve").json()["points"] == shown


def test_a_preview_keeps_nothing(send):
    answer = send("imports/preview", files=[file()]).json()

    assert (answer["kind"], answer["columns"]) == ("csv", ["step", "eval/pass_rate", "gpu_hours"])
    assert answer["rows"][0] == ["1", "0.1", "0.5"]
    assert answer["guess"]["columns"]["pass_rate"] == "eval/pass_rate"
    assert not Import.objects.exists()
    assert not list(uploads.incoming_folder().iterdir())


@pytest.mark.parametrize(
    ("form", "status", "field"),
    [
        ({}, 422, "files"),
        ({"kind": "excel", "files": [file()]}, 422, "kind"),
        ({"files": [file(b"\x89PNG", "notes.png")]}, 422, "kind"),
        ({"kind": "csv", "files": [file(b"")]}, 422, "files"),
        ({"kind": "csv", "files": [file(), file()]}, 422, "files"),
        ({"kind": "csv", "files": [file()], "options": "{"}, 422, "options"),
        ({"kind": "csv", "files": [file()], "options": "[]"}, 422, "options"),
        ({"kind": "csv", "files": [file()], "options": '{"device": 3}'}, 422, "options.device"),
        ({"kind": "csv", "files": [file()], "options": '{"devices": -1}'}, 422, "options.devices"),
        ({"kind": "csv", "files": [file()], "options": '{"devices": "8"}'}, 422, "options.devices"),
        ({"kind": "csv", "files": [file()], "options": '{"timezone": "Mars"}'}, 422, "options.timezone"),
        (
            {"kind": "csv", "files": [file()], "options": '{"columns": {"stride": "step"}}'},
            422,
            "options.columns",
        ),
        (
            {"kind": "csv", "files": [file()], "options": '{"columns": {"step": "it"}}'},
            422,
            "options.columns.step",
        ),
        ({"kind": "csv", "files": [file(b"a,b\n1,2\n")]}, 422, "options.columns"),
        ({"kind": "csv", "files": [file()], "options": '{"task": "a\\u0000b"}'}, 422, "options"),
        (
            {"kind": "csv", "files": [file()], "options": json.dumps({"model": "m" * 201})},
            422,
            "options.model",
        ),
        ({"kind": "csv", "address": "https://x.example", "files": [file()]}, 422, "address"),
    ],
)
def test_what_cannot_be_imported_names_its_field_and_leaves_nothing(send, problem, form, status, field):
    before = set(uploads.imports_folder().glob("*"))

    got_status, _, got_field, message = problem(send(**form))

    assert (got_status, got_field) == (status, field), message
    assert not Import.objects.exists()
    assert {path.name for path in set(uploads.imports_folder().glob("*")) - before} <= {uploads.INCOMING}


def test_more_than_the_limit_is_refused_and_not_kept(send, problem, settings):
    settings.IMPORT_MAX_BYTES = 100

    assert problem(send(kind="csv", files=[file(CSV * 50)]))[:3] == (413, "too_large", "files")
    assert not Import.objects.exists()
    assert not list(uploads.incoming_folder().iterdir())


def test_json_where_a_form_belongs_says_so(writer, problem):
    assert problem(writer.post("imports", {"kind": "csv"}))[::2] == (422, "files")


def test_imports_of_others_do_not_exist(send, stranger, reader, problem):
    made = send(kind="csv", files=[file()]).json()

    assert problem(stranger.get(f"imports/{made['id']}"))[0] == 404
    assert problem(stranger.post(f"imports/{made['id']}/resume"))[0] == 404
    assert stranger.get("imports").json()["items"] == []
    assert problem(reader.post("imports"))[0] == 403


def test_the_list_is_paged(send, reader):
    made = [
        send(kind="csv", files=[file()], options=json.dumps({"source": str(i)})).json()["id"]
        for i in range(3)
    ]

    first = reader.get("imports", limit=2).json()
    rest = reader.get("imports", limit=2, cursor=first["next"]).json()

    assert [one["id"] for one in first["items"] + rest["items"]] == made[::-1]


def test_openapi_says_what_the_form_holds(client_with):
    document = Client().get("/api/v1/openapi.json").json()
    form = document["paths"]["/api/v1/imports"]["post"]["requestBody"]["content"]["multipart/form-data"][
        "schema"
    ]

    assert form["properties"]["files"]["anyOf"][0]["items"]["format"] == "binary"
    assert set(form["properties"]) == {"kind", "options", "address", "token", "user", "files"}
    assert "required" not in form
