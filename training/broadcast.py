"""Weights from the trainer's first rank to every engine worker by broadcast, bucket by bucket.

The processes form a group of their own (gloo on CPU, NCCL on GPUs) beside torch's default group, which trainer ranks
and vLLM's workers use among themselves. Rank 0 sends. A small store beside the group carries what each bucket holds,
and who is ready for it: so a receiver with another plan, or one that is gone, is named instead of waited for.

    trainer  meeting = Meeting("10.0.0.1:4711", listens=True)   engine  meeting = Meeting("10.0.0.1:4711")
             sender = Sender(meeting, Group(1, 3))                      receiver = Receiver(meeting, Group(1, 3), 1)
             sender.send(named)           ── buckets ──►                for name, tensor in receiver.receive(plan): ...

The store outlives groups. Where a process has died, or another one comes, those that are there form the next group,
with a number that none had before. `Meeting.give_up` ends a group from outside: all who wait in it raise TransferError.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from training.addresses import Group, own_host
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
JOINING_SECONDS = 3600.0  # until the trainer begins to send: it may be in the middle of a step
_LOOKS = (0.0002, 0.02)  # seconds between two looks into the store, at first and at last
_given_up: list[Any] = []  # gloo's groups with work that nothing ends; freeing one would wait for it
Plan = list[tuple[str, str, tuple[int, ...]]]  # name, dtype as in torch ("bfloat16"), shape; in any order


def plan(named: Iterable[tuple[str, Tensor]]) -> Plan:
    """What `send` of the same pairs will send."""
    return [(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for name, tensor in named]


class Meeting:
    """Where a process meets the others, whatever group they form. Raises TransferError where the trainer, which
    listens at `address` (host:port), cannot be reached."""

    def __init__(self, address: str, *, listens: bool = False, timeout: float = TIMEOUT_SECONDS) -> None:
        self.timeout = timeout
        self.host, port = address.rsplit(":", 1)
        limit = timedelta(seconds=timeout)
        try:
            self._store = dist.TCPStore(self.host, int(port), None, listens, limit, wait_for_workers=False)
        except RuntimeError as error:
            what = "could not listen on" if listens else "could not reach the trainer at"
            raise TransferError(f"the weight broadcast {what} {address}: {error}") from error

    def of_group(self, number: int) -> Any:
        """What a group's processes write for each other, over a connection of its own."""
        store: Any = self._store  # its type does not know `clone`
        return dist.PrefixStore(str(number), store.clone())

    def give_up(self, number: int, why: str) -> None:
        """End a group, from any thread."""
        self.of_group(number).set("over", why)


class _Member:
    """One process of a group, from its joining on. Raises TransferError."""

    def __init__(self, meeting: Meeting, group: Group, rank: int, device: str = "cpu") -> None:
        self._rank, self._size, self._device, self._timeout = rank, group.size, device, meeting.timeout
        self._num_rounds = 0
        self._meeting = meeting  # the store ends with it
        self._store = meeting.of_group(group.number)
        self._set(f"joined/{rank}", "")
        if rank == 0:
            self._answers("joined", "to join")
            self._set("complete", "")
        else:
            self._said("complete", "all ranks to join", max(self._timeout, JOINING_SECONDS))
        self._group = self._connected(meeting.of_group(group.number))

    def _connected(self, store: Any) -> Any:
        """The process group. Connecting waits for each other process, and nothing ends that wait where one has died
        since it joined: so a thread does it, over a connection of its own to the store, and ends at its timeout."""
        made = Future[Any]()

        def connect() -> None:
            limit = timedelta(seconds=self._timeout)
            try:
                args = (store, self._rank, self._size, self._device, limit, self._meeting.host)
                made.set_result(_process_group(*args))
            except RuntimeError as error:
                told = TransferError(f"rank {self._rank} of the weight broadcast could not connect: {error}")
                made.set_exception(told)

        threading.Thread(target=connect, name="connecting", daemon=True).start()
        self._look_until(made.done)
        return made.result()

    def _said(self, key: str, what: str, timeout: float | None = None) -> str:
        """What the sender wrote under `key`."""
        timeout = timeout or self._timeout
        if not self._wait([key], time.monotonic() + timeout):
            raise TransferError(f"rank {self._rank} of the weight broadcast waited {timeout:g} s for {what}")
        return self._store.get(key).decode()

    def _answers(self, key: str, what: str) -> None:
        """Wait until every receiver has written under `key`; what it wrote is a complaint, if anything."""
        keys = {rank: f"{key}/{rank}" for rank in range(1, self._size)}
        if not self._wait(list(keys.values()), time.monotonic() + self._timeout):
            missing = [rank for rank, own in keys.items() if not self._store.check([own])]
            raise TransferError(f"the weight broadcast waited {self._timeout:g} s for rank {missing} {what}")
        said = {rank: self._store.get(own).decode() for rank, own in keys.items()}
        if complaints := [f"rank {rank}: {complaint}" for rank, complaint in said.items() if complaint]:
            raise TransferError("; ".join(complaints))

    def _wait(self, keys: list[str], deadline: float) -> bool:
        """Whether all keys are there in time. Looks again and again, as nothing ends a wait of the store's own."""
        try:
            return self._look_until(lambda: self._store.check(keys), deadline)
        except RuntimeError as error:
            if isinstance(error, TransferError):
                raise
            raise TransferError(f"rank {self._rank} of the weight broadcast: {error}") from error

    def _look_until(self, is_done: Callable[[], bool], deadline: float = math.inf) -> bool:
        """Look again and again, less and less often. False if it is not done before the deadline."""
        pause, longest = _LOOKS
        while not is_done():
            self._raise_if_over()
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(longest, 2 * pause)
        return True

    def _set(self, key: str, value: str) -> None:
        try:
            self._store.set(key, value)
        except RuntimeError as error:  # it has gone with the trainer
            raise TransferError(f"rank {self._rank} of the weight broadcast: {error}") from error

    def _raise_if_over(self) -> None:
        if self._store.check(["over"]):
            why = self._store.get("over").decode()
            raise TransferError(f"rank {self._rank} of the weight broadcast: given up, {why}")

    def _broadcast(self, data: Tensor, meanwhile: Callable[[], None]) -> None:
        """Returns when `data` is there, or sent, and `meanwhile` done."""
        options = dist.BroadcastOptions()
        options.rootRank = 0
        options.timeout = timedelta(seconds=self._timeout)
        try:
            work = self._group.broadcast([data], options)
            meanwhile()
            self._look_until(work.is_completed)
            work.wait()
        except TransferError:
            self._group.abort()
            _given_up.append(self._group)
            raise
        except RuntimeError as error:
            raise TransferError(f"rank {self._rank} of the weight broadcast: {error}") from error
        if data.is_cuda:  # not the whole device: an engine works beside this
            torch.cuda.current_stream(data.device).synchronize()


