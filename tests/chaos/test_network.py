import threading

import httpx
import pytest

from tests.chaos.network import Network
from tests.web_server import send, serving


def ok(handler, asked) -> None:
    send(handler, 200, b"here")


def test_whole_network_passes_everything_on() -> None:
    with serving(ok) as server:
        network = Network(server.port)

        assert httpx.post(network.url, content=b"x" * 100_000, timeout=5).text == "here"
        assert server.asked[0].body == b"x" * 100_000
        network.close()


def test_cut_network_is_silent_and_what_was_under_way_arrives_later() -> None:
    with serving(ok) as server:
        network = Network(server.port)
        network.cut()
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(network.url, timeout=0.2)
        answers: list[str] = []
        patient = threading.Thread(target=lambda: answers.append(httpx.get(network.url, timeout=10).text))
        patient.start()
        assert not server.asked
        network.restore()
        patient.join(10)

        assert answers == ["here"]
        network.close()


def test_server_that_is_gone_is_gone_through_the_network_too() -> None:
    with serving(ok) as server:
        network = Network(server.port)

    with pytest.raises(httpx.TransportError):
        httpx.get(network.url, timeout=5)
    network.close()
