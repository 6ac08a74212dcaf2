"""Requests as they arrive: what is whole, what is too slow, what a thread has to read."""

import socket

import pytest

from stack import receiving
from stack.receiving import Receiving, Source

HEAD = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"


def received(*pieces, now=100.0):
    one = Receiving(began=now)
    for piece in pieces:
        one.take(piece)
    return one


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_request_is_whole_with_its_last_byte_however_it_comes(size):
    whole, one = HEAD + b"hello", Receiving()
    for i in range(0, len(whole), size):
        assert not one.is_whole
        one.take(whole[i : i + size])

    assert one.is_whole
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


def test_a_long_body_and_one_in_pieces_are_for_a_thread_to_read():
    assert received(HEAD.replace(b"5", b"1000000000")).is_long
    chunked = received(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
    assert chunked.is_long and chunked.is_whole


@pytest.mark.parametrize(
    "lengths", [b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: -1", b"Content-Length: x"]
)
def test_what_makes_no_sense_is_for_gunicorn_to_refuse(lengths):
    assert received(b"POST / HTTP/1.1\r\n" + lengths + b"\r\n\r\n").is_whole


def test_a_head_without_end_is_for_gunicorn_to_refuse():
    assert received(b"GET /" + b"x" * (receiving.MOST_HEAD + 1)).is_whole


def test_a_body_beyond_the_memory_is_a_file():
    one = received(HEAD.replace(b"5", b"2000000"))
    assert one.on_disk == 2_000_000
    one.take(b"x" * 2_000_000)

    assert one.is_whole
    assert one.body._rolled
    one.close()


def test_what_comes_behind_a_request_is_of_the_next():
    left, right = socket.socketpair()
    source = Source(left)
    source.give(received(HEAD + b"helloGET /next"))

    assert source.recv(1000) == HEAD
    assert source.recv(5) == b"hello"
    assert source.rest() == b"GET /next"
    assert source.recv(10) == b""
    left.close(), right.close()


def test_a_thread_that_reads_a_long_body_waits_no_longer_than_its_deadline():
    left, right = socket.socketpair()
    source = Source(left)
    long = received(HEAD.replace(b"5", b"1000000000") + b"begin", now=0.0)  # long ago
    source.give(long)

    assert source.recv(1000).startswith(b"POST")
    assert source.recv(1000) == b"begin"
    with pytest.raises(TimeoutError, match="too slowly"):
        source.recv(1000)
    left.close(), right.close()
