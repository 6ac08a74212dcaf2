"""Where other processes of a run can reach this one."""

import socket

ELSEWHERE = "192.0.2.1"  # reserved for documentation: nothing is sent there


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
