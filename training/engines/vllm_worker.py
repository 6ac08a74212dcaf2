"""Mixed into vLLM's worker (`worker_extension_cls`): weights in flight, and death with the parent process."""

import os
import threading
import time
from typing import Any

import torch
import torch._dynamo.config
from torch import Tensor
from vllm.platforms import current_platform

from training.addresses import Group
from training.broadcast import Plan
from training.engines.intake import Intake
from training.engines.shared_files import in_files
from training.engines.vllm_reload import Signature, SmallModel, signature
from training.transfer import TransferError

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


# At import: the worker imports this before it loads the model.
die_with_parent()
# The layers are not compiled there anyway; for a count of log-probabilities, the first engine of a machine would wait
# for g++.
if current_platform.is_cpu():
    torch._dynamo.config.disable = True


class WeightsInFlight:
    """Methods for `collective_rpc`. vLLM makes it a base of its worker class. What they return must be plain."""

    model_runner: Any
    vllm_config: Any
    device: Any
    rank: int
    _intake: Intake
    _complete: Signature | None = None  # of weights that vLLM's own reload has found complete
    _small: SmallModel | None = None

    def load_buckets(self, files: list[tuple[str, list[list[Any]]]]) -> float:
        """Load buckets that lie in files, as `shared_files.as_files` gave them, between two steps. Returns seconds."""
        began = time.perf_counter()
        self._load(list(in_files(files)))
        return time.perf_counter() - began

    def _load(self, named: list[tuple[str, Tensor]]) -> None:
        """In place where that is possible, which the first load of a kind finds out."""
        from vllm.config import set_current_vllm_config

        kind = signature(named)
        with set_current_vllm_config(self.vllm_config):
            if self._small is not None and kind == self._complete:
                self._small.load(named)
                return
            # Rather than `load_weights`: on CPU the layers hold packed copies, to be made anew.
            self.model_runner.reload_weights(weights_iterator=iter(named))
        self._complete, self._small = kind, SmallModel.of(self.model_runner.get_model())

    def join_broadcast(self, address: str, plan: Plan) -> None:
        """Get ready for the trainer's broadcasts."""
        self._intake = Intake(address, plan, str(self.device))

    def receive_weights(self, number: int, size: int, first_rank: int) -> None:
        """Have the next broadcast arrive while the engine goes on; the group has this number and size."""
        self._intake.begin(Group(number, size), first_rank + self.rank)

    def use_weights(self) -> tuple[str, float]:
        """Load what has arrived, between two steps. Returns what is wrong with it, if anything, and then nothing has
        been loaded; and the seconds of the load."""
        try:
            named = self._intake.take()
        except TransferError as error:
            return str(error), 0.0
        began = time.perf_counter()
        self._load(named)
        if self.device.type == "cuda":  # the memory of what arrived is free for the next weights now
            torch.cuda.synchronize(self.device)
        return "", time.perf_counter() - began

    def head_dtype(self) -> str:
        """In which the head computes, by its numbers: that of the logits, or the model's where all lie on its grid.
        "" in a worker that has no logits."""
        from vllm.config import set_current_vllm_config

        model, config = self.model_runner.get_model(), self.vllm_config.model_config
        noise = torch.Generator().manual_seed(0)
        hidden = torch.randn(4, config.get_hidden_size(), generator=noise).to(self.device, config.dtype)
        with torch.inference_mode(), set_current_vllm_config(self.vllm_config):
            logits = model.compute_logits(hidden)
        if logits is None:
            return ""
        is_finer = bool((logits != logits.to(config.dtype).to(logits.dtype)).any())
        return str(logits.dtype if is_finer else config.dtype).removeprefix("torch.")

    def loads_in_place(self) -> bool:
        """Whether the next weights of the same kind go past vLLM's own reload."""
        return self._small is not None

    def process_id(self) -> int:
        """Of this worker."""
        return os.getpid()
