"""Files of trackio's clients: uploaded first, then given to a run, an artifact or the project."""

import hashlib
import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.webapp.interfaces.trackio.conftest import Trackio
from webapp.interfaces.trackio import services
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact
from webapp.record.runs.models import Run
from webapp.record.samples.models import SampleFile
from webapp.record.samples.selectors import rows_of


def upload(client, name, content):
    """What the client says of a file that it has sent."""
    return {"path": client.upload(name, content), "orig_name": name, "meta": {"_type": "gradio.FileData"}}


def media(client, name, content, **changes):
    entry = (
        client.entry({}, step=3)
        | {"relative_path": None, "uploaded_file": upload(client, name, content)}
        | changes
    )
    return client.call("bulk_upload_media", uploads=[entry], hf_token=None)


def kept():
    def content(one):
        with store.open_file(one) as file:
            return file.read()

    return {one.path: content(one) for one in Artifact.objects.all()}


def test_pictures_are_kept_with_their_run_also_before_its_first_line(trackio):
    assert media(trackio, "0a1b.png", b"\x89PNG").status_code == 200
    trackio.log(
        trackio.entry({"sample": {"_type": "trackio.image", "file_path": "grpo/first/3/0a1b.png"}}, step=3)
    )
    assert media(trackio, "0a1b.png", b"\x89PNG").status_code == 200  # its answer was lost

    run = Run.objects.get()
    assert kept() == {
        "media/3/0a1b.png": b"\x89PNG",
        "logged/sample/3.json": b'{"_type": "trackio.image", "file_path": "grpo/first/3/0a1b.png"}',
    }
    assert "left_out" not in run.config["logged_through"]


def test_tables_of_responses_are_samples_and_two_of_one_step_stay_two(trackio):
    def table(response):
        row = {"step": 7, "prompt": "1 + 1 =", "completion": response, "accuracy_reward": 1.0}
        return {"_type": "trackio.table", "_value": [row]}

    line = trackio.entry({"completions": table("2")}, step=7)
    trackio.log(line, trackio.entry({"completions": table("two")}, step=7))
    trackio.log(line)  # its answer was lost

    assert set(kept()) == {"logged/completions/7.json", "logged/completions-2/7.json"}
    (file,) = SampleFile.objects.all()
    assert (file.kind, file.step, file.rows) == ("train", 7, 2)
    assert {row["response"] for row in rows_of(file)[0]} == {"2", "two"}


def test_tables_are_kept_and_texts_are_said_to_be_left_out(trackio):
    table = {"_type": "trackio.table", "_value": [{"a": 1}]}

    trackio.log(trackio.entry({"loss": 0.5, "eval/table": table, "why": "a text"}, step=7))

    assert json.loads(kept()["logged/eval/table/7.json"]) == table
    assert Run.objects.get().config["logged_through"]["left_out"] == ["why"]


def test_a_table_without_room_is_left_out_and_the_numbers_stay(trackio, settings):
    settings.ARTIFACT_MAX_BYTES = 10

    trackio.log(trackio.entry({"loss": 0.5, "table": {"_value": "x" * 20}}, step=1))

    run = Run.objects.get()
    assert run.records.get().metrics == {"loss": 0.5}
    assert run.config["logged_through"]["left_out"] == ["table"] and not kept()


def test_a_line_makes_few_files_and_says_what_it_left_out(trackio, monkeypatch):
    monkeypatch.setattr(services, "MOST_FILES", 2)
    names = ["ab", "abc"]
    lines = [trackio.entry({"loss": 0.5} | {name: {} for name in each}, n) for n, each in enumerate(names)]

    trackio.log(*lines)

    run = Run.objects.get()
    assert sorted(kept()) == [f"logged/{name}/{step}.json" for name in "ab" for step in range(2)]
    assert run.config["logged_through"]["left_out"] == ["c"] and run.records.count() == 2


def test_files_of_the_project_lie_with_its_newest_run(trackio):
    alone = {"run": None, "run_id": None, "step": None}
    refused = media(trackio, "config.yaml", b"lr: 1", relative_path="conf", **alone)
    assert refused.status_code == 422 and "no run yet" in refused.json()["error"]
    trackio.log(trackio.entry({"loss": 1.0}, step=0))

    for relative in ("conf", "./conf/config.yaml"):
        assert media(trackio, "config.yaml", b"lr: 1", relative_path=relative, **alone).status_code == 200

    assert kept() == {"files/conf/config.yaml": b"lr: 1"}


