"""Weights from the trainer's first rank to every engine worker by broadcast, bucket by bucket.

The processes form a group of their own (gloo on CPU, NCCL on GPUs) beside torch's default group, which trainer ranks
and vLLM's workers use among themselves. Rank 0 sends. A small store beside the group carries what each bucket holds,
and who is ready for it: so a receiver with another plan, or one that is gone, is named instead of waited for.

    trainer  Sender("10.0.0.1:4711", size=3, ...)        engine  Receiver("10.0.0.1:4711", rank=1, size=3, ...)
             sender.send(named)           ── buckets ──►         for name, tensor in receiver.receive(plan): ...
"""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from training.addresses import own_host
from training.transfer import (
    BUCKET_BYTES,
    Checksum,
    Slot,
    TransferError,
    fill,
    in_buckets,
    layout,
    tensors_in,
)

TIMEOUT_SECONDS = 300.0
Plan = list[tuple[str, str, tuple[int, ...]]]  # name, dtype as in torch ("bfloat16"), shape; in any order


def plan(named: Iterable[tuple[str, Tensor]]) -> Plan:
    """What `send` of the same pairs will send."""
    return [(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for name, tensor in named]


class _Member:
    """One process of the group, from its joining on. Raises TransferError."""

    def __init__(self, address: str, rank: int, size: int, device: str, timeout: float) -> None:
        self._rank, self._size, self._device, self._timeout = rank, size, device, timeout
        self._num_rounds = 0
        host, port = address.rsplit(":", 1)
        limit = timedelta(seconds=timeout)
        try:
            self._store = dist.TCPStore(host, int(port), size, rank == 0, limit, wait_for_workers=False)
        except RuntimeError as error:
            what = "could not listen on" if rank == 0 else "could not reach the trainer at"
            raise TransferError(f"rank {rank} of the weight broadcast {what} {address}: {error}") from error
        self._store.set(f"joined/{rank}", "")
        if rank == 0:
            self._answers("joined", "to join")
            self._store.set("complete", "")
        else:
            self._said("complete", "all ranks to join")
        self._group = _process_group(self._store, rank, size, device, limit, host)

    def _said(self, key: str, what: str) -> str:
        """What the sender wrote under `key`."""
        if not self._wait(key, time.monotonic() + self._timeout):
            raise TransferError(
                f"rank {self._rank} of the weight broadcast waited {self._timeout:g} s for {what}"
            )
        return self._store.get(key).decode()

    def _answers(self, key: str, what: str) -> None:
        """Wait until every receiver has written under `key`; what it wrote is a complaint, if anything."""
        deadline = time.monotonic() + self._timeout
        missing, complaints = [], []
        for rank in range(1, self._size):
            if not self._wait(f"{key}/{rank}", deadline):
                missing.append(rank)
            elif complaint := self._store.get(f"{key}/{rank}").decode():
                complaints.append(f"rank {rank}: {complaint}")
        if missing:
            raise TransferError(f"the weight broadcast waited {self._timeout:g} s for rank {missing} {what}")
        if complaints:
            raise TransferError("; ".join(complaints))

    def _wait(self, key: str, deadline: float) -> bool:
        try:
            self._store.wait([key], timedelta(seconds=max(0.001, deadline - time.monotonic())))
        except RuntimeError:  # a timeout, or the store has gone with its process
            return False
        return True

    def _broadcast(self, data: Tensor) -> None:
        options = dist.BroadcastOptions()
        options.rootRank = 0
        options.timeout = timedelta(seconds=self._timeout)
        try:
            self._group.broadcast([data], options).wait()
        except RuntimeError as error:
            raise TransferError(f"rank {self._rank} of the weight broadcast: {error}") from error
        if data.is_cuda:
            torch.cuda.synchronize(data.device)


class Sender(_Member):
    """Rank 0, in the trainer. Returns when all `size - 1` receivers have joined; listens at `address` (host:port)."""

    def __init__(
        self, address: str, size: int, device: str = "cpu", timeout: float = TIMEOUT_SECONDS
    ) -> None:
        super().__init__(address, 0, size, device, timeout)

    def send(self, named: Iterable[tuple[str, Tensor]], bucket_bytes: int = BUCKET_BYTES) -> int:
        """Broadcast all pairs and return their checksum once every receiver has confirmed it.

        One bucket is in memory at a time. Raises TransferError naming the ranks that refuse or do not answer.
        """
        total = Checksum()
        keys = []
        self._num_rounds += 1
        for number, part in enumerate(in_buckets(named, bucket_bytes)):
            for name, tensor in part:
                total.add(name, tensor)
            slots, size = layout(part)
            key = f"{self._num_rounds}/{number}"
            self._announce(key, {"slots": [asdict(slot) for slot in slots], "size": size}, "to take a bucket")
            data = torch.zeros(size, dtype=torch.uint8, device=self._device)
            fill(data, slots, part)
            self._broadcast(data)
            keys.append(key)
        end = f"{self._num_rounds}/{len(keys)}"
        self._announce(end, {"checksum": total.value, "buckets": len(keys)}, "to confirm the checksum")
        self._forget([*keys, end])
        return total.value

    def _announce(self, key: str, header: dict[str, Any], what: str) -> None:
        self._store.set(key, json.dumps(header))
        self._answers(key, what)

    def _forget(self, keys: list[str]) -> None:
        for key in keys:
            for rank in range(1, self._size):
                self._store.delete_key(f"{key}/{rank}")
            self._store.delete_key(key)


class Receiver(_Member):
    """Rank 1 and above, in an engine worker. Returns when all have joined."""

    def __init__(
        self, address: str, rank: int, size: int, device: str = "cpu", timeout: float = TIMEOUT_SECONDS
    ) -> None:
        super().__init__(address, rank, size, device, timeout)

    def receive(self, plan: Plan) -> Iterator[tuple[str, Tensor]]:
        """The pairs of one `send`, as they come; each bucket has memory of its own, which the tensors share.

        Raises TransferError where a tensor is not as planned, one is missing, or, at the end, the checksum differs.
        """
        expected = {name: (dtype, tuple(shape)) for name, dtype, shape in plan}
        total = Checksum()
        self._num_rounds += 1
        number = 0
        while True:
            key = f"{self._num_rounds}/{number}"
            header = json.loads(self._said(key, "the trainer's next bucket"))
            if "checksum" in header:
                self._conclude(key, _complaint_at_end(header["checksum"], total.value, list(expected)))
                return
            slots = [Slot(**slot | {"shape": tuple(slot["shape"])}) for slot in header["slots"]]
            self._conclude(key, _complaint(slots, expected))
            data = torch.zeros(header["size"], dtype=torch.uint8, device=self._device)
            self._broadcast(data)
            for name, tensor in tensors_in(data, slots):
                total.add(name, tensor)
                yield name, tensor
            number += 1

    def _conclude(self, key: str, complaint: str) -> None:
        """Tell the sender, and raise where there is something to complain of."""
        self._store.set(f"{key}/{self._rank}", complaint)
        if complaint:
            raise TransferError(f"rank {self._rank} of the weight broadcast: {complaint}")


def _complaint(slots: Iterable[Slot], expected: dict[str, tuple[str, tuple[int, ...]]]) -> str:
    """What is wrong with a bucket; takes its tensors out of `expected`."""
    for slot in slots:
        planned = expected.pop(slot.name, None)
        if planned != (slot.dtype, slot.shape):
            return f"{slot.name} is {slot.dtype} {slot.shape}; planned was {planned or 'nothing'}"
    return ""


def _complaint_at_end(sent: int, received: int, missing: list[str]) -> str:
    if missing:
        return f"{missing} never came"
    return "" if sent == received else "the weights did not arrive as they were sent (checksum)"


def _process_group(
    store: Any, rank: int, size: int, device: str, timeout: timedelta, host: str
) -> dist.ProcessGroup:
    """Made directly: torch.distributed's module-wide state belongs to whoever called init_process_group."""
    store = dist.PrefixStore("group", store)
    group: Any
    if device.startswith("cuda"):
        nccl = dist.ProcessGroupNCCL.Options()
        nccl._timeout = timeout
        group = dist.ProcessGroupNCCL(store, rank, size, nccl)
        return group
    backend: Any = dist.ProcessGroupGloo
    gloo = backend._Options()
    gloo._devices = [backend.create_device(hostname=own_host(host))]
    gloo._timeout = timeout
    group = backend(store, rank, size, gloo)
    return group
