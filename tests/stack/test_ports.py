import socket

from stack.ports import answers, free_port, free_ports, listening_error


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(20)

    assert len(set(ports)) == 20
    assert [listening_error("127.0.0.1", port) for port in ports] == [None] * 20


def test_taken_port_is_named_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert listening_error("127.0.0.1", port) == "Address already in use"
        assert answers("127.0.0.1", port)
    assert listening_error("127.0.0.1", port) is None
    assert not answers("127.0.0.1", port)


def test_address_of_another_machine_is_an_error_in_words() -> None:
    assert listening_error("203.0.113.1", free_port()) == "Cannot assign requested address"
