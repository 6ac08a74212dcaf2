"""gunicorn with our worker: slow clients take no thread, and everything else is answered as before."""

import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest

from stack.ports import free_port
from stack.receiving import BEGINNING, MOST_BODY
from tests.stack.wsgi_echo import LONG
from tests.waiting import wait_until

SLOW = 300
HEAD = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
CHUNKED = HEAD.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked")
UPLOAD = HEAD.replace(b"1000", b"%d" % (2 * MOST_BODY)) + b"x" * BEGINNING


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving("stack.web_worker.Worker", tmp_path_factory.mktemp("home")) as port:
        yield port


@pytest.fixture(scope="module")
def hasty_server(tmp_path_factory):
    with serving("tests.stack.hasty.Worker", tmp_path_factory.mktemp("home")) as port:
        yield port


@contextmanager
def serving(worker, folder):
    """One process with two threads."""
    port = free_port()
    command = [
        sys.executable, "-m", "gunicorn", "tests.stack.wsgi_echo", "--worker-class", worker,
        "--workers", "1", "--threads", "2", "--bind", f"127.0.0.1:{port}", "--no-control-socket",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=os.environ | {"HEADROOM_HOME": str(folder)}, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(url), 60)
        yield port
    finally:
        process.terminate()
        process.wait(60)
    assert "Traceback" not in (folder / "log").read_text()


def answers(url):
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def client(server):
    with httpx.Client(base_url=f"http://127.0.0.1:{server}", trust_env=False, timeout=60) as client:
        yield client


@pytest.mark.parametrize(
    "begin",
    [b"GET /slow HTTP/1.1\r\nHost: a\r\n", HEAD + b"x", b"", CHUNKED + b"5\r\nab", UPLOAD],
    ids=["heads", "bodies", "silent", "chunks", "uploads"],
)
def test_hundreds_of_slow_clients_take_no_thread(server, begin):
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", server))) for _ in range(SLOW)]
        for one in slow:
            one.sendall(begin)

        for _ in range(20):
            with httpx.Client(trust_env=False, timeout=60) as client:
                assert client.get(f"http://127.0.0.1:{server}/page").text == "GET /page 0"
        long = httpx.post(f"http://127.0.0.1:{server}/size", content=b"x" * (MOST_BODY + 1), trust_env=False)
        assert long.text == f"POST /size {MOST_BODY + 1}"


@pytest.mark.parametrize("framing", [b"Content-Length: 100000000", b"Transfer-Encoding: chunked"])
def test_who_may_not_upload_is_told_before_the_upload(server, framing):
    """The application has not read it."""
    body = b"2000000\r\n" + b"x" * (MOST_BODY + 1) if b"chunked" in framing else b"x" * BEGINNING
    with socket.create_connection(("127.0.0.1", server), timeout=20) as sock:
        sock.sendall(b"POST /unread HTTP/1.1\r\nHost: a\r\n" + framing + b"\r\n\r\n" + body)
        said = b"".join(taken(sock))

    assert said.endswith(b"POST /unread 0") and b"\r\nConnection: close\r\n" in said


def taking_nothing(port, path):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    sock.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
    return sock


@pytest.mark.parametrize("path", [b"/file", b"/made"])
def test_who_takes_nothing_of_a_long_answer_takes_no_thread(server, client, path):
    with ExitStack() as stack:
        for _ in range(6):
            assert stack.enter_context(taking_nothing(server, path)).recv(8) == b"HTTP/1.1"

        for _ in range(5):
            assert client.get("/page", timeout=10).text == "GET /page 0"


@pytest.mark.parametrize("path", ["/file", "/made"])
def test_long_answers_arrive_whole_and_the_connection_stays(client, path):
    assert client.get(path).content == b"x" * LONG
    assert client.get("/page").text == "GET /page 0"


@pytest.mark.parametrize("path", [b"/file", b"/made"])
def test_who_takes_a_long_answer_too_slowly_is_left(hasty_server, path):
    with taking_nothing(hasty_server, path) as sock:
        time.sleep(2)
        sock.settimeout(10)
        assert sum(len(piece) for piece in taken(sock)) < LONG


def taken(sock):
    with suppress(ConnectionResetError):
        yield from iter(lambda: sock.recv(65536), b"")


