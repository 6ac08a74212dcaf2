import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import torch

from tests.training.test_transfer import tensors
from training.addresses import free_address
from training.broadcast import Receiver, Sender, plan
from training.transfer import TransferError, checksum

TIMEOUT = 20.0
RECEIVE_IN_A_PROCESS = """
import sys
from tests.training.test_transfer import tensors
from training.broadcast import Receiver, plan
from training.transfer import checksum
receiver = Receiver(sys.argv[1], int(sys.argv[2]), 3, timeout=60.0)
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
    address = free_address("127.0.0.1")
    joined = together(
        lambda: Sender(address, 3, timeout=TIMEOUT),
        lambda: Receiver(address, 1, 3, timeout=TIMEOUT),
        lambda: Receiver(address, 2, 3, timeout=TIMEOUT),
    )
    return [future.result() for future in joined]


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

    def _broadcast(self, data: torch.Tensor) -> None:
        data[5] ^= 1
        super()._broadcast(data)


def test_a_changed_bit_is_noticed_by_the_receiver_and_told_to_the_sender() -> None:
    address = free_address("127.0.0.1")
    joined = together(
        lambda: BadCable(address, 2, timeout=TIMEOUT), lambda: Receiver(address, 1, 2, timeout=TIMEOUT)
    )
    sender, receiver = (future.result() for future in joined)

    results = together(
        lambda: sender.send(tensors().items()), lambda: list(receiver.receive(plan(tensors().items())))
    )

    for future in results:
        with pytest.raises(TransferError, match="rank 1.*did not arrive as they were sent"):
            future.result()


def test_a_receiver_that_never_joins_is_named() -> None:
    address = free_address("127.0.0.1")

    sender, present = together(
        lambda: Sender(address, 3, timeout=1.0),
        lambda: Receiver(address, 1, 3, timeout=1.0),
    )

    with pytest.raises(TransferError, match=r"waited 1 s for rank \[2\] to join"):
        sender.result()
    with pytest.raises(TransferError, match="rank 1"):
        present.result()


def test_a_sender_that_never_listens_is_an_error() -> None:
    with pytest.raises(TransferError, match="could not reach the trainer"):
        Receiver(free_address("127.0.0.1"), 1, 2, timeout=1.0)


def test_a_receiver_that_does_not_ask_for_the_weights_is_named() -> None:
    address = free_address("127.0.0.1")
    sender, _ = (
        future.result()
        for future in together(
            lambda: Sender(address, 2, timeout=2.0), lambda: Receiver(address, 1, 2, timeout=2.0)
        )
    )

    with pytest.raises(TransferError, match=r"rank \[1\] to take a bucket"):
        sender.send(tensors().items())


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
    sender = Sender(address, 3, timeout=60.0)
    sent = [str(sender.send(tensors(seed).items())) for seed in range(2)]

    assert [child.communicate(timeout=60)[0].split() for child in children] == [sent, sent]
