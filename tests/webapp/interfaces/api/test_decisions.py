"""/api/v1/decisions"""

import pytest

from webapp.science.decisions.models import Entry


@pytest.fixture
def body(tracked):
    return {"kind": "stop", "about": "run", "object_id": tracked.pk, "reason": "It has bent."}


def test_a_decision_is_added_once_and_listed(writer, reader, body, tracked):
    made = writer.post("decisions", body, idempotency_key="k")
    again = writer.post("decisions", body, idempotency_key="k")
    listed = reader.get("decisions", kind="stop", about="run", object_id=tracked.pk).json()

    assert made.status_code == 201
    assert again.json()["id"] == made.json()["id"]
    assert [one["id"] for one in listed["items"]] == [made.json()["id"]]
    assert listed["items"][0]["state"]["ceiling"]["identified"] is False
    assert reader.get(f"decisions/{made.json()['id']}").json() == made.json()
    assert reader.get("decisions", person="nobody").json()["items"] == []
    assert reader.get("decisions", about="study").json()["items"] == []


@pytest.mark.parametrize(
    ("change", "field"),
    [({"kind": "pause"}, "kind"), ({"about": "recipe"}, "about"), ({"object_id": "x"}, "object_id"),
     ({"reason": ""}, "reason"), ({"kind": "switch"}, "to")],
)  # fmt: skip
def test_bad_input_is_refused_by_name(writer, body, change, field):
    answer = writer.post("decisions", body | change)

    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert not Entry.objects.exists()


def test_readers_and_strangers_add_nothing(reader, stranger, writer, body):
    assert reader.post("decisions", body).status_code == 403
    assert stranger.post("decisions", body).status_code == 422
    made = writer.post("decisions", body).json()["id"]
    assert stranger.get(f"decisions/{made}").status_code == 404
    assert stranger.get("decisions").json()["items"] == []
