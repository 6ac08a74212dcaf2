"""Parts of two releases at once: what the release before says to this one, what this one says to it, and its database.

`v0_1_0/` holds what that release sends, as it was recorded: requests of its client and trainer with what its server
answered, its tasks with their arguments, and the columns of its tables. These files are never changed.
"""

import inspect
import json
from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from tests.headroom.conftest import begin, journal_path, quick_and_clean, server  # noqa: F401 (fixtures)
from tests.webapp.interfaces.api.conftest import client_with, project, user, writer  # noqa: F401 (fixtures)
from webapp.interfaces.api import health
from webapp.record.health import patience
from webapp.record.runs.models import Attempt, Point, Record, Run
from worker import names, tasks
from worker.app import app

BEFORE = Path(__file__).parent / "v0_1_0"
REQUESTS = json.loads((BEFORE / "requests.json").read_text())
TASKS = json.loads((BEFORE / "tasks.json").read_text())
COLUMNS = json.loads((BEFORE / "columns.json").read_text())


def replay(client, requests, run="", **more):
    """Send what was recorded; the run that it makes, and each answer."""
    answers = []
    for asked in requests:
        path = asked["path"].format(run=run)
        answers.append(client.post(path, asked["body"] | more, **asked.get("headers", {})))
        run = run or answers[-1].json().get("id", "")
    return run, answers


def test_todays_server_takes_what_the_client_and_trainer_before_send(writer):  # noqa: F811
    run, answers = replay(writer, REQUESTS)

    for asked, answer in zip(REQUESTS, answers, strict=True):
        assert answer.status_code == asked["status"], (asked["path"], answer.content)
        said = answer.json()
        assert {key: said[key] for key in asked["answer"] if key != "id"} == {
            key: value for key, value in asked["answer"].items() if key != "id"
        }
    assert Record.objects.filter(run=run).count() == 3 and Point.objects.filter(series__run=run).exists()
    assert list(Attempt.objects.filter(run=run).values_list("number", "state", "resumed_from_step")) == [
        (1, "failed", None), (2, "failed", 0),
    ]  # fmt: skip


def test_what_is_sent_twice_is_the_same(writer):  # noqa: F811
    run, _ = replay(writer, REQUESTS[:3])
    again, answers = replay(writer, REQUESTS[:3])
    assert again == run and Run.objects.count() == 1
    assert answers[0].status_code == 200
    assert answers[2].json().items() >= {"accepted": 0, "duplicates": 2}.items()


@pytest.mark.parametrize("place", range(len(REQUESTS)))
def test_a_field_of_a_later_release_is_refused_by_name_and_nothing_is_stored(writer, place):  # noqa: F811
    """docs/deploy.md: servers are upgraded before clients. Nothing that a server does not know is dropped silently."""
    run, _ = replay(writer, REQUESTS[:place])
    before = Record.objects.count(), Run.objects.values_list("state").first()
    _, (answer,) = replay(writer, REQUESTS[place : place + 1], run, of_the_future=1)

    assert answer.status_code == 422
    assert answer.json()["error"]["field"].endswith("of_the_future")
    assert (Record.objects.count(), Run.objects.values_list("state").first()) == before


def test_todays_client_says_nothing_that_the_server_before_does_not_know(begin, server):  # noqa: F811
    """Its server refuses fields that it does not know, so ours sends none but those that were recorded."""
    run = begin(run=None, name="n", task="t", model="m", config={"a": 1}, device="2 cores")
    run.log({"train/reward": 0.5}, step=1, compute={"device_hours": 0.5})
    assert run.finish("failed", "a node was lost", infrastructure=True)

    known: dict[str, set[str]] = {}
    for asked in REQUESTS:
        known.setdefault(asked["path"].split("/")[-1], set()).update(asked["body"])
    assert {path.split("/")[-1] for path, _ in server.requests} == {"runs", "start", "records", "finish"}
    for path, body in server.requests:
        assert set(body) <= known[path.split("/")[-1]], path
    records = [each for _, body in server.requests for each in body.get("records", ())]
    wanted = [each for asked in REQUESTS for each in asked["body"].get("records", ())]
    assert {key for each in records for key in each} <= {key for each in wanted for key in each}
    assert {key for each in records for key in each["compute"]} <= {"device_hours", "flops", "tokens"}


def test_todays_client_goes_on_with_the_answers_of_the_server_before(begin, server, journal_path):  # noqa: F811
    """No more than what that server says is needed of an answer."""
    recorded = {asked["path"].split("/")[-1]: asked["answer"] for asked in REQUESTS}
    server._store = lambda path, body: recorded[path.split("/")[-1]]
    run = begin(run=None, name="n")
    run.log({"train/reward": 0.5}, step=1)

    assert run.id == REQUESTS[0]["answer"]["id"]
    assert run.finish()
    assert not Path(f"{journal_path}.rejected").exists()


@pytest.mark.parametrize("name", TASKS)
def test_todays_worker_takes_the_tasks_of_the_web_server_before(name):
    """A task keeps its name and arguments; it may grow by optional ones at the end."""
    assert tasks.__name__ == "worker.tasks" and name in app.tasks
    now = inspect.signature(app.tasks[name].run)
    for arguments in TASKS[name]["sent"]:
        now.bind(*arguments)
    plain = [each for each in now.parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert [each.name for each in plain][: len(TASKS[name]["takes"])] == TASKS[name]["takes"]
    assert all(each.default is not each.empty for each in plain[len(TASKS[name]["takes"]) :])


def test_every_task_that_the_web_server_names_is_there():
    named = {value for key, value in vars(names).items() if key.isupper()}
    assert TASKS.keys() <= named <= app.tasks.keys()


def columns():
    """table -> column -> whether a row can be added without it."""
    found: dict[str, dict[str, bool]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, is_nullable = 'YES' OR column_default IS NOT NULL OR is_identity = 'YES' "
            "FROM information_schema.columns WHERE table_schema = 'public'"
        )
        for table, column, can_miss in cursor.fetchall():
            found.setdefault(table, {})[column] = can_miss
    return found


def test_the_release_before_reads_and_writes_the_tables_of_this_one(db):
    """Everything that it knows is there, and nothing was added that its rows would have to have."""
    now = columns()
    assert not {table: gone for table in COLUMNS if (gone := set(COLUMNS[table]) - set(now.get(table, {})))}
    added = {table: set(now[table]) - set(COLUMNS[table]) for table in COLUMNS}
    assert not [f"{table}.{column}" for table in added for column in added[table] if not now[table][column]]


def test_a_web_server_of_the_release_before_is_ready_on_the_newer_database(db, monkeypatch):
    """It lacks nothing: what it does not know was only added. Only the preparation, which would migrate, refuses."""
    MigrationRecorder.Migration.objects.create(app="runs", name="0999_of_the_release_after")
    monkeypatch.setattr(health, "_is_complete", False)
    assert health._schema() == health.OK
    assert patience.unknown_migrations() == ["runs.0999_of_the_release_after"]
