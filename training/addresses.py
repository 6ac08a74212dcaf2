"""Where other processes of a run can reach this one, and which of them make a group."""

import fcntl
import socket
import struct
from dataclasses import dataclass

SIOCGIFADDR = 0x8915  # netdevice(7): the IPv4 address of an interface
ELSEWHERE = "192.0.2.1"  # reserved for documentation: nothing is sent there


@dataclass(frozen=True)
class Group:
    """Processes that broadcast to each other: `size` of them, the sender among them. No two groups have one number."""

    number: int
    size: int


def free_address(host: str | None = None) -> str:
    """ "host:port" of a port that is free here; `host`: this machine as other nodes know it, by default `own_host`."""
    with socket.create_server(("", 0)) as server:
        return f"{host or own_host()}:{server.getsockname()[1]}"


def own_host(towards: str = ELSEWHERE) -> str:
    """The address that this machine has on its way to another; loopback where there is no way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((towards, 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str | None:
    """The network interface whose first IPv4 address this is; None where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has no such address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
