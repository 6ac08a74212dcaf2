"""/api/v1/runs/{id}/samples: responses in, and out again by step, by filter, by prompt and as a file."""

import gzip
import json

import pytest

ROWS = [
    {
        "prompt_id": f"p{i // 2}",
        "prompt": f"{i // 2} + 1 =",
        "response": f"{i}",
        "reward": i / 4,
        "correct": i > 1,
    }
    for i in range(4)
]


def put(client, run, place="eval/10", rows=ROWS, **query):
    content = gzip.compress("\n".join(map(json.dumps, rows)).encode())
    address = f"/api/v1/runs/{run.pk}/samples/{place}"
    return client._client.put(address, content, content_type="application/gzip", query_params=query)


@pytest.fixture(autouse=True)
def home(settings, tmp_path):
    settings.HEADROOM_HOME = tmp_path


def test_responses_come_back(writer, reader, tracked):
    made = put(writer, tracked)

    assert made.status_code == 201
    assert {name: made.json()[name] for name in ("kind", "step", "attempt", "rows", "left_out")} == {
        "kind": "eval", "step": 10, "attempt": 1, "rows": 4, "left_out": 0,
    }  # fmt: skip
    assert reader.get(f"runs/{tracked.pk}/samples").json() == {"items": [made.json()], "next": None}
    first = reader.get(f"runs/{tracked.pk}/samples/eval/10", limit=3).json()
    rest = reader.get(f"runs/{tracked.pk}/samples/eval/10", limit=3, cursor=first["next"]).json()
    assert [row["response"] for row in first["items"] + rest["items"]] == ["0", "1", "2", "3"]
    assert (first["total"], rest["next"]) == (4, None)


def test_filters(writer, reader, tracked):
    put(writer, tracked)
    path = f"runs/{tracked.pk}/samples/eval/10"

    found = reader.get(path, reward_min=0.25, flag="incorrect").json()
    assert [row["response"] for row in found["items"]] == ["1"]
    assert reader.get(path, q="1 + 1").json()["total"] == 2
    assert reader.get(path, prompt_id="p1").json()["total"] == 2


def test_history_and_export(writer, reader, tracked):
    put(writer, tracked)
    put(writer, tracked, "eval/20")
    put(writer, tracked, "train/20")

    moments = reader.get(f"runs/{tracked.pk}/samples/eval/history", prompt_id="p0").json()["items"]
    assert moments == [{"step": step, "rewards": [0.0, 0.25], "correct": [False, False]} for step in (10, 20)]
    answer = reader.get(f"runs/{tracked.pk}/samples/export", kind="eval", reward_min=0.75)
    lines = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert [(line["kind"], line["step"], line["response"]) for line in lines] == [
        ("eval", 10, "3"),
        ("eval", 20, "3"),
    ]


@pytest.mark.parametrize(
    ("place", "status", "field"),
    [("test/1", 422, "kind"), ("eval/-1", 422, "step"), ("eval/1000000000000000000", 422, "step")],
)
def test_what_is_no_place_is_refused(writer, tracked, problem, place, status, field):
    assert problem(put(writer, tracked, place))[::2] == (status, field)


def test_what_is_not_there_or_of_others(reader, stranger, writer, tracked, problem):
    put(writer, tracked)

    assert problem(reader.get(f"runs/{tracked.pk}/samples/eval/11"))[0] == 404
    assert problem(reader.get(f"runs/{tracked.pk}/samples/eval/10", cursor="x"))[::2] == (422, "cursor")
    for path in ("", "/eval/10", "/export"):
        assert stranger.get(f"runs/{tracked.pk}/samples{path}").status_code == 404
    assert put(reader, tracked).status_code == 403


def test_a_line_that_is_none_is_named(writer, tracked, problem):
    assert problem(put(writer, tracked, rows=[{}, []]))[:2] == (422, "invalid_input")
    assert problem(put(writer, tracked, attempt=0))[::2] == (422, "attempt")
