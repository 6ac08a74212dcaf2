"""Ranks as processes of their own. They are forked from one that has imported the trainer, which takes longer than most
of what they do; this process itself cannot be forked once it has computed gradients.
"""

from collections.abc import Callable
from multiprocessing import set_forkserver_preload
from typing import Any

import torch.multiprocessing as mp

set_forkserver_preload(["training.trainer.trainer", "torch.distributed.fsdp", "transformers.modeling_utils"])


def in_ranks(main: Callable[..., None], *arguments: Any, count: int) -> None:
    """Runs `main(index, *arguments)` in so many processes; raises what one of them does."""
    mp.start_processes(main, arguments, nprocs=count, start_method="forkserver")
