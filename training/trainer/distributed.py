"""Trainer ranks: how they find each other, and what they exchange beside FSDP2's own traffic.

Rank 0 opens a store at `address`; every rank says there which device it has, waits for the others, and joins the
process group: gloo between CPUs, nccl between GPUs. One rank alone has neither store nor group.
"""

import functools
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from training.addresses import interface_of, own_host

JOIN_TIMEOUT_SECONDS = 300.0
COLLECTIVE_TIMEOUT_SECONDS = 1800.0


class RanksError(RuntimeError):
    """Ranks that do not come together, or a device that is not there; the message says which."""


@dataclass(frozen=True)
class Ranks:
    """One rank's place among the trainer's ranks."""

    index: int
    count: int
    address: str  # "host:port" of rank 0's store

    @property
    def are_many(self) -> bool:
        """Whether there is anyone to talk to."""
        return self.count > 1


ALONE = Ranks(0, 1, "")
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"  # read by torch


def choose_device(num_gpus: int, ranks: Ranks = ALONE) -> str:
    """ "cuda", with this rank's GPU made the current one, or "cpu" where the recipe asks for none.

    Raises RanksError where a GPU is asked for and torch sees none.
    """
    if not num_gpus:
        return "cpu"
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not visible:
        raise RanksError(
            f"resources.trainer_gpus is {num_gpus}, but torch {torch.__version__} sees no CUDA device "
            f"for trainer rank {ranks.index} on {socket.gethostname()}"
        )
    torch.cuda.set_device(ranks.index % visible)
    return "cuda"


def join(ranks: Ranks, device: str, timeout: float = JOIN_TIMEOUT_SECONDS) -> None:
    """Wait for all ranks and make the process group, unless this process is in one already.

    Raises RanksError naming the ranks that did not come within `timeout` seconds.
    """
    if dist.is_initialized():
        return
    host, _, port = ranks.address.rpartition(":")
    patience = timedelta(seconds=timeout)
    try:
        store = dist.TCPStore(
            host, int(port), is_master=ranks.index == 0, timeout=patience, wait_for_workers=False
        )
    except (dist.DistError, ValueError) as error:
        raise RanksError(
            f"trainer rank {ranks.index} did not reach rank 0 at {ranks.address} in {timeout:g} s: {error}"
        ) from error
    _meet(store, ranks, _device_name(device), patience)
    # Have gloo say the address that this machine has on its way to rank 0, unless somebody has said
    # which. By itself it says what the machine's own name means here: 127.0.1.1 on many, where nobody
    # else finds it.
    if interface := interface_of(own_host(host)):
        os.environ.setdefault(GLOO_INTERFACE, interface)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
        store=dist.PrefixStore("group", store),
        rank=ranks.index,
        world_size=ranks.count,
        timeout=timedelta(seconds=COLLECTIVE_TIMEOUT_SECONDS),
    )


@functools.cache
def saving_group() -> dist.ProcessGroup | None:
    """A group of all ranks for what is written beside the training, whose collectives it must not mix with; made by
    all of them together when they first ask."""
    return dist.new_group(backend="gloo", timeout=timedelta(seconds=COLLECTIVE_TIMEOUT_SECONDS))


def leave() -> None:
    """Give the process group up; safe without one."""
    saving_group.cache_clear()
    if dist.is_initialized():
        dist.destroy_process_group()


def gather(value: Any) -> list[Any]:
    """Every rank's value, in the order of the ranks; a collective. The value alone where there is no group."""
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def sum_over_ranks(value: Tensor) -> Tensor:
    """The tensor, which lies on the CPU, added up over all ranks; a collective."""
    if dist.is_initialized():
        dist.all_reduce(value)
    return value


def _meet(store: dist.Store, ranks: Ranks, device: str, patience: timedelta) -> None:
    keys = [f"joined/{index}" for index in range(ranks.count)]
    store.set(keys[ranks.index], device)
    try:
        store.wait(keys, patience)
    except dist.DistStoreError as error:
        missing = ", ".join(str(index) for index, key in enumerate(keys) if not store.check([key]))
        raise RanksError(
            f"trainer rank {ranks.index} of {ranks.count} waited {patience.total_seconds():g} s at "
            f"{ranks.address} for these ranks to join: {missing}"
        ) from error
    devices = [store.get(key).decode() for key in keys]
    if device and devices.count(device) > 1:
        same = " and ".join(str(rank) for rank, other in enumerate(devices) if other == device)
        raise RanksError(
            f"resources.trainer_gpus: trainer ranks {same} have the same GPU ({device}); "
            f"each of the {ranks.count} ranks needs one of its own"
        )


def _device_name(device: str) -> str:
    """What tells a GPU from any other; "" for a CPU, which ranks may share."""
    if device == "cpu":
        return ""
    return f"{socket.gethostname()} {torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
