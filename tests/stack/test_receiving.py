"""Requests as they arrive: what is whole, what is too slow, what the application is asked about first."""

import pytest

from stack import receiving
from stack.receiving import BEGINNING, IN_MEMORY, MOST_BODY, Broken, NotArrived, Receiving, Source

HEAD = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def received(*pieces, now=100.0):
    one = Receiving(began=now)
    for piece in pieces:
        one.take(piece)
    return one


def whole_at_its_end(data, size):
    """What was received of it in pieces of so many bytes."""
    one = Receiving()
    for i in range(0, len(data), size):
        assert not one.is_whole
        one.take(data[i : i + size])
    assert one.is_whole
    return one


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_request_is_whole_with_its_last_byte_however_it_comes(size):
    one = whole_at_its_end(HEAD + b"hello", size)

    assert bytes(one.head) == HEAD


def test_a_request_without_a_body_is_whole_with_its_head():
    assert received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_whole
    assert not received(b"GET / HTTP/1.1\r\nHost: a\r\n").is_whole


def test_a_head_has_ten_seconds_however_it_drips():
    one = received(b"GET / HTTP/1.1\r\n")
    for _ in range(100):
        one.take(b"X")

    assert one.deadline() == 110


def test_a_body_has_as_long_as_it_keeps_coming():
    one = received(HEAD.replace(b"5", b"100000"))
    slow = one.deadline()
    one.take(b"x" * 40960)

    assert (slow, one.deadline()) == (120, 130)


def body_of(one):
    source = Source()
    source.give(one)
    return read(source).partition(b"\r\n\r\n")[2]


def read(source):
    return b"".join(iter(lambda: source.recv(65536), b""))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_chunks_are_a_body_of_known_length_however_they_come(size):
    one = whole_at_its_end(CHUNKED + b"3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nLast: yes\r\n\r\n", size)

    assert one.head_now() == CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: 5")
    assert body_of(one) == b"hello"


@pytest.mark.parametrize(
    "body",
    [
        b"x\r\n", b"-1\r\n", b"0x5\r\n", b"5 \r\nhello\r\n", b"5\nhello\n", b"5\r\nhelloX", b"0\r\nno trailer\r\n\r\n",
        b"10000000000000000\r\n", b"5;" + b"a" * IN_MEMORY, b"0\r\nA: " + b"a" * IN_MEMORY,
    ],
)  # fmt: skip
def test_what_are_no_chunks_is_refused(body):
    with pytest.raises(Broken):
        received(CHUNKED + body)


def test_the_smallest_chunks_are_chunks():
    assert received(CHUNKED + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n").length == 100_000


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
     b"Transfer-Encoding: chunked, gzip", b"Transfer-Encoding : chunked\r\nTransfer-Encoding: chunked"],
)  # fmt: skip
def test_what_says_twice_how_it_ends_reaches_gunicorn_as_it_came(framing):
    head = CHUNKED.replace(b"Transfer-Encoding: chunked", framing)
    one = received(head + b"0\r\n\r\n")

    assert one.is_whole and one.head_now() == head


def test_behind_chunks_nobody_knows_where_the_next_request_begins():
    source = Source()
    for body, is_known in ((b"0\r\n\r\n", True), (b"0\r\n\r\nGET", False), (b"0\r\n\r\n\0", False)):
        source.give(received(CHUNKED + body))
        assert source.is_whole == is_known


def test_of_a_long_body_the_application_is_asked_with_its_beginning():
    one = received(HEAD.replace(b"5", b"%d" % (MOST_BODY + 1)) + b"x" * BEGINNING)
    assert one.is_ready and not one.is_whole
    source = Source()
    source.give(one)
    with pytest.raises(NotArrived):
        read(source)

    assert source.take_back() is one and not one.is_ready
    one.take(b"y" * (MOST_BODY + 1 - BEGINNING))
    assert one.is_whole and body_of(one).endswith(b"xy" + b"y" * (MOST_BODY - BEGINNING))


def test_of_chunks_without_end_it_is_asked_whenever_they_have_doubled():
    one, asked = received(CHUNKED + b"ffffffffffffffff\r\n"), []
    for _ in range(70):
        one.take(b"x" * 1_000_000)
        if one.is_ready:
            asked.append(one.received)
            assert b"Content-Length: %d\r\n" % (one.received + 1) in one.head_now()
            one.go_on()

    assert asked == [18_000_000, 36_000_000]


def test_chunks_that_drip_end_as_other_bodies_do():
    one = received(CHUNKED)
    for _ in range(1000):
        one.take(b"1;a\r\nx\r\n")

    assert one.deadline() == 120 + 1000 / receiving.LEAST_RATE


def test_who_waits_for_a_word_gets_one_alone():
    one = received(HEAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))

    assert one.expects and one.head_now() == HEAD  # gunicorn would say it, too


@pytest.mark.parametrize(
    "lengths", [b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: -1", b"Content-Length: x"]
)
def test_what_makes_no_sense_is_for_gunicorn_to_refuse(lengths):
    assert received(b"POST / HTTP/1.1\r\n" + lengths + b"\r\n\r\n").is_whole


def test_a_head_without_end_is_for_gunicorn_to_refuse():
    assert received(b"GET /" + b"x" * (receiving.MOST_HEAD + 1)).is_whole


def test_a_body_beyond_the_memory_is_a_file():
    one = received(HEAD.replace(b"5", b"2000000"))
    assert one.on_disk == 0
    one.take(b"x" * 2_000_000)

    assert one.is_whole and one.on_disk == 2_000_000
    assert one.body._rolled
    one.close()


def test_what_comes_behind_a_request_is_of_the_next():
    source = Source()
    source.give(received(HEAD + b"helloGET /next"))

    assert source.recv(1000) == HEAD
    assert source.recv(5) == b"hello"
    assert source.rest() == b"GET /next"
    assert source.recv(10) == b""