@pytest.mark.parametrize("name", ["..", "a\nb", "../../etc/passwd", "C:\\x\\evil.exe"])
def test_names_lead_nowhere(trackio, name):
    file = upload(trackio, "a", b"x") | {"orig_name": name}
    entry = trackio.entry({}, step=0) | {"uploaded_file": file}

    answer = trackio.call("bulk_upload_media", uploads=[entry], hf_token=None)

    assert answer.status_code == 200
    assert list(kept()) in ([], ["media/0/passwd"], ["media/0/evil.exe"])
    assert bool(kept()) != bool(Run.objects.get().refused)


def test_an_upload_belongs_to_the_project_of_its_token(trackio, foreign):
    file = upload(trackio, "a.png", b"x")

    for client, said in ((foreign, file), (trackio, file | {"path": "/etc/passwd"}), (trackio, None)):
        entry = client.entry({}, step=0) | {"uploaded_file": said}
        answer = client.call("bulk_upload_media", uploads=[entry], hf_token=None)
        assert answer.status_code == 422 and "uploads[0].uploaded_file" in answer.json()["error"]
    assert not kept()


def test_a_picture_beyond_a_limit_is_counted_on_the_page_and_holds_up_nothing(trackio, settings):
    """A client sends again what gets an error, and nothing that comes after it."""
    settings.ARTIFACT_MAX_BYTES, settings.IMPORT_MAX_BYTES = 10, 0  # that of imports is none of runs
    large = trackio.entry({}, step=3) | {"uploaded_file": upload(trackio, "large.png", b"x" * 11)}
    small = trackio.entry({}, step=4) | {"uploaded_file": upload(trackio, "small.png", b"x")}

    for _ in range(2):  # the first answer was lost
        trackio.ok("bulk_upload_media", uploads=[large], hf_token=None)
    trackio.ok("bulk_upload_media", uploads=[large, small], hf_token=None)

    run = Run.objects.get()
    why = "large.png is too large: a file of a run has at most 10 bytes (HEADROOM_ARTIFACT_MAX_BYTES)."
    assert list(kept()) == ["media/4/small.png"]
    assert run.refused == {"1": {"records": 0, "values": 1, "reason": why}}
    assert run.config["logged_through"]["left_out"] == [why]


def test_what_its_user_is_shown_of_an_error_says_why(trackio, settings):
    settings.ARTIFACT_PROJECT_BYTES = 10
    sent = [{"project": "grpo", "digest": "0" * 64, "uploaded_file": upload(trackio, "a", b"x" * 11)}]

    answer = trackio.call("bulk_upload_artifact_blob", project="grpo", uploads=sent, hf_token=None)

    assert answer.status_code == 413 and "a has no room" in answer.json()["error"]
    assert answer.reason_phrase == answer.json()["error"]
    assert trackio.call("bulk_log", logs=[{"run": "é\n"}], hf_token=None).reason_phrase.isascii()


def test_who_may(client_with, trackio):
    reader = client_with("read")

    for client, status in ((Trackio(), 401), (Trackio("hr_wrong"), 401), (reader, 403)):
        sent = client._client.post("/api/upload", {"files": SimpleUploadedFile("a", b"x")})
        assert sent.status_code == status
        assert client.call("bulk_upload_media", uploads=[], hf_token=None).status_code == status
        assert client.call("artifact_log", name="a").status_code == status
    assert Trackio()._client.get(f"/artifact_blob/grpo/{'0' * 64}").status_code == 401
    assert reader._client.get(f"/artifact_blob/grpo/{'0' * 64}").status_code == 404


def manifest_of(files):
    return [
        {"path": path, "size": len(content), "digest": hashlib.sha256(content).hexdigest()}
        for path, content in files.items()
    ]


