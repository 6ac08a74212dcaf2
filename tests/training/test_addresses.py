import socket

from training.addresses import free_address, interface_of, own_host


def test_own_address_belongs_to_an_interface_and_others_to_none() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.77") is None
    assert interface_of(own_host("127.0.0.1")) == "lo"


def test_a_free_address_can_be_taken() -> None:
    host, _, port = free_address("127.0.0.1").rpartition(":")

    with socket.create_server((host, int(port))):
        pass
    assert host == "127.0.0.1"
