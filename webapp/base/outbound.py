"""The one way by which the server calls addresses that people entered (webhooks, OpenID providers).

What such a call could reach inside the operator's network (server-side request forgery) is kept out like this:

- https only; http for hosts that the operator allowed, or when DEBUG is on;
- the name is resolved here, once, and every address must be public; the connection is then made to the very address
  that was checked, so that a name that changes in between (DNS rebinding) gains nothing. TLS still names the host, and
  its certificate must be the host's;
- redirects are refused, answers are bounded, one deadline covers the whole call, proxies of the environment are not
  read, and a URL with a user or a password in it is refused.

`settings.ALLOW_PRIVATE_HOSTS` (HEADROOM_ALLOW_PRIVATE_HOSTS) names hosts (`host` or `host:port`) that may lie anywhere.

Which IP addresses lie on the public internet: the ones the server may call for somebody.

The networks are those of IANA's special-purpose registries (RFC 6890 and what came after), written out, because
`ipaddress.is_global` answers differently from one Python version to the next.
"""

import json as json_module
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any
from urllib.parse import urlencode

import httpcore
import httpx
from django.conf import settings

from stack.outside import trusted

Address = IPv4Address | IPv6Address

NOT_PUBLIC_V4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host, reachable from inside only
        "169.254.0.0/16",  # link-local: the clouds' metadata services
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
# Everything public lies in 2000::/3. Mapped (::ffff:0:0/96), compatible (::/96), NAT64 (64:ff9b::/96, 64:ff9b:1::/48),
# unique-local, link-local, site-local and multicast addresses lie outside of it.
PUBLIC_V6 = IPv6Network("2000::/3")
NOT_PUBLIC_V6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address inside
        "3fff::/20",  # documentation
    )
]


def is_public(address: str) -> bool:
    """Whether a resolved address is one of the public internet. Anything that is not an address is not."""
    parsed = literal_address(address)
    if isinstance(parsed, IPv4Address):
        return not any(parsed in network for network in NOT_PUBLIC_V4)
    if parsed is None or parsed.scope_id or parsed not in PUBLIC_V6:
        return False
    # ISATAP (RFC 5214): an interface identifier `[02]00:5efe` followed by an IPv4 address.
    is_embedded = (int(parsed) >> 32) & 0xFDFFFFFF == 0x00005EFE
    return not is_embedded and not any(parsed in network for network in NOT_PUBLIC_V6)


def literal_address(host: str) -> Address | None:
    """The address that a host spells out in the one accepted way, without brackets; None for anything else."""
    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except ValueError:
        return None


def looks_numeric(host: str) -> bool:
    """Whether a host would be read as an IPv4 address by a system's resolver (`127.1`, `0x7f000001`, `017700000001`):
    its last label is a number, as the URL standard puts it."""
    last = host.rstrip(".").rpartition(".")[2]
    return re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last, re.IGNORECASE) is not None


MAX_BYTES = 1024 * 1024
REDIRECTS = {301, 302, 303, 307, 308}
NEVER_PUBLIC = ("localhost", "local", "internal", "localdomain", "home.arpa", "onion", "invalid", "test")


class Refused(Exception):
    """The call is not made, or its answer not read, because a rule above forbids it. The text may be shown."""


class Failed(Exception):
    """The network or the other side failed: no such host, no connection, no answer in time. The text may be shown."""


@dataclass(frozen=True)
class Response:
    """An answer: `headers` with names in lower case, `body` of at most MAX_BYTES, as it was sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON. Raises Failed."""
        try:
            return json_module.loads(self.body)
        except ValueError as error:
            raise Failed("The answer is not JSON.") from error


@dataclass(frozen=True)
class Target:
    """Where a checked URL leads: `host` in ASCII without brackets."""

    scheme: str
    host: str
    port: int
    path: bytes
    allowed: bool

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


def check_url(url: str) -> None:
    """Raise Refused for a URL that can never be called. No name is resolved here: each request does that."""
    _target(url)


def _resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the system's order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True)
class Client:
    """What `request` uses. `resolve` gives a name's addresses, `connect` opens a socket to an address, `trust` checks
    certificates (None: the installation's authorities)."""

    resolve: Callable[[str, int], Iterable[str]] = _resolve
    connect: Callable[[tuple[str, int], float], socket.socket] = socket.create_connection
    trust: ssl.SSLContext | None = None
    max_bytes: int = MAX_BYTES

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        data: Mapping[str, str] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> Response:
        """Call `url` and give back its answer, whatever its status but a redirect. Raises Refused, Failed.

        `json` is sent as JSON, a mapping as `data` as a form, bytes as they are. `timeout_s` is for the whole call.
        """
        target = _target(url)
        content, kind = _content(json, data)
        sent = {"user-agent": "Headroom", "accept-encoding": "identity", **kind}
        sent |= {name.lower(): value for name, value in (headers or {}).items()} | {"host": target.netloc}
        deadline = time.monotonic() + timeout_s
        backend = _Pinned(self._addresses(target), self.connect, deadline)
        with httpcore.ConnectionPool(self.trust or trusted(), network_backend=backend, http2=False) as pool:
            try:
                return self._exchange(pool, method, target, sent, content, deadline)
            except httpcore.TimeoutException as error:
                raise Failed(f"{target.host} did not answer in time.") from error
            except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
                raise Failed(f"The connection to {target.host} failed.") from error
            except (httpcore.LocalProtocolError, ValueError) as error:  # a header that cannot be sent
                raise Refused("The request cannot be written as HTTP.") from error

    def _addresses(self, target: Target) -> list[str]:
        """The addresses to try, all of them checked: one private address among public ones refuses the name."""
        literal = literal_address(target.host)
        try:
            found = [str(literal)] if literal else list(self.resolve(target.host, target.port))
        except (OSError, UnicodeError) as error:
            raise Failed(f"No address is known for {target.host}.") from error
        if not found:
            raise Failed(f"No address is known for {target.host}.")
        if not target.allowed and not all(is_public(address) for address in found):
            raise Refused(f"The host {target.host} is not on the public internet.")
        return found

    def _exchange(
        self,
        pool: httpcore.ConnectionPool,
        method: str,
        target: Target,
        headers: Mapping[str, str],
        content: bytes,
        deadline: float,
    ) -> Response:
        url = httpcore.URL(
            scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.path
        )
        left = max(0.001, deadline - time.monotonic())
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), left)
        with pool.stream(
            method, url, headers=list(headers.items()), content=content, extensions={"timeout": timeout}
        ) as answer:
            if answer.status in REDIRECTS:
                raise Refused(f"{target.host} answered with a redirect, which is not followed.")
            got = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
            return Response(answer.status, got, self._body(answer, target))

    def _body(self, answer: httpcore.Response, target: Target) -> bytes:
        body = bytearray()
        for chunk in answer.iter_stream():
            body += chunk
            if len(body) > self.max_bytes:
                raise Refused(f"The answer of {target.host} is larger than {self.max_bytes} bytes.")
        return bytes(body)


