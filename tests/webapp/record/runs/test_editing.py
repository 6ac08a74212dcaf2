"""What is said of a run is put right: which fields of which run, all or nothing, and what stays as it was."""

import pytest

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.audit.models import Event
from webapp.record.runs.bounds import MAX_TAGS
from webapp.record.runs.editing import change_run
from webapp.record.runs.models import Run

SAID = {"name": "grpo 8b", "tags": ["Paper", "a", "a"], "notes": "Node 3 was slow.\r\nSee the log."}
OF_TRACKED = {"task": "code", "model": "70b", "seed": 7}


def stored(run, *fields):
    return Run.objects.values(*fields).get(pk=run.pk)


def test_a_tracked_run_is_put_right(tracked, user):
    changed = change_run(tracked, SAID | OF_TRACKED, user=user)

    clean = SAID | OF_TRACKED | {"tags": ["a", "paper"], "notes": "Node 3 was slow.\nSee the log."}
    assert stored(tracked, *clean) == clean
    assert changed.version == 2
    event = Event.objects.get(verb="run.changed")
    assert event.detail["changes"]["task"] == ["math", "code"]
    assert event.detail["changes"]["tags"] == ["none", "a, paper"]


def test_what_is_said_of_a_launched_run_may_change_and_what_it_trains_with_may_not(launch_one):
    run = launch_one()
    change_run(run, SAID, user=None)
    assert stored(run, "name") == {"name": "grpo 8b"}

    for field, value in [*OF_TRACKED.items(), ("meaning", {"devices": 8.0})]:
        with pytest.raises(Conflict, match=f"its {field} is what it trains with") as caught:
            change_run(run, {"name": "other", field: value}, user=None)
        assert caught.value.field == field
    assert stored(run, "name", "task", "seed") == {"name": "grpo 8b", "task": "arithmetic", "seed": 0}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", " "),
        ("name", "n" * 121),
        ("tags", ["two words"]),
        ("tags", [f"t{i}" for i in range(MAX_TAGS + 1)]),
        ("notes", "a\x1b[31m"),
        ("notes", "n" * 20_001),
        ("task", "t" * 81),
        ("model", "a\0b"),
        ("seed", -1),
        ("seed", True),
        ("state", "failed"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_changes(tracked, field, value):
    with pytest.raises(InvalidInput) as caught:
        change_run(tracked, {"task": "code", field: value}, user=None)

    assert caught.value.field == field
    assert stored(tracked, "name", "task", "version") == {"name": "elsewhere", "task": "math", "version": 1}
    assert not Event.objects.filter(verb="run.changed").exists()


def test_what_is_so_already_is_no_change(tracked):
    change_run(tracked, {"task": "math", "notes": ""}, user=None)

    assert stored(tracked, "version") == {"version": 1}
    assert not Event.objects.filter(verb="run.changed").exists()


def test_an_empty_task_is_one_that_was_not_said(tracked):
    change_run(tracked, {"task": "", "model": " "}, user=None)

    assert stored(tracked, "task", "model") == {"task": "unspecified", "model": "unspecified"}


def test_of_a_meaning_what_is_not_named_stays(tracked):
    change_run(tracked, {"meaning": {"devices": 8.0}}, user=None)
    change_run(tracked, {"meaning": {"n_prompts": 100}}, user=None)

    assert stored(tracked, "meaning") == {"meaning": {"devices": 8.0, "n_prompts": 100}}
