"""Weights by NCCL. Two processes share one GPU: told that they are two hosts, NCCL takes its network between them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.test_transfer import tensors
from training.addresses import Group, free_address
from training.broadcast import Meeting, Sender
from training.transfer import TransferError, checksum

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ALONE = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}
RECEIVE = """
import sys, torch
from tests.training.test_transfer import tensors
from training.addresses import Group
from training.broadcast import Meeting, Receiver, plan
from training.transfer import checksum
receiver = Receiver(Meeting(sys.argv[1], timeout=60.0), Group(1, 2), 1, "cuda:0")
for seed in range(3):
    arrived = dict(receiver.receive(plan(tensors().items())))
    assert all(tensor.is_cuda for tensor in arrived.values())
    print(checksum(arrived.items()), flush=True)
    if sys.argv[2] == "dies":
        sys.exit(1)
"""


def sharing_a_gpu(command: list[str], host: str) -> subprocess.Popen[str]:
    """A process that NCCL takes for one of another host."""
    return subprocess.Popen(
        command,
        env={**os.environ, **ALONE, "NCCL_HOSTID": host},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {**ALONE, "NCCL_HOSTID": "trainer"}.items():
        monkeypatch.setenv(name, value)
    return free_address("127.0.0.1")


def test_nccl_brings_what_was_sent(address: str) -> None:
    meeting = Meeting(address, listens=True, timeout=60.0)
    with sharing_a_gpu([sys.executable, "-c", RECEIVE, address, "lives"], "engine") as receiver:
        sender = Sender(meeting, Group(1, 2), "cuda:0")
        sent = [
            sender.send({n: t.cuda() for n, t in tensors(seed).items()}.items(), 100) for seed in range(3)
        ]
        said, _ = receiver.communicate(timeout=60)

    assert sent == [checksum(tensors(seed).items()) for seed in range(3)]
    assert [int(line) for line in said.split()] == sent


def test_a_receiver_that_dies_does_not_hold_the_sender(address: str) -> None:
    meeting = Meeting(address, listens=True, timeout=10.0)
    with sharing_a_gpu([sys.executable, "-c", RECEIVE, address, "dies"], "engine") as receiver:
        sender = Sender(meeting, Group(1, 2), "cuda:0")
        sender.send(tensors().items())
        receiver.wait(timeout=60)

        with pytest.raises(TransferError, match=r"rank \[1\]|rank 0"):
            sender.send(tensors().items())
