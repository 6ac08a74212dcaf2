"""Mixed into vLLM's worker (`worker_extension_cls`): weights in flight, and death with the parent process."""

import os
import threading
import time
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from training.broadcast import Plan, Receiver
from training.engines.vllm_reload import Signature, SmallModel, signature
from training.transfer import Slot, TransferError, checksum, map_file, tensors_in

_LOOK_SECONDS = 1.0


def die_with_parent() -> None:
    """End this process soon after its parent: a generator killed with SIGKILL leaves no engine behind.

    A look at the parent's id rather than Linux's parent-death signal, which goes off when the *thread* that made
    this process ends.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()


die_with_parent()  # at import: the worker imports this before it loads the model


class WeightsInFlight:
    """Methods for `collective_rpc`. vLLM makes it a base of its worker class. What they return must be plain."""

    model_runner: Any
    vllm_config: Any
    device: Any
    rank: int
    _receiver: Receiver
    _plan: Plan
    _complete: Signature | None = None  # of weights that vLLM's own reload has found complete
    _small: SmallModel | None = None

    def load_buckets(self, buckets: list[tuple[str, list[list[Any]]]], expected: str) -> tuple[str, float]:
        """Load buckets that lie in files, (path, slots) each, between two steps of the engine.

        Returns their checksum in decimal, and seconds. Where it is not `expected`, nothing is loaded.
        """
        began = time.perf_counter()
        named = [
            pair
            for path, slots in buckets
            for pair in tensors_in(
                map_file(path), [Slot(name, kind, tuple(n), at) for name, kind, n, at in slots]
            )
        ]
        found = str(checksum(named))
        if found == expected:
            self._load(named)
        return found, time.perf_counter() - began

    def _load(self, named: list[tuple[str, Tensor]]) -> None:
        """In place where that is possible, which the first load of a kind finds out."""
        from vllm.config import set_current_vllm_config

        kind = signature(named)
        if self._small is not None and kind == self._complete:
            with set_current_vllm_config(self.vllm_config):
                self._small.load(named)
            return
        self._reload(named)
        self._complete, self._small = kind, SmallModel.of(self.model_runner.get_model())

    def join_broadcast(self, address: str, first_rank: int, size: int, plan: Plan) -> None:
        """Become a rank of the trainer's broadcast group."""
        self._plan = plan
        self._receiver = Receiver(address, first_rank + self.rank, size, str(self.device))

    def receive_weights(self) -> tuple[str, float]:
        """Load one broadcast as it comes, a bucket in memory at a time. Returns what is wrong with it, if anything (the
        weights are then of no use), and seconds."""
        complaints: list[str] = []
        began = time.perf_counter()

        def tensors() -> Iterable[tuple[str, Tensor]]:
            try:
                yield from self._receiver.receive(self._plan)
            except TransferError as error:  # vLLM's loading must come to its end, or no later one can begin
                complaints.append(str(error))

        self._reload(tensors())
        return "; ".join(complaints), time.perf_counter() - began

    def _reload(self, named: Iterable[tuple[str, Tensor]]) -> None:
        """`reload_weights` rather than `load_weights`: on CPU the layers hold packed copies, to be made anew."""
        from vllm.config import set_current_vllm_config

        with set_current_vllm_config(self.vllm_config):
            self.model_runner.reload_weights(weights_iterator=iter(named))

    def loads_in_place(self) -> bool:
        """Whether the next weights of the same kind go past vLLM's own reload."""
        return self._small is not None

    def process_id(self) -> int:
        """Of this worker."""
        return os.getpid()
