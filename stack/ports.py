"""Ports on this machine."""

import contextlib
import socket


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now. Another process may take it before it is used: callers try again."""
    return free_ports(1, host)[0]


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """`count` different free ports."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((host, 0))
        return [each.getsockname()[1] for each in sockets]


def listening_error(host: str, port: int) -> str | None:
    """Why a server cannot listen on host:port, in words; None where it can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # as servers do: TIME_WAIT is no obstacle
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return f"{error.strerror or error}"
    return None


def answers(host: str, port: int) -> bool:
    """Whether something accepts connections on host:port."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False
