"""New weights that arrive by broadcast while an engine goes on: a thread receives them and keeps them aside."""

import threading
from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from training.addresses import Group
from training.broadcast import Meeting, Plan, Receiver
from training.memory import ARRIVING_SPARE
from training.transfer import TransferError


class Intake:
    """One engine worker's side of the trainer's broadcasts.

    What waits lies in the worker's GPU where that has room for it, else in the machine's memory.
    """

    def __init__(self, address: str, plan: Plan, device: str) -> None:
        """Raises TransferError where the trainer cannot be reached."""
        self._meeting, self._plan, self._device = Meeting(address), plan, device
        self._group: Group | None = None
        self._receiver: Receiver | None = None
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None
        self._arrived: list[tuple[str, Tensor]] = []

    def begin(self, group: Group, rank: int) -> None:
        """Receive the next weights as this rank of the group, in a thread. What is left of a group that was given up
        ends by itself."""
        self._problem, self._arrived = None, []
        self._thread = threading.Thread(target=self._receive, args=(group, rank), name="weights", daemon=True)
        self._thread.start()

    def take(self) -> list[tuple[str, Tensor]]:
        """What has arrived, once all of it is there and right. Raises TransferError."""
        if self._thread is None:
            raise TransferError("the engine has not been told to receive weights")
        self._thread.join()
        if self._problem is not None:
            raise TransferError(str(self._problem)) from self._problem
        arrived, self._arrived = self._arrived, []
        return arrived

    def _receive(self, group: Group, rank: int) -> None:
        thread = threading.current_thread()
        try:
            with (
                torch.cuda.stream(torch.cuda.Stream(self._device))
                if self._device.startswith("cuda")
                else nullcontext()
            ):
                arrived = list(self._kept(self._joined(group, rank)))
            problem = None
        except Exception as error:
            arrived, problem = [], error
        if thread is self._thread:
            self._arrived, self._problem = arrived, problem

    def _joined(self, group: Group, rank: int) -> Receiver:
        if self._receiver is None or group != self._group:
            self._receiver = Receiver(self._meeting, group, rank, self._device)
            self._group = group
        return self._receiver

    def _kept(self, receiver: Receiver) -> Iterator[tuple[str, Tensor]]:
        has_room = _has_room(self._device, self._plan)
        for name, tensor in receiver.receive(self._plan):
            yield name, tensor if has_room else tensor.to("cpu")


def _has_room(device: str, plan: Plan) -> bool:
    if not device.startswith("cuda"):
        return True
    sizes = (getattr(torch, dtype).itemsize * torch.Size(shape).numel() for _, dtype, shape in plan)
    return torch.cuda.mem_get_info(device)[0] > sum(sizes) + ARRIVING_SPARE
