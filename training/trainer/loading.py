"""A model whose weights each rank reads only as they are split: no rank's memory ever holds the whole of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from training.checkpoint_names import are_stacked, in_files, put_together
from training.flops import weight_files
from training.trainer.network import Networks, start_of


def skeleton(folder: Path) -> PreTrainedModel:
    """The model without weights (on torch's meta device), float32. For `Filling`."""
    config = AutoConfig.from_pretrained(folder, local_files_only=True)  # nosec B615  # local files only
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    return model


def is_readable(folder: Path) -> bool:
    """Whether the files have the weights under the names that transformers gives them, and in a form that `Filling`
    understands; else the model is read as a whole."""
    model, kept = skeleton(folder), set(_places(folder))
    return are_stacked(model) and all(
        any(kept.issuperset(in_files(model, name, parameter)) for name in names)
        for parameter, names in _named(model)
    )


class Filling:
    """Gives modules of `networks`, made of a `skeleton`, their weights: read from the folder, in float32."""

    def __init__(self, networks: Networks, folder: Path, device: str) -> None:
        self._device, self._files = device, _places(folder)
        self._policy = networks.policy
        self._names = {id(parameter): names for parameter, names in _named(networks.policy)}
        trunk = networks.critic.trunk if networks.critic is not None else None
        if trunk is not None:  # a copy of the policy's decoder
            prefix = f"{networks.policy.base_model_prefix}."
            self._names |= {id(own): [prefix + name] for name, own in trunk.named_parameters()}

    @torch.no_grad()
    def __call__(self, module: torch.nn.Module) -> None:
        """All that has no weights yet, in this module and those in it."""
        filled: dict[int, torch.nn.Parameter] = {}  # tied ones stay one
        for owner in module.modules():
            if any(buffer.is_meta for buffer in owner.buffers(recurse=False)):
                fresh = type(owner)(owner.config).to(self._device)
                for name, buffer in fresh.named_buffers(recurse=False):
                    setattr(owner, name, buffer)
            for key, parameter in owner._parameters.items():
                if parameter is not None and parameter.is_meta:
                    if id(parameter) not in filled:
                        value = self._read(parameter)
                        filled[id(parameter)] = torch.nn.Parameter(value, parameter.requires_grad)
                    owner._parameters[key] = filled[id(parameter)]

    def _read(self, parameter: Tensor) -> Tensor:
        filled = torch.zeros(
            parameter.shape, device=self._device
        )  # as the critic's head starts, which no file has
        for name in self._names.get(id(parameter), ()):
            if (start := start_of(name, parameter)) is not None:
                filled.copy_(start)
                break
            names = list(in_files(self._policy, name, parameter))
            if all(name in self._files for name in names):
                put_together([self._tensor(name) for name in names], filled)
                break
        return filled

    def _tensor(self, name: str) -> Tensor:
        with safe_open(self._files[name], framework="pt", device=self._device) as file:
            return file.get_tensor(name)


def _named(model: torch.nn.Module) -> Iterator[tuple[Tensor, list[str]]]:
    """Each parameter with all of its names; a tied head has two."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for parameter in model.parameters():
        yield parameter, names[id(parameter)]


def _places(folder: Path) -> dict[str, Path]:
    """Name of each tensor -> its file."""
    found: dict[str, Path] = {}
    for path in weight_files(folder):
        with safe_open(path, framework="pt") as file:
            found |= dict.fromkeys(file.keys(), path)
    return found