def test_clients_that_do_not_close_take_no_time(server, client):
    with ExitStack() as stack:
        for _ in range(20):
            lazy = stack.enter_context(socket.create_connection(("127.0.0.1", server)))
            lazy.sendall(b"GET /lazy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        began = time.monotonic()
        assert client.get("/page").text == "GET /page 0"
        assert time.monotonic() - began < 20  # gunicorn's own loop waits two seconds for each


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_000_000, MOST_BODY, MOST_BODY + 1_000_000])
def test_bodies_of_every_size_arrive_whole(client, size):
    assert client.post("/size", content=b"x" * size).text == f"POST /size {size}"


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_connection_outlives_a_body_that_nobody_reads(client, size):
    assert client.post("/unread", content=b"x" * size).text == "POST /unread 0"
    assert client.post("/size", content=b"abc").text == "POST /size 3"


@pytest.mark.parametrize("size", [0, 50_000, 40_000_000])
def test_a_body_in_pieces_arrives_whole(client, size):
    pieces = (b"x" * 10_000 for _ in range(size // 10_000))
    assert client.post("/pieces", content=pieces).text == f"POST /pieces {size}"
    assert client.get("/page").text == "GET /page 0"


@pytest.mark.parametrize(
    "request_",
    [CHUNKED + b"x", CHUNKED.replace(b"chunked", b"gzip"), CHUNKED.replace(b"1.1", b"1.0") + b"0\r\n\r\n",
     CHUNKED.replace(b"Host", b"Content-Length: 5\r\nHost") + b"0\r\n\r\n"],
    ids=["no-chunks", "not-chunked", "old", "two-lengths"],
)  # fmt: skip
def test_a_body_without_a_sure_end_is_refused(server, request_):
    with socket.create_connection(("127.0.0.1", server), timeout=20) as sock:
        sock.sendall(request_ + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        said = b"".join(taken(sock))

    assert said.startswith(b"HTTP/1.1 400 ") and b"smuggled" not in said


def test_a_body_that_breaks_off_is_nobodys(server, client):
    for begin in (CHUNKED + b"5\r\nhello\r\n", UPLOAD):
        with socket.create_connection(("127.0.0.1", server), timeout=20) as sock:
            sock.sendall(begin)
            sock.shutdown(socket.SHUT_WR)
            assert b"".join(taken(sock)) == b""

    assert client.get("/page").text == "GET /page 0"


def test_the_slowest_goes_where_bodies_take_too_much_of_the_disk(hasty_server):
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(socket.create_connection(("127.0.0.1", hasty_server))) for _ in "ab"
        )
        first.sendall(HEAD.replace(b"1000", b"1000000") + b"x" * 400_000)
        second.sendall(HEAD.replace(b"1000", b"1000000") + b"x" * 800_000)
        first.settimeout(20)
        assert first.recv(100).startswith(b"HTTP/1.1 503 ")
        second.sendall(b"x" * 200_000)
        assert second.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("path", "kind"), [("/api/v1/runs?q=", "application/json"), ("/runs?q=", "text/html")]
)
def test_an_address_that_is_too_long_is_refused_in_the_form_of_who_asks(client, path, kind):
    answer = client.get(path + "x" * 5000)

    assert (answer.status_code, answer.headers["Content-Type"]) == (414, kind)
    if kind == "application/json":
        assert answer.json()["error"]["message"].startswith("URI Too Long: ")


def test_requests_one_behind_the_other(server):
    with socket.create_connection(("127.0.0.1", server), timeout=10) as sock:
        sock.sendall(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n" + HEAD.replace(b"1000", b"3") + b"abc" +
                     b"GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")  # fmt: skip
        said = b"".join(iter(lambda: sock.recv(65536), b""))

    assert [line for line in (b"GET /1 0", b"POST /slow 3", b"GET /3 0") if line in said] == [
        b"GET /1 0", b"POST /slow 3", b"GET /3 0",
    ]  # fmt: skip


def test_who_waits_for_a_word_before_the_body_gets_it(server):
    with socket.create_connection(("127.0.0.1", server), timeout=10) as sock:
        sock.sendall(HEAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"))
        assert sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"x" * 1000)
        said = b"".join(iter(lambda: sock.recv(65536), b""))

    assert said.startswith(b"HTTP/1.1 200 ") and said.endswith(b"POST /slow 1000")


@pytest.mark.parametrize("begin", [b"GET /slow HTTP/1.1\r\n", HEAD + b"x", CHUNKED + b"5\r\nab"])
def test_what_never_ends_is_answered_in_words(hasty_server, begin):
    with socket.create_connection(("127.0.0.1", hasty_server), timeout=20) as sock:
        sock.sendall(begin)
        said = b"".join(iter(lambda: sock.recv(65536), b""))

    assert said.startswith(b"HTTP/1.1 408 ")


def test_who_says_nothing_is_left(hasty_server):
    with socket.create_connection(("127.0.0.1", hasty_server), timeout=20) as sock:
        assert sock.recv(65536) == b""
