"""`wandb.integration.keras`, `wandb.keras` and the like: what frameworks call while they train. Keras, XGBoost,
LightGBM and Stable Baselines have their numbers logged; of all others each name is accepted, and said to do nothing.

A framework is imported when something of its module is asked for, and only where it is installed.
"""

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from headroom.wandb_shim.accepted import accepts, warn_once
from headroom.wandb_shim.util import get_module

wandb = sys.modules["headroom.wandb_shim"]  # which is still being imported
OTHERS = (
    "catboost", "cohere", "diffusers", "dspy", "fastai", "gym", "huggingface", "jupyter", "kfp", "langchain",
    "lightning", "lightning.fabric", "metaflow", "openai", "prodigy", "sacred", "sagemaker", "sklearn", "tensorboard",
    "tensorflow", "torch", "ultralytics",
)  # fmt: skip


class Unkept:
    """Takes anything, and any of its methods does. Said once of each name of a module."""

    place = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.place:
            warn_once(self.place, f"{self.place} does nothing here; `wandb.log` keeps numbers")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return accepts("")


def _base(*modules: str, name: str) -> Any:
    """The class of the first of these that is installed."""
    return next((getattr(found, name) for each in modules if (found := get_module(each))), Unkept)


def _keras(*, with_prefix: bool) -> Any:
    """`log_freq`: epoch, batch or a number of batches. The older callback has no prefix, and logs epochs."""

    class Logger(_base("keras.callbacks", "tensorflow.keras.callbacks", name="Callback")):  # type: ignore[misc]
        def __init__(self, log_freq: Any = "epoch", *args: Any, **others: Any) -> None:
            super().__init__()
            self._every = {"batch": 1}.get(log_freq, log_freq) if with_prefix else "epoch"

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            first = "epoch/" if with_prefix else ""
            wandb.log({f"{first}{key}": value for key, value in {**(logs or {}), "epoch": epoch}.items()})

        def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
            if isinstance(self._every, int) and batch % self._every == 0:
                wandb.log({f"batch/{key}": value for key, value in (logs or {}).items()})

    return Logger


def _xgboost() -> Any:
    class Logger(_base("xgboost.callback", name="TrainingCallback")):  # type: ignore[misc]
        def __init__(self, *args: Any, **others: Any) -> None:
            super().__init__()

        def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Any]) -> bool:
            newest = ((f"{data}-{name}", of[name][-1]) for data, of in evals_log.items() for name in of)
            wandb.log({**dict(newest), "epoch": epoch})
            return False

    return Logger


def _lightgbm(*args: Any, **others: Any) -> Callable[[Any], None]:
    """A callback for `lightgbm.train` and `lightgbm.cv`, which names "valid l2" and adds the deviation."""

    def log(env: Any) -> None:
        found: dict[str, Any] = {"iteration": env.iteration}
        for data, name, value, *_ in env.evaluation_result_list:
            found[f"{name.replace(' ', '_')}-mean" if data == "cv_agg" else f"{data}_{name}"] = value
        wandb.log(found)

    return log


def _sb3() -> Any:
    """What the model's own logger writes goes to the run, too."""

    class Output(_base("stable_baselines3.common.logger", name="KVWriter")):  # type: ignore[misc]
        def write(self, key_values: Mapping[str, Any], key_excluded: Any, step: int = 0) -> None:
            wandb.log(dict(key_values), step=step)

        def close(self) -> None:
            pass

    class Logger(_base("stable_baselines3.common.callbacks", name="BaseCallback")):  # type: ignore[misc]
        def __init__(self, verbose: int = 0, **others: Any) -> None:
            super().__init__(verbose)
            if others.get("model_save_path"):
                warn_once("sb3", "WandbCallback saves no models here; `wandb.save` keeps files")

        def _on_training_start(self) -> None:
            if not any(isinstance(each, Output) for each in self.logger.output_formats):
                self.logger.output_formats.append(Output())

        def _on_step(self) -> bool:
            return True

    return Logger


MADE: dict[str, dict[str, Callable[[], Any]]] = {
    "keras": {
        "WandbMetricsLogger": lambda: _keras(with_prefix=True),
        "WandbCallback": lambda: _keras(with_prefix=False),
    },
    "xgboost": {"WandbCallback": _xgboost, "wandb_callback": _xgboost},
    "lightgbm": {"wandb_callback": lambda: _lightgbm},
    "sb3": {"WandbCallback": _sb3},
}


class Integration(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        framework = self.__name__.removeprefix("wandb.integration.")
        if (make := MADE.get(framework, {}).get(name)) is None:
            make = lambda: type(name, (Unkept,), {"place": f"{self.__name__}.{name}"})
        vars(self)[name] = make()
        return vars(self)[name]


MODULES: dict[str, ModuleType] = {"wandb.integration": ModuleType("wandb.integration")}
for framework in (*MADE, *OTHERS):
    module = Integration(f"wandb.integration.{framework}")
    MODULES |= {f"wandb.integration.{framework}": module, f"wandb.{framework}": module}
