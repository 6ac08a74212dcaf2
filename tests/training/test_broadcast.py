import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import torch

from tests.training.test_transfer import tensors
from training.addresses import Group, free_address
from training.broadcast import Meeting, Receiver, Sender, plan
from training.transfer import TransferError, checksum

TIMEOUT = 20.0
RECEIVE_IN_A_PROCESS = """
import sys
from tests.training.test_transfer import tensors
from training.addresses import Group
from training.broadcast import Meeting, Receiver, plan
from training.transfer import checksum
receiver = Receiver(Meeting(sys.argv[1], timeout=60.0), Group(1, 3), int(sys.argv[2]))
for seed in range(2):
    print(checksum(receiver.receive(plan(tensors().items()))))
"""


def together(*calls: Callable[[], Any]) -> list[Future]:
    """All calls at the same time, to their ends."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [pool.submit(call) for call in calls]


@pytest.fixture
def group() -> list[Any]:
    """A sender and two receivers, joined."""
    return joined(Group(1, 3), *meetings(3))


def meetings(count: int, timeout: float = TIMEOUT) -> list[Meeting]:
    """Of a sender, and of others."""
    address = free_address("127.0.0.1")
    return [Meeting(address, listens=number == 0, timeout=timeout) for number in range(count)]


def joined(group: Group, sender: Meeting, *receivers: Meeting, sends: type[Sender] = Sender) -> list[Any]:
    """A group of these."""
    calls = [lambda rank=rank, m=m: Receiver(m, group, rank) for rank, m in enumerate(receivers, start=1)]
    return [future.result() for future in together(lambda: sends(sender, group), *calls)]


@pytest.mark.parametrize("bucket_bytes", [1, 100, 1 << 20])
def test_receivers_get_what_was_sent(group: list[Any], bucket_bytes: int) -> None:
    sender, *receivers = group
    for seed in range(3):
        sent = tensors(seed)
        value, *received = together(
            lambda sent=sent: sender.send(sent.items(), bucket_bytes),
            *(lambda r=r, sent=sent: dict(r.receive(plan(sent.items()))) for r in receivers),
        )

        assert value.result() == checksum(sent.items())
        for future in received:
            got = future.result()
            assert list(got) == list(sent)
            assert all(torch.equal(got[name], tensor) for name, tensor in sent.items())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda t: t | {"head": t["head"].float()}, "head is float32"),
        (lambda t: t | {"head": t["head"].reshape(-1)}, r"head is bfloat16 \(24,\)"),
        (lambda t: t | {"tail": t["head"]}, "tail is bfloat16 .* planned was nothing"),
        (lambda t: {"embed": t["embed"]}, "never came"),
    ],
    ids=["dtype", "shape", "unplanned", "missing"],
)
def test_another_plan_is_refused_and_both_sides_say_why(
    group: list[Any], change: Callable[[dict], dict], complaint: str
) -> None:
    sender, *receivers = group
    planned = plan(tensors().items())

    results = together(
        lambda: sender.send(change(tensors()).items()),
        *(lambda r=r: list(r.receive(planned)) for r in receivers),
    )

    for future in results:
        with pytest.raises(TransferError, match=complaint):
            future.result()


class BadCable(Sender):
    """Flips one bit on the way."""

    def _broadcast(self, data: torch.Tensor, meanwhile: Callable[[], None]) -> None:
        data[5] ^= 1
        super()._broadcast(data, meanwhile)


def test_a_changed_bit_is_noticed_by_the_receiver_and_told_to_the_sender() -> None:
    sender, receiver = joined(Group(1, 2), *meetings(2), sends=BadCable)

    results = together(
        lambda: sender.send(tensors().items()), lambda: list(receiver.receive(plan(tensors().items())))
    )

    for future in results:
        with pytest.raises(TransferError, match="rank 1.*did not arrive as they were sent"):
            future.result()


def test_a_receiver_that_never_joins_is_named() -> None:
    first, second = meetings(2, timeout=1.0)

    with pytest.raises(TransferError, match=r"waited 1 s for rank \[1, 2\] to join"):
        Sender(first, Group(1, 3))
    first.give_up(1, "rank 2 died")
    with pytest.raises(TransferError, match="rank 1 .* given up, rank 2 died"):
        Receiver(second, Group(1, 3), 1)


def test_a_sender_that_never_listens_is_an_error() -> None:
    with pytest.raises(TransferError, match="could not reach the trainer"):
        Meeting(free_address("127.0.0.1"), timeout=1.0)


def test_a_receiver_that_does_not_ask_for_the_weights_is_named() -> None:
    sender, _ = joined(Group(1, 2), *meetings(2, timeout=2.0))

    with pytest.raises(TransferError, match=r"rank \[1\] to take a bucket"):
        sender.send(tensors().items())


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("is_silent", [True, False], ids=["takes_no_bucket", "stops_in_a_bucket"])
def test_a_group_of_which_one_has_died_is_given_up_and_the_others_make_another(
    rank: int, is_silent: bool
) -> None:
    """Sender and survivor are told within moments, wherever they wait."""
    first, second, third = meetings(3)
    sender, *receivers = joined(Group(1, 3), first, second, third)
    survivor, dead = receivers[2 - rank], receivers[rank - 1]
    sent = tensors()
    planned = plan(sent.items())
    failed: list[str] = []

    def fails(work: Callable[[], Any]) -> None:
        with pytest.raises(TransferError, match="given up, generator 1 died"):
            work()
        failed.append("")

    works = [lambda: sender.send(sent.items()), lambda: list(survivor.receive(planned))]
    threads = [threading.Thread(target=fails, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    if not is_silent:  # it has confirmed the first bucket, and takes no part in the broadcast of it
        dead._said("1/0", "the first bucket")
        dead._set(f"1/0/{rank}", "")
        survivor._wait([f"1/0/{rank}", f"1/0/{3 - rank}"], time.monotonic() + TIMEOUT)

    third.give_up(1, "generator 1 died")

    for thread in threads:
        thread.join(TIMEOUT)
    assert len(failed) == 2
    sender, receiver = joined(Group(2, 2), first, second)
    value, received = together(lambda: sender.send(sent.items()), lambda: dict(receiver.receive(planned)))
    assert value.result() == checksum(sent.items()) == checksum(received.result().items())


def test_a_receiver_that_dies_between_joining_and_connecting_is_given_up() -> None:
    """The sender and the others are told within moments, and make another group."""
    first, second, third = meetings(3)
    third.of_group(1).set("joined/2", "")
    threads = ThreadPoolExecutor(2)
    waiting = [threads.submit(Sender, first, Group(1, 3)), threads.submit(Receiver, second, Group(1, 3), 1)]
    first.of_group(1).wait(["complete"])

    third.give_up(1, "generator 1 died")

    for future in waiting:
        with pytest.raises(TransferError, match="given up, generator 1 died"):
            future.result(TIMEOUT / 2)  # connecting gives up by itself only after TIMEOUT
    threads.shutdown()
    sender, receiver = joined(Group(2, 2), first, second)
    sent = tensors()
    value, received = together(
        lambda: sender.send(sent.items()), lambda: dict(receiver.receive(plan(sent.items())))
    )
    assert value.result() == checksum(sent.items()) == checksum(received.result().items())


def test_processes_receive_the_same_checksum() -> None:
    address = free_address("127.0.0.1")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", RECEIVE_IN_A_PROCESS, address, str(rank)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (1, 2)
    ]
    sender = Sender(Meeting(address, listens=True, timeout=60.0), Group(1, 3))
    sent = [str(sender.send(tensors(seed).items())) for seed in range(2)]

    assert [child.communicate(timeout=60)[0].split() for child in children] == [sent, sent]
