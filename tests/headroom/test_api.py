"""`headroom.Api` against the real server: what it gives, how it pages, waits and fails."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.core.cache import caches

import headroom
from headroom.api import Api, ApiError
from tests.launching import tracked_run
from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.interfaces.pages.data import curve_records
from webapp.base.requests import Limit
from webapp.identity.accounts.services import create_project, create_token
from webapp.interfaces.api import auth
from webapp.record.runs import ingest
from webapp.science.curves.services import refit

POINTS = 60


@pytest.fixture
def project(transactional_db):
    return create_project(slug="math", name="Math")


@pytest.fixture
def author(project):
    return member("ada", project=project)


@pytest.fixture
def runs(project, author):
    """Three tracked runs that evaluated; the newest is `c`."""
    made = []
    for seed, name in enumerate("abc"):
        run = tracked_run(
            user=author, project=project, name=name, task="math", model="8b", seed=seed, config={"lr": 1e-6}
        )
        ingest.store_records(run, curve_records(POINTS, seed=seed))
        refit(run.pk)
        made.append(run)
    return made


@pytest.fixture
def api(live_server, project, author, monkeypatch):
    for name in ("HEADROOM_URL", "HEADROOM_TOKEN", "HEADROOM_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for cache in ("limits", "limits-of-this-process"):
        caches[cache].clear()
    with headroom.Api(live_server.url, create_token(user=author, project=project, scope="read")) as api:
        yield api


def test_runs_by_filter_and_one_run(api, runs):
    assert [run["name"] for run in api.runs()] == ["c", "b", "a"]
    assert [run["name"] for run in api.runs("name:a OR seed:2")] == ["c", "a"]
    assert [run["id"] for run in api.runs(q=runs[1].pk)] == [runs[1].pk]
    detail = api.run(runs[0].pk)
    assert (detail["config"], detail["attempts"][0]["number"]) == ({"lr": 1e-6}, 1)
    assert detail["latest"]["eval/pass_rate"]["value"] > 0.3


def test_curves_and_series_are_what_was_reported(api, runs):
    first = curve_records(POINTS, seed=0)
    rates = [record.metrics["eval/pass_rate"] for record in first if "eval/pass_rate" in record.metrics]

    curve = api.curve(runs[0].pk)
    columns = list(api.curves([run.pk for run in runs]))
    series = api.series(runs[0].pk, "eval/pass_rate", points=10)

    assert [point["value"] for point in curve["points"]] == rates
    assert columns[0]["value"] == rates
    assert [one["run"] for one in columns] == [run.pk for run in runs]
    assert (series["total"], series["sampled"]) == (len(rates), True)
    (columns,) = api.many_series([runs[0].pk], "eval/pass_rate", points=10)
    assert columns["value"] == [point["value"] for point in series["points"]]
    assert "eval/pass_rate" in api.metrics(runs[0].pk)


def test_records_are_read_over_all_pages(api, runs, monkeypatch):
    monkeypatch.setattr("headroom.api.PAGE", 7)

    found = list(api.records(runs[0].pk))

    sent = curve_records(POINTS, seed=0)
    assert [record["seq"] for record in found] == [record.seq for record in sent]
    assert found[3]["metrics"] == dict(sent[3].metrics)


def test_only_what_is_new(api, runs):
    known, since = api.new_records(runs[0].pk)
    nothing, again = api.new_records(runs[0].pk, since)
    late = curve_records(POINTS + 2, seed=0)[-2:]
    ingest.store_records(runs[0], late)

    fresh, _ = api.new_records(runs[0].pk, again)

    assert (len(known), nothing, again) == (len(curve_records(POINTS, seed=0)), [], since)
    assert [record["seq"] for record in fresh] == [record.seq for record in late]


def test_fits_leaderboard_predictions_and_the_rest(api, runs, author):
    made = make_prediction(author, runs[0])

    fits = list(api.fits(runs[0].pk))
    (group,) = api.leaderboard(published=False)

    assert api.fit(fits[0]["id"]) == fits[0]
    assert {fit["run"] for fit in api.fits()} == {run.pk for run in runs}
    assert sorted(row["recipe"] for row in group["rows"]) == ["a", "b", "c"]
    assert [prediction["id"] for prediction in api.predictions(status="open")] == [made.pk]
    assert api.prediction(made.pk)["frozen"]["params"]
    assert list(api.studies()) == []
    assert "tiny-scalerl" in [recipe["slug"] for recipe in api.recipes()]


def test_exports_are_whole_files(api, runs, tmp_path):
    size = api.export(tmp_path / "records.jsonl", run=runs[0].pk, superseded=True)
    api.export(tmp_path / "curves.csv", filter="name:a")
    api.export(tmp_path / "all.parquet", content="records", metrics=["eval/pass_rate"])

    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    assert size == (tmp_path / "records.jsonl").stat().st_size
    assert [json.loads(line)["seq"] for line in lines] == [
        record.seq for record in curve_records(POINTS, seed=0)
    ]
    assert (tmp_path / "curves.csv").read_text().startswith("run,metric,attempt,seq,step,time,")
    assert (tmp_path / "all.parquet").read_bytes()[:4] == b"PAR1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.parquet", "curves.csv", "records.jsonl"]


def test_an_export_that_is_refused_leaves_what_was_there(api, runs, tmp_path):
    target = tmp_path / "curves.csv"
    target.write_text("of yesterday")

    with pytest.raises(ApiError) as refused:
        api.export(target, filter="speed > 3")

    assert (refused.value.status, refused.value.field) == (422, "filter")
    assert [path.name for path in tmp_path.iterdir()] == ["curves.csv"]
    assert target.read_text() == "of yesterday"
    with pytest.raises(ValueError, match="must end in one of"):
        api.export(tmp_path / "curves.xlsx")


@pytest.mark.parametrize(
    ("ask", "status", "code", "field"),
    [
        (lambda api: api.run("nothing"), 404, "not_found", None),
        (lambda api: api.run("../status"), 404, "not_found", None),
        (lambda api: list(api.runs("speed > 3")), 422, "invalid_input", "filter"),
        (lambda api: api.curve("nothing", x="money"), 422, "invalid_input", "x"),
    ],
)
def test_a_refusal_has_its_field_and_sentence(api, runs, ask, status, code, field):
    with pytest.raises(ApiError) as refused:
        ask(api)

    error = refused.value
    assert (error.status, error.code, error.field) == (status, code, field)
    assert error.message.endswith(".") or "filter" in error.message


def test_a_token_that_is_none_is_refused(live_server, project):
    with pytest.raises(ApiError) as refused:
        list(Api(live_server.url, "hr_wrong").runs())

    assert (refused.value.status, refused.value.code) == (401, "unauthorized")


def test_where_the_server_says_so_a_call_comes_again_later(live_server, api, runs, monkeypatch):
    monkeypatch.setattr(auth.READ_HEAVY, "limit", Limit(1, 86_400))
    slept = []

    def a_day_passes(seconds):
        slept.append(seconds)
        caches["limits"].clear()

    patient = Api(live_server.url, _token_of(api), patience=90_000, sleep=a_day_passes)
    assert len(list(patient.runs())) == len(list(patient.runs())) == 3
    assert len(slept) == 1 and 0 < slept[0] <= 86_400

    with pytest.raises(ApiError) as refused:
        list(api.runs())
    assert (refused.value.status, refused.value.code) == (429, "too_many_requests")


def _token_of(api):
    return api._client.headers["Authorization"].removeprefix("Bearer ")


@pytest.fixture
def server_that():
    """server_that(status, body, headers): the address of a server that answers every GET so."""
    started = []

    def start(status, body, headers):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        started.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=started[-1].serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{started[-1].server_port}"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def test_what_is_no_headroom_server_is_said_so(server_that):
    url = server_that(200, b"<html>welcome</html>", {})

    with pytest.raises(ApiError, match="does not answer like a Headroom server"):
        Api(url, "t").run("abc")
    with pytest.raises(ApiError, match=r"/api/v1/runs/abc answered Bad Gateway \(HTTP 502\)"):
        Api(server_that(502, b"oops", {}), "t").run("abc")


def test_a_download_that_breaks_off_is_no_file(server_that, tmp_path):
    url = server_that(200, b"half", {"Content-Length": "1000"})

    with pytest.raises(ApiError, match="cannot be reached"):
        Api(url, "t").export(tmp_path / "all.csv")
    assert list(tmp_path.iterdir()) == []


def test_nobody_there(unused_port=1):
    with pytest.raises(ApiError, match="cannot be reached") as refused:
        Api(f"http://127.0.0.1:{unused_port}", "t").run("abc")
    assert refused.value.status is None


def test_it_needs_an_address_and_a_token(monkeypatch, tmp_path):
    for name in ("HEADROOM_URL", "HEADROOM_TOKEN", "HEADROOM_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="HEADROOM_URL"):
        Api()
    with pytest.raises(ValueError, match="needs a token"):
        Api("http://127.0.0.1:1")
    (tmp_path / "token").write_text("hr_file\n")
    monkeypatch.setenv("HEADROOM_URL", "http://127.0.0.1:1/api/v1/")
    monkeypatch.setenv("HEADROOM_TOKEN_FILE", str(tmp_path / "token"))

    found = Api()

    assert (found.url, _token_of(found)) == ("http://127.0.0.1:1", "hr_file")
