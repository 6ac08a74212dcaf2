import httpx
import pytest

import headroom
from headroom.server import Server, reason_of
from tests.headroom.fake_server import FakeServer

ASKED = httpx.Request("POST", "http://h/api/v1/imports")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"message": "kind must be csv.", "field": "kind"}, "kind must be csv. (HTTP 422)"),
        ({"message": "It must be a number.", "field": "a.b"}, "a.b: It must be a number. (HTTP 422)"),
        ({"message": "No."}, "No. (HTTP 422)"),
        ("broken", "http://h/api/v1/imports answered HTTP 422 Unprocessable Entity"),
    ],
)
def test_a_refusal_is_one_line_that_names_its_field_once(error: object, said: str) -> None:
    assert reason_of(httpx.Response(422, json={"error": error}, request=ASKED)) == said


def test_the_client_says_its_name_and_version(server: FakeServer) -> None:
    Server(server.url, "t").send_records("r1", [])

    assert server.agents == {f"headroom/{headroom.__version__}"}


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (12.5, 12.5),
        (3, 3.0),
        (0, 0.0),
        (-1, None),
        ("soon", None),
        (True, None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_how_long_to_gather_is_believed_only_where_it_is_a_number_of_seconds(
    server: FakeServer, said: object, heard: float | None
) -> None:
    server.gather_seconds["r1"] = said

    assert Server(server.url, "t").send_records("r1", []) == heard


def test_an_older_server_does_not_say_how_long_to_gather(server: FakeServer) -> None:
    assert Server(server.url, "t").send_records("r1", []) is None