class Sender(_Member):
    """Rank 0, in the trainer. Returns when all receivers have joined."""

    def __init__(self, meeting: Meeting, group: Group, device: str = "cpu") -> None:
        super().__init__(meeting, group, 0, device)

    def send(self, named: Iterable[tuple[str, Tensor]], bucket_bytes: int = BUCKET_BYTES) -> int:
        """Broadcast all pairs and return their checksum once every receiver has confirmed it.

        One bucket is in memory at a time; its checksum is taken while it is on its way. Raises TransferError naming
        the ranks that refuse or do not answer.
        """
        total = Checksum()
        keys = []
        self._num_rounds += 1
        for number, part in enumerate(in_buckets(named, bucket_bytes)):
            slots, size = layout(part)
            key = f"{self._num_rounds}/{number}"
            self._announce(key, {"slots": [asdict(slot) for slot in slots], "size": size}, "to take a bucket")
            data = torch.zeros(size, dtype=torch.uint8, device=self._device)
            fill(data, slots, part)
            self._broadcast(data, partial(total.add_all, part))
            keys.append(key)
        end = f"{self._num_rounds}/{len(keys)}"
        self._announce(end, {"checksum": total.value, "buckets": len(keys)}, "to confirm the checksum")
        keys = [*keys, end]
        for key in keys:
            for rank in range(1, self._size):
                self._store.delete_key(f"{key}/{rank}")
            self._store.delete_key(key)
        return total.value

    def _announce(self, key: str, header: dict[str, Any], what: str) -> None:
        self._set(key, json.dumps(header))
        self._answers(key, what)


class Receiver(_Member):
    """Rank 1 and above, in an engine worker. Returns when all have joined."""

    def receive(self, plan: Plan) -> Iterator[tuple[str, Tensor]]:
        """The pairs of one `send`, as they come; each bucket has memory of its own, which the tensors share.

        Raises TransferError where a tensor is not as planned, one is missing, or, at the end, the checksum differs.
        """
        expected = {name: (dtype, tuple(shape)) for name, dtype, shape in plan}
        total, last = Checksum(), list[tuple[str, Tensor]]()
        self._num_rounds += 1
        number = 0
        while True:
            key = f"{self._num_rounds}/{number}"
            header = json.loads(self._said(key, "the trainer's next bucket"))
            if "checksum" in header:
                total.add_all(last)
                self._conclude(key, _complaint_at_end(header["checksum"], total.value, list(expected)))
                return
            slots = [Slot(**slot | {"shape": tuple(slot["shape"])}) for slot in header["slots"]]
            self._conclude(key, _complaint(slots, expected))
            data = torch.zeros(header["size"], dtype=torch.uint8, device=self._device)
            self._broadcast(data, partial(total.add_all, last))
            last = list(tensors_in(data, slots))
            yield from last
            number += 1

    def _conclude(self, key: str, complaint: str) -> None:
        """Tell the sender, and raise where there is something to complain of."""
        self._set(f"{key}/{self._rank}", complaint)
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