def log_artifact(client, files, name="policy", **more):
    """As the client does: what is not there is sent, then the artifact is named."""
    manifest = manifest_of(files)
    digests = [entry["digest"] for entry in manifest]
    present = client.ok("check_artifact_blobs", project="grpo", digests=digests)["present"]
    for content in set(files.values()):
        digest = hashlib.sha256(content).hexdigest()
        if digest not in present:
            sent = [{"project": "grpo", "digest": digest, "uploaded_file": upload(client, digest, content)}]
            client.ok("bulk_upload_artifact_blob", project="grpo", uploads=sent, hf_token=None)
    said = {"type": "model", "description": None, "metadata": {"k": 8}, "aliases": [], "run_name": "first"}
    given = said | {"project": "grpo", "name": name, "manifest": manifest, "run_id": client.run_id} | more
    return client.ok("artifact_log", **given)


def test_an_artifact_has_versions_by_its_content(trackio, client_with):
    first = log_artifact(
        trackio, {"weights": b"1", "conf/a.json": b"{}", "conf/b.json": b"{}"}, aliases=["best"]
    )
    again = log_artifact(trackio, {"conf/b.json": b"{}", "conf/a.json": b"{}", "weights": b"1"})
    second = log_artifact(trackio, {"weights": b"2", "conf/a.json": b"{}"})

    assert (first["version"], again["version"], second["version"]) == (0, 0, 1)
    assert first["aliases"] == again["aliases"] == ["best", "latest"] and second["aliases"] == ["latest"]
    assert first["size_bytes"] == 5 and [entry["path"] for entry in first["manifest"]] == [
        "conf/a.json", "conf/b.json", "weights",
    ]  # fmt: skip
    assert kept() == {
        "artifacts/policy/v0/conf/a.json": b"{}", "artifacts/policy/v0/conf/b.json": b"{}",
        "artifacts/policy/v0/weights": b"1", "artifacts/policy/v1/conf/a.json": b"{}",
        "artifacts/policy/v1/weights": b"2",
    }  # fmt: skip
    reader = client_with("read")
    asked = lambda spec: reader.ok("get_artifact_manifest", project="grpo", name="policy", spec=spec)
    assert [asked(spec)["version"] for spec in (None, "latest", "v0", "best")] == [1, 1, 0, 0]
    assert asked("v7") is None and asked("latest")["metadata"] == {"k": 8}
    digest = asked("best")["manifest"][2]["digest"]
    found = reader._client.get(f"/artifact_blob/grpo/{digest}")
    assert b"".join(found.streaming_content) == b"1" and found["Content-Disposition"].startswith("attachment")


def test_an_alias_never_goes_back_and_overwriting_leaves_one_version(trackio):
    log_artifact(trackio, {"weights": b"1"})
    log_artifact(trackio, {"weights": b"2"}, aliases=["best"])

    assert log_artifact(trackio, {"weights": b"1"}, aliases=["best"])["aliases"] == []
    assert log_artifact(trackio, {"weights": b"3"}, overwrite=True)["version"] == 2
    assert kept() == {"artifacts/policy/v2/weights": b"3"}
    assert trackio.ok("get_artifact_manifest", project="grpo", name="policy", spec="v0") is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../x"}, {"name": None}, {"manifest": []}, {"manifest": "x"}, {"manifest": [1]}, {"aliases": "best"},
        {"manifest": [{"path": "../x", "size": 1, "digest": "0" * 64}]}, {"run_name": None},
        {"manifest": [{"path": "a", "size": -1, "digest": "0" * 64}]},
        {"manifest": [{"path": "a", "size": 1, "digest": "0" * 63}]},
        {"manifest": [{"path": "a", "size": 1, "digest": "0" * 64}]},  # never uploaded
    ],
)  # fmt: skip
def test_what_is_no_artifact_is_refused_and_nothing_stays(trackio, change):
    given = {
        "project": "grpo",
        "name": "policy",
        "manifest": [],
        "run_name": "first",
        "run_id": trackio.run_id,
    } | change

    answer = trackio.call("artifact_log", **given)

    assert answer.status_code == 422 and not kept()


def test_a_blob_that_is_not_what_it_says_is_refused(trackio):
    sent = [{"project": "grpo", "digest": "0" * 64, "uploaded_file": upload(trackio, "x", b"x")}]

    answer = trackio.call("bulk_upload_artifact_blob", project="grpo", uploads=sent, hf_token=None)

    assert answer.status_code == 422 and "uploads[0].digest" in answer.json()["error"]
