import socket
import ssl
import threading
import time

import pytest

from stack.outside import trusted
from tests.web_server import certificate, send, serving
from webapp.base import outbound
from webapp.base.outbound import Client, Failed, Refused


@pytest.fixture
def allowed(settings):
    def allow(*hosts):
        settings.ALLOW_PRIVATE_HOSTS = list(hosts)

    allow()
    return allow


def hello(handler, asked):
    send(handler, 200, b'{"hello": 1}', {"Content-Type": "application/json", "X-Two": "b"})


class Names:
    """A resolver that answers each time with the next of its answers, and counts."""

    def __init__(self, *answers):
        self.answers, self.count = list(answers), 0

    def __call__(self, host, port):
        self.count += 1
        return self.answers[min(self.count, len(self.answers)) - 1]


class Dialled:
    """Notes which address is dialled and connects to the tests' server instead."""

    def __init__(self, port):
        self.port, self.seen = port, []

    def __call__(self, address, timeout):
        self.seen.append(address)
        return socket.create_connection(("127.0.0.1", self.port), timeout)


def test_a_call_to_an_allowed_host(allowed):
    with serving(hello) as server:
        allowed(f"127.0.0.1:{server.port}")
        answer = outbound.request("POST", f"{server.url}/a?b=c", json={"x": 1}, headers={"X-Mine": "1"})
    assert (answer.status, answer.json(), answer.headers["x-two"]) == (200, {"hello": 1}, "b")
    [asked] = server.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/a?b=c", b'{"x": 1}')
    assert asked.headers["host"] == f"127.0.0.1:{server.port}"
    assert asked.headers["content-type"] == "application/json" and asked.headers["x-mine"] == "1"


def test_forms_and_bytes(allowed):
    with serving(hello) as server:
        allowed("127.0.0.1")
        outbound.request("POST", server.url, data={"a": "b c"})
        outbound.request("POST", server.url, data=b"raw", headers={"Content-Type": "text/plain"})
    assert [(a.body, a.headers["content-type"]) for a in server.asked] == [
        (b"a=b+c", "application/x-www-form-urlencoded"),
        (b"raw", "text/plain"),
    ]


def test_an_allowance_with_a_port_is_for_that_port_only(allowed):
    with serving(hello) as server:
        allowed("127.0.0.1:1")
        with pytest.raises(Refused):
            outbound.request("GET", server.url)
    assert server.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "//example.com/",
        "example.com",
        "https://",
        "https:///x",
        "https://user@example.com/",
        "https://user:word@example.com/",
        "https://example.com\\@127.0.0.1/",
        "https://exa mple.com/",
        "https://example.com/\r\nX: y",
        " https://example.com/",
        "https://example.com:99999/",
        "https://example.com:x/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://a.localhost/",
        "https://intranet/",
        "https://metadata.google.internal/",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://0x7f.1/",
        "https://8.8.2056/",
        "https://127.0.0.1./",
        "https://①②⑦.0.0.1/",
        "https://１２７.0.0.1/",
        "https://127。0。0。1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
        "https://[fe80::1%25eth0]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://10.0.0.1:8443/",
    ],
)
def test_what_no_form_takes(allowed, url):
    with pytest.raises(Refused):
        outbound.check_url(url)
    with pytest.raises(Refused):
        Client(resolve=Names(["127.0.0.1"]), connect=Dialled(1)).request("GET", url)


def test_what_a_form_takes(allowed, settings):
    outbound.check_url("https://hooks.example.com/services/T0/B0?x=1")
    outbound.check_url("https://8.8.8.8:8443/")
    settings.DEBUG = True
    outbound.check_url("http://hooks.example.com/")


@pytest.mark.parametrize(
    "found", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:8.8.8.8"], ["fe80::1%eth0"]]
)
def test_a_name_that_leads_to_a_private_address_is_refused_before_any_connection(allowed, found):
    dialled = Dialled(1)
    with pytest.raises(Refused, match="not on the public internet"):
        Client(resolve=Names(found), connect=dialled).request("GET", "https://rebound.example.com/")
    assert dialled.seen == []


def test_a_name_that_changes_after_the_check_gains_nothing(allowed, settings):
    """DNS rebinding: the name is asked once, and the address that was checked is the one that is dialled."""
    settings.DEBUG = True  # plain http, to speak with the tests' server
    names = Names(["8.8.8.8"], ["127.0.0.1"])
    with serving(hello) as server:
        dialled = Dialled(server.port)
        answer = Client(resolve=names, connect=dialled).request("GET", "http://rebound.example.com/x")
    assert answer.status == 200
    assert names.count == 1
    assert dialled.seen == [("8.8.8.8", 80)]
    assert server.asked[0].headers["host"] == "rebound.example.com"


def test_each_call_checks_again(allowed, settings):
    settings.DEBUG = True
    names = Names(["8.8.8.8"], ["127.0.0.1"])
    with serving(hello) as server:
        client = Client(resolve=names, connect=Dialled(server.port))
        client.request("GET", "http://rebound.example.com/")
        with pytest.raises(Refused):
            client.request("GET", "http://rebound.example.com/")
    assert len(server.asked) == 1


