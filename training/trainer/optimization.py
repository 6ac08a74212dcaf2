"""AdamW, the learning rate of a step, and the scaling that float16 needs."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

from training.schema import Critic, Optimizer

MOMENTS = ("exp_avg", "exp_avg_sq")


class HostMomentsAdamW(torch.optim.AdamW):
    """Moments stay in the host's memory: those of one parameter at a time are on its device, for its update."""

    def __init__(self, groups: Any, **settings: Any) -> None:
        super().__init__(groups, **settings)
        self._step_supports_amp_scaling = False  # float16's scaler has divided the gradients before

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of all parameters that have a gradient. `closure` is not called, and nothing returned."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _update(parameter, self.state[parameter], group)
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # a checkpoint may read the moments from now on


def _update(parameter: torch.nn.Parameter, held: dict[str, Tensor], group: dict[str, Any]) -> None:
    own, gradient, *homes = map(_local, (parameter, parameter.grad, *map(held.__getitem__, MOMENTS)))
    first, second = moments = [home.to(own.device, non_blocking=True) for home in homes]
    beta1, beta2 = group["betas"]
    adamw(
        [own],
        [gradient],
        [first],
        [second],
        [],
        [held["step"]],
        fused=True,
        amsgrad=False,
        maximize=False,
        beta1=beta1,
        beta2=beta2,
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
    )
    for home, moment in zip(homes, moments, strict=True):
        home.copy_(moment, non_blocking=True)


def make_optimizer(
    policy: Iterable[torch.nn.Parameter],
    critic: Iterable[torch.nn.Parameter],
    settings: Optimizer,
    critic_settings: Critic,
) -> torch.optim.AdamW:
    """AdamW as the recipe says (paper: eps 1e-15, weight decay 0.01); the critic has a learning rate of its own."""
    groups = [{"params": list(policy), "lr": settings.lr}]
    if of_critic := list(critic):
        groups.append({"params": of_critic, "lr": critic_settings.lr})
    of_type = HostMomentsAdamW if settings.offload_moments else torch.optim.AdamW
    optimizer = of_type(
        groups,
        betas=settings.betas,
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    # The moments are made now instead of in the first update, so that every checkpoint has them, also that of step 0.
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            at_home: dict[str, Any] = {}
            if settings.offload_moments:
                at_home = {"device": "cpu", "pin_memory": parameter.is_cuda}
            optimizer.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                **{name: torch.zeros_like(parameter, **at_home) for name in MOMENTS},
            }
    return optimizer


def _local(tensor: Any) -> Tensor:
    """This rank's share of it."""
    own: Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return own


def clip_gradients(optimizer: torch.optim.Optimizer, max_norm: float) -> float:
    """Scale all gradients so that their norm is at most `max_norm`; returns the norm before, over all ranks."""
    by_mesh: dict[Any, list[torch.nn.Parameter]] = {}  # experts may be divided over other ranks than the rest
    for parameter in (each for group in optimizer.param_groups for each in group["params"]):
        if parameter.grad is not None:
            by_mesh.setdefault(getattr(parameter.grad, "device_mesh", None), []).append(parameter)
    norms = [
        torch.nn.utils.get_total_norm([p.grad for p in some if p.grad is not None])
        for some in by_mesh.values()
    ]
    wholes = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    total = wholes[0] if len(wholes) == 1 else torch.linalg.vector_norm(torch.stack(wholes))
    for some in by_mesh.values():
        torch.nn.utils.clip_grads_with_norm_(some, max_norm, total)
    return total.item()


def set_learning_rates(optimizer: torch.optim.Optimizer, share: float, *peaks: float) -> None:
    """`share` of the peak rate of each parameter group; the peaks are the recipe's, not a checkpoint's."""
    for group, peak in zip(optimizer.param_groups, peaks, strict=False):
        group["lr"] = share * peak


def learning_rate_share(step: int, settings: Optimizer) -> float:
    """Learning rate of a step (from 1) as a share of its peak: linear warm-up, then constant or half a cosine."""
    if step < settings.warmup_steps:
        return step / settings.warmup_steps
    if settings.schedule == "constant" or settings.decay_steps is None:
        return 1.0
    progress = min(1.0, (step - settings.warmup_steps) / (settings.decay_steps - settings.warmup_steps))
    low = settings.min_lr_share
    return low + (1 - low) * (1 + math.cos(math.pi * progress)) / 2


def make_scaler(device: str, dtype: str) -> torch.amp.GradScaler:
    """Keeps float16 gradients from vanishing; does nothing for the other precisions."""
    return torch.amp.GradScaler(device, enabled=dtype == "float16")
