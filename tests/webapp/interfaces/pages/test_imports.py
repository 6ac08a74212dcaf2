"""The pages of imports, as far as no browser is needed: forms, refusals at their fields, the poll, other projects."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.members import member
from webapp.identity.accounts.models import User
from webapp.interfaces.imports import uploads
from webapp.interfaces.imports.models import Import, State
from webapp.interfaces.imports.reading import take_turn
from webapp.record.runs.models import Record, Run

CSV = b"step,eval/pass_rate,gpu_hours\n1,0.1,0.5\n2,0.2,1.0\n"


def file(content=CSV, name="grpo.csv"):
    return SimpleUploadedFile(name, content)


@pytest.fixture
def draft(ada, project):
    answer = ada.post("/imports/new", {"files": file(), "task": "math"})
    assert answer.status_code == 302, answer.context["form"].errors
    return Import.objects.get()


def test_the_empty_list_teaches(ada):
    page = ada.get("/imports").content.decode()

    assert "Bring the runs you have" in page and "python -m headroom import" in page
    assert "TensorBoard" in page


def test_a_table_is_uploaded_its_columns_named_and_read(ada, draft):
    assert (draft.state, draft.kind, draft.task) == (State.DRAFT, "csv", "math")
    page = ada.get(f"/imports/{draft.pk}")
    columns = page.context["columns"]
    assert [(column["name"], column["role"]) for column in columns] == [
        ("step", "step"), ("eval/pass_rate", "pass_rate"), ("gpu_hours", "device_hours"),
    ]  # fmt: skip
    assert columns[1]["values"] == ["0.1", "0.2"]

    sent = {"column-0": "step", "column-1": "pass_rate", "column-2": "device_hours/row", "task": "maths"}
    assert ada.post(f"/imports/{draft.pk}", sent).status_code == 302
    take_turn()

    page = ada.get(f"/imports/{draft.pk}").content.decode()
    run = Run.objects.get()
    assert "finished" in page and f"/runs/{run.pk}" in page
    assert run.task == "maths"
    assert [record.compute["device_hours"] for record in Record.objects.order_by("seq")] == [0.5, 1.5]


@pytest.mark.parametrize(
    ("sent", "column", "words"),
    [
        ({"column-0": "step", "column-1": "step"}, "eval/pass_rate", "The column step is this already."),
        ({"column-0": "metric"}, None, "A long table has both"),
        ({"column-0": "stride"}, "step", "Choose what this column is."),
        ({"column-0": "step", "devices": "many"}, None, "Must be a number"),
        ({"column-0": "step", "devices": "-8"}, None, "Devices is a number above 0"),
        ({"column-0": "step", "timezone": "Mars"}, None, "Mars is no time zone"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused_at_its_field(ada, draft, sent, column, words):
    answer = ada.post(f"/imports/{draft.pk}", sent)

    assert answer.status_code == 422
    if column:
        (wrong,) = [one for one in answer.context["columns"] if one["error"]]
        assert (wrong["name"], wrong["error"]) == (column, words)
    else:
        assert words in str(answer.context["form"].errors)
    assert words in answer.content.decode()
    draft.refresh_from_db()
    assert draft.state == State.DRAFT


@pytest.mark.parametrize(
    ("sent", "field", "words"),
    [
        ({}, "files", "Is required"),
        ({"files": file(b"", "empty.csv")}, "files", "Empty.csv is empty"),
        ({"files": file(b"\x00\x01", "image.png")}, "kind", "Is required"),
        ({"files": file(), "kind": "excel"}, "kind", "Select a valid choice"),
        ({"files": file(), "devices": "8 GPUs"}, "devices", "must be a number"),
    ],
)
def test_what_cannot_be_uploaded_is_refused_at_its_field(ada, project, sent, field, words):
    answer = ada.post("/imports/new", sent)

    assert answer.status_code == 422
    assert words.lower() in str(answer.context["form"].errors[field]).lower()
    assert not Import.objects.exists()


def test_other_kinds_are_read_at_once(ada, project):
    lines = b'{"step": 1, "data": {"critic/rewards/mean": 0.5}}\n'
    ada.post("/imports/new", {"files": file(lines, "grpo.jsonl"), "devices": "8", "source": "run 7"})

    made = Import.objects.get()
    assert (made.kind, made.state, made.source, made.options["devices"]) == (
        "verl",
        State.WAITING,
        "run 7",
        8.0,
    )


def test_the_page_asks_again_only_while_it_is_read(ada, project):
    ada.post("/imports/new", {"files": file(b'{"step": 1, "data": {"loss": 0.5}}\n', "grpo.jsonl")})
    one = Import.objects.get()

    for path in (f"/imports/{one.pk}", "/imports"):
        part = ada.get(path, headers={"HX-Request": "true"}).content.decode()
        assert "data-poll" in part and "<html" not in part and "all of them" not in part
    take_turn()
    for path in (f"/imports/{one.pk}", "/imports"):
        assert "data-poll" not in ada.get(path, headers={"HX-Request": "true"}).content.decode()


def test_one_whose_archive_cannot_be_opened_does_not_sound_as_if_it_were_waited_for(ada, project):
    sent = ada.post("/imports/new", {"kind": "mlflow", "files": file(b"PK\x03\x04 no archive", "runs.zip")})
    assert "not looked yet" in ada.get(sent.url).content.decode()

    assert take_turn().state == State.FAILED

    page = ada.get(sent.url).content.decode()
    assert "not looked yet" not in page and "none found" in page


def test_a_broken_one_is_resumed_with_a_mended_file(ada, draft):
    Import.objects.update(state=State.PARTIAL, reason="It is broken.", broken_file="grpo.csv", broken_line=3)
    page = ada.get(f"/imports/{draft.pk}").content.decode()
    assert "grpo.csv, line 3" in page and "Read it again" in page

    ada.post(f"/imports/{draft.pk}/resume", {"files": file(CSV + b"3,0.3,1.5\n")})
    assert take_turn().rows_stored == 3
    answer = ada.post(f"/imports/{draft.pk}/resume", {}, follow=True)
    assert "This import has finished" in answer.content.decode()


def test_an_upload_of_somebody_who_is_not_signed_in_is_not_even_kept(client, db):
    from webapp.interfaces.imports import uploads

    answer = client.post("/imports/new", {"files": file()})

    assert answer.status_code == 302 and "/sign-in" in answer["Location"]
    assert not list(uploads.incoming_folder().iterdir())
    assert not answer.wsgi_request.FILES


def test_others_do_not_see_it_and_viewers_may_only_look(client, draft):
    from webapp.identity.accounts.services import create_project

    client.force_login(member("eve", project=create_project(slug="other", name="Other")))
    assert client.get(f"/imports/{draft.pk}").status_code == 404
    client.force_login(member("vic", project=draft.project, role="viewer"))
    assert client.get(f"/imports/{draft.pk}").status_code == 200
    assert client.post(f"/imports/{draft.pk}", {"column-0": "step"}).status_code == 403
    assert client.get("/imports/new").status_code == 403


def test_the_list_takes_a_constant_number_of_queries(ada, draft, django_assert_max_num_queries):
    first = Import.objects.get()
    Import.objects.bulk_create(
        Import(project=first.project, user=first.user, file_name=f"{i}.csv") for i in range(20)
    )

    with django_assert_max_num_queries(14):
        assert ada.get("/imports").status_code == 200


@pytest.fixture
def stored(monkeypatch):
    """The files that were begun to be stored."""
    begun = []
    really = uploads.Incoming.__init__
    monkeypatch.setattr(uploads.Incoming, "__init__", lambda self, *a: begun.append(self) or really(self, *a))
    return begun


def test_a_viewer_stores_nothing(project, stored):
    member("vera", project=project, role="viewer")
    client = Client()
    client.force_login(User.objects.get(username="vera"))

    assert client.post("/imports/new", {"files": file()}).status_code == 403
    assert stored == []


def test_who_is_not_signed_in_stores_nothing(project, stored):
    assert Client().post("/imports/new", {"files": file()}).status_code == 302
    assert Client().post("/sign-in", {"username": "x", "files": file()}).status_code == 200
    assert stored == []


def test_a_forged_request_stores_nothing(ada, project, stored):
    client = Client(enforce_csrf_checks=True)
    client.cookies = ada.cookies

    assert client.post("/imports/new", {"files": file()}).status_code == 403
    assert client.post("/imports/new", {"csrfmiddlewaretoken": "x" * 32, "files": file()}).status_code == 403
    assert stored == []


def test_the_form_of_the_page_stores_its_file(ada, project, stored):
    client = Client(enforce_csrf_checks=True)
    client.cookies = ada.cookies
    page = client.get("/imports/new").content.decode()
    token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]

    answer = client.post("/imports/new", {"csrfmiddlewaretoken": token, "files": file(), "task": "math"})

    assert answer.status_code == 302
    assert len(stored) == 1
    assert page.index("csrfmiddlewaretoken") < page.index('type="file"')


def test_no_other_page_takes_files(ada, project, stored):
    ada.post("/project/settings", {"name": "Math", "files": file()})

    assert stored == []


def test_percentages_and_a_likely_pass_rate_are_asked_about(ada, project):
    ada.post("/imports/new", {"files": file(b"step,val_acc,stderr\n1,41.5,2\n2,50,1\n")})
    draft = Import.objects.get()
    answer = ada.get(f"/imports/{draft.pk}")
    assert [column["role"] for column in answer.context["columns"]] == [
        "step", "pass_rate/percent", "pass_rate_stderr"
    ]  # fmt: skip
    page = answer.content.decode()
    assert "Is val_acc the held-out pass rate?" in page and "is it in percent?" in page

    sent = {"column-0": "step", "column-1": "pass_rate", "column-2": "pass_rate_stderr"}
    refused = ada.post(f"/imports/{draft.pk}", sent)
    (wrong,) = [one for one in refused.context["columns"] if one["error"]]
    assert (refused.status_code, wrong["name"]) == (422, "val_acc") and "in percent" in wrong["error"]

    assert ada.post(f"/imports/{draft.pk}", sent | {"column-1": "pass_rate/percent"}).status_code == 302
    take_turn()
    assert [record.metrics for record in Record.objects.order_by("seq")] == [
        {"eval/pass_rate": 0.415, "eval/pass_rate_stderr": 0.02},
        {"eval/pass_rate": 0.5, "eval/pass_rate_stderr": 0.01},
    ]


def test_a_pass_rate_in_percent_that_is_named_at_once(ada, project):
    files = {"files": file(b"step,acc\n1,1\n2,0.5\n"), "pass_rate": "acc", "percent": "on"}
    assert ada.post("/imports/new", files).status_code == 302
    draft = Import.objects.get()
    assert [column["role"] for column in ada.get(f"/imports/{draft.pk}").context["columns"]] == [
        "step", "pass_rate/percent"
    ]  # fmt: skip


def test_our_own_export_is_read_without_a_question(ada, project):
    header = "attempt,seq,step,time,device_hours,flops,tokens,eval/pass_rate,about\n"
    row = '1,0,3,2026-01-01T00:00:00+00:00,0.5,,,0.25,"{""name"":""grpo"",""seed"":7}"\n'
    ada.post("/imports/new", {"files": file((header + row).encode())})

    take_turn()

    run = Run.objects.get()
    assert (run.name, run.seed, Record.objects.get().metrics) == ("grpo", 7, {"eval/pass_rate": 0.25})