def test_tls_names_the_host_and_its_certificate_is_the_hosts(allowed, tmp_path):
    """The connection goes to an address, but the name asked for (SNI) and checked is the host's."""
    context, trust = certificate("hooks.example.com", tmp_path)
    named = []
    context.sni_callback = lambda sock, name, ctx: named.append(name)
    with serving(hello, context) as server:
        dialled = Dialled(server.port)
        client = Client(resolve=Names(["8.8.8.8"]), connect=dialled, trust=trust)
        assert client.request("GET", "https://hooks.example.com/").status == 200
        with pytest.raises(Failed, match="certificate of other.example.com is not trusted"):
            client.request("GET", "https://other.example.com/")
        with pytest.raises(Failed, match="hooks.example.com is not trusted"):  # nobody vouches for it
            Client(resolve=Names(["8.8.8.8"]), connect=dialled).request("GET", "https://hooks.example.com/")
    assert named == ["hooks.example.com", "other.example.com", "hooks.example.com"]
    assert {address for address, port in dialled.seen} == {"8.8.8.8"} and len(server.asked) == 1


def test_the_next_address_is_tried_when_one_does_not_answer(allowed, settings):
    settings.DEBUG = True
    with serving(hello) as server:

        def connect(address, timeout):
            if address[0] == "8.8.8.8":
                raise ConnectionRefusedError
            return socket.create_connection(("127.0.0.1", server.port), timeout)

        client = Client(resolve=Names(["8.8.8.8", "1.1.1.1"]), connect=connect)
        assert client.request("GET", "http://two.example.com/").status == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_refused(allowed, status):
    with serving(lambda handler, asked: send(handler, status, b"", {"Location": "/elsewhere"})) as server:
        allowed("127.0.0.1")
        with pytest.raises(Refused, match="redirect"):
            outbound.request("GET", server.url)
    assert len(server.asked) == 1


def test_other_statuses_are_answers(allowed):
    with serving(lambda handler, asked: send(handler, 503, b"busy")) as server:
        allowed("127.0.0.1")
        answer = outbound.request("GET", server.url)
    assert (answer.status, answer.body) == (503, b"busy")


def test_a_large_answer_is_not_read_to_its_end(allowed):
    def endless(handler, asked):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100_000):
            handler.wfile.write(b"x" * 65536)

    with serving(endless) as server:
        allowed("127.0.0.1")
        with pytest.raises(Refused, match="larger"):
            outbound.request("GET", server.url)


def test_an_answer_of_the_largest_size_is_taken(allowed):
    with serving(lambda handler, asked: send(handler, 200, b"x" * outbound.MAX_BYTES)) as server:
        allowed("127.0.0.1")
        assert len(outbound.request("GET", server.url).body) == outbound.MAX_BYTES


@pytest.mark.parametrize("head", [True, False])
def test_an_answer_that_drips_ends_at_the_deadline(allowed, head):
    """Each byte comes in time; the whole does not."""
    over = threading.Event()

    def drip(handler, asked):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"X: " if head else b"\r\n"))
        while not over.wait(0.05):
            handler.wfile.write(b"x")

    with serving(drip) as server:
        allowed("127.0.0.1")
        began = time.monotonic()
        with pytest.raises(Failed, match="in time"):
            outbound.request("GET", server.url, timeout_s=0.4)
        assert time.monotonic() - began < 5
        over.set()


def test_nobody_there(allowed):
    allowed("127.0.0.1", "nobody.example.com")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(Failed, match="failed"):
        outbound.request("GET", f"http://127.0.0.1:{port}/")

    def unknown(host, port):
        raise socket.gaierror(-2, "Name or service not known")

    for resolve in (unknown, Names([])):
        with pytest.raises(Failed, match="No address"):
            Client(resolve=resolve).request("GET", "https://nobody.example.com/")


def test_nonsense_instead_of_http(allowed):
    with serving(lambda handler, asked: handler.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n")) as server:
        allowed("127.0.0.1")
        with pytest.raises(Failed):
            outbound.request("GET", server.url)


def test_a_proxy_of_the_environment_is_not_used(allowed, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(hello) as server:
        allowed("127.0.0.1")
        assert outbound.request("GET", server.url).status == 200


def test_a_header_with_a_line_break_is_refused(allowed):
    with serving(hello) as server:
        allowed("127.0.0.1")
        with pytest.raises(Refused):
            outbound.request("GET", server.url, headers={"X-Mine": "a\r\nX-Other: b"})
    assert server.asked == []


def test_an_answer_that_is_not_json(allowed):
    with serving(lambda handler, asked: send(handler, 200, b"<p>")) as server:
        allowed("127.0.0.1")
        with pytest.raises(Failed, match="JSON"):
            outbound.request("GET", server.url).json()


def test_the_certificate_check_is_on_by_default():
    context = trusted()
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname
