"""Weights between two Ray nodes of different addresses. Not 127.0.0.1: Ray takes it for another of this machine's."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from training.addresses import Group
from training.cluster.actors import TRAINER_GROUPS, TrainerActor

pytestmark = [pytest.mark.deep, pytest.mark.ray, pytest.mark.timeout(300)]

TWO_ADDRESSES = """
import sys
from ray.cluster_utils import Cluster
small = {"object_store_memory": 80 << 20, "include_dashboard": False, "num_cpus": 1}
cluster = Cluster(initialize_head=True, head_node_args={"node_ip_address": "127.0.0.2", **small})
cluster.add_node(node_ip_address="127.0.0.3", object_store_memory=80 << 20, num_cpus=1, resources={"second": 1})
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


class SendingActor(TrainerActor):
    """A trainer without a network: it opens the group of a broadcast and sends two tensors."""

    def send(self, address: str) -> int:
        import torch

        from training.broadcast import Meeting, Sender

        named = [("weight", torch.arange(6.0).reshape(2, 3)), ("bias", torch.ones(3, dtype=torch.bfloat16))]
        return Sender(Meeting(address, listens=True), Group(1, 2)).send(named)


@ray.remote(num_cpus=1)
def receive(address: str) -> dict[str, list[float]]:
    from training.broadcast import Meeting, Receiver

    plan = [("weight", "float32", (2, 3)), ("bias", "bfloat16", (3,))]
    receiver = Receiver(Meeting(address), Group(1, 2), 1)
    return {name: tensor.float().flatten().tolist() for name, tensor in receiver.receive(plan)}


@pytest.fixture
def two_addresses() -> Iterator[None]:
    nodes = subprocess.Popen(
        [sys.executable, "-c", TWO_ADDRESSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert nodes.stdin is not None and nodes.stdout is not None
    try:
        ray.init(address=nodes.stdout.readline().strip(), _node_ip_address="127.0.0.2", log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        nodes.stdin.close()
        nodes.wait(60)


def test_the_trainer_is_met_where_its_own_node_is(two_addresses: None) -> None:
    as_actor: Any = ray.remote(concurrency_groups=TRAINER_GROUPS)
    made = as_actor(SendingActor)
    trainer = made.options(num_cpus=1, resources={"second": 1}).remote()
    address = ray.get(trainer.free_address.remote(), timeout=120)
    assert address.startswith("127.0.0.3:")

    sent, received = trainer.send.remote(address), receive.remote(address)

    assert ray.get(received, timeout=180) == {
        "weight": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        "bias": [1.0, 1.0, 1.0],
    }
    assert ray.get(sent, timeout=60) != 0
