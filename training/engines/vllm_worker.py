"""Mixed into vLLM's worker (`worker_extension_cls`): weights in flight, and death with the parent process."""

import os
import threading
import time
from typing import Any

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
    """Methods for `collective_rpc`. vLLM makes it a base of its worker class."""

    model_runner: Any
    vllm_config: Any

    def update_from_file(self, path: str) -> None:
        """Load a safetensors file into the model in place, between two steps of the engine.

        `reload_weights` rather than `load_weights`: on CPU the layers hold packed copies that must be made anew.
        """
        from safetensors.torch import load_file
        from vllm.config import set_current_vllm_config

        with set_current_vllm_config(self.vllm_config):
            self.model_runner.reload_weights(weights_iterator=iter(load_file(path).items()))

    def process_id(self) -> int:
        """Of this worker."""
        return os.getpid()
