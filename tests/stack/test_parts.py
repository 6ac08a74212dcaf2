import pytest

from stack.parts import allowed_hosts, local_url


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::1", "http://[::1]:8000"),
        ("gpu-7.example", "http://gpu-7.example:8000"),
    ],
)
def test_local_url_is_how_this_machine_reaches_the_server(host: str, url: str) -> None:
    assert local_url(host, 8000) == url


def test_server_answers_to_the_name_that_it_listens_on() -> None:
    assert allowed_hosts("127.0.0.1") == "localhost,127.0.0.1,[::1]"
    assert allowed_hosts("gpu-7.example").endswith(",gpu-7.example")
    assert "*" not in allowed_hosts("0.0.0.0")
