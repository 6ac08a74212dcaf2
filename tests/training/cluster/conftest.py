"""Two real Ray nodes on this machine, for all tests here that need some."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import ray

from stack.environment import ROOT

TWO_NODES = """
import sys
from ray.cluster_utils import Cluster
small = {"object_store_memory": 80 << 20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, **small})
cluster.add_node(num_cpus=3, num_gpus=2, object_store_memory=80 << 20)  # Ray counts GPUs and uses none
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture(scope="package")
def two_nodes() -> Iterator[str]:
    """Address of a cluster with nodes of 2 and 3 CPUs, which this process has joined."""
    server = subprocess.Popen(
        [sys.executable, "-c", TWO_NODES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert server.stdout
    address = server.stdout.readline().strip()
    ray.init(address, namespace="tests", logging_level=logging.ERROR, log_to_driver=False)
    yield address
    ray.shutdown()
    server.communicate("", timeout=60)