request = Client().request


def _content(json: Any, data: Mapping[str, str] | bytes | None) -> tuple[bytes, dict[str, str]]:
    if json is not None:
        return json_module.dumps(json).encode(), {"content-type": "application/json"}
    if isinstance(data, bytes):
        return data, {}
    if data is not None:
        return urlencode(data).encode(), {"content-type": "application/x-www-form-urlencoded"}
    return b"", {}


def _target(url: str) -> Target:
    """The URL taken apart by one parser, whose parts are also those that are called. Raises Refused."""
    if url != url.strip() or any(ord(letter) < 33 or letter == "\\" for letter in url):
        raise Refused("The address has a character in it that no address has.")
    try:
        parsed = httpx.URL(url)
        host = parsed.raw_host.decode("ascii").lower().rstrip(".")
        port = {"https": 443, "http": 80}.get(parsed.scheme, 0) if parsed.port is None else parsed.port
    except (httpx.InvalidURL, UnicodeError, ValueError, TypeError) as error:
        raise Refused("This is not an address of the web.") from error
    if parsed.scheme not in ("https", "http") or not host or port not in range(1, 65536):
        raise Refused("The address must start with https://.")
    if parsed.userinfo:
        raise Refused("The address must not have a user or a password in it.")
    allowed = bool({host, f"{host}:{port}", f"[{host}]:{port}"} & set(settings.ALLOW_PRIVATE_HOSTS))
    if parsed.scheme == "http" and not (allowed or settings.DEBUG):
        raise Refused("The address must start with https://.")
    if not allowed:
        _check_host(host)
    return Target(parsed.scheme, host, port, parsed.raw_path or b"/", allowed)


def _check_host(host: str) -> None:
    if (literal := literal_address(host)) is None:
        if looks_numeric(host) or ":" in host or "%" in host:
            raise Refused("Write an IP address as four decimal numbers.")
        if "." not in host or any(host == name or host.endswith(f".{name}") for name in NEVER_PUBLIC):
            raise Refused(f"The host {host} is not on the public internet.")
    elif not is_public(str(literal)):
        raise Refused(f"The host {host} is not on the public internet.")


@dataclass
class _Pinned(httpcore.NetworkBackend):
    """Connects to the addresses that were checked, whatever host httpcore asks for."""

    addresses: list[str]
    connect: Callable[[tuple[str, int], float], socket.socket]
    deadline: float

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        for address in self.addresses:
            try:
                return _Stream(self.connect((address, port), _left(self.deadline)), self.deadline)
            except TimeoutError as error:
                raise httpcore.ConnectTimeout() from error
            except OSError:
                continue
        raise httpcore.ConnectError("no address answers")


@dataclass
class _Stream(httpcore.NetworkStream):
    """A socket each of whose waits ends at the call's deadline: an answer that drips cannot hold a worker."""

    socket: socket.socket
    deadline: float

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _mapped(httpcore.ReadTimeout, httpcore.ReadError):
            self.socket.settimeout(_left(self.deadline))
            return self.socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _mapped(httpcore.WriteTimeout, httpcore.WriteError):
            self.socket.settimeout(_left(self.deadline))
            self.socket.sendall(buffer)

    def close(self) -> None:
        self.socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        with _mapped(httpcore.ConnectTimeout, httpcore.ConnectError):
            try:
                self.socket.settimeout(_left(self.deadline))
                wrapped = ssl_context.wrap_socket(self.socket, server_hostname=server_hostname)
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise Failed(f"The certificate of {server_hostname} is not trusted.") from error
            except BaseException:
                self.close()
                raise
        return _Stream(wrapped, self.deadline)

    def get_extra_info(self, info: str) -> Any:
        return None


@contextmanager
def _mapped(timeout: type[Exception], error: type[Exception]) -> Iterator[None]:
    """Turns a socket's errors into httpcore's."""
    try:
        yield
    except TimeoutError as raised:
        raise timeout(str(raised)) from raised
    except OSError as raised:
        raise error(str(raised)) from raised


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline of the call has passed")
    return left
