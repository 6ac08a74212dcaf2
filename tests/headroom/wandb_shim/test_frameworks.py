"""`wandb.keras`, `wandb.integration.*`: callbacks log the numbers that frameworks give them, all else is accepted."""

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import headroom.wandb_shim as wandb
from headroom.wandb_shim import frameworks
from tests.headroom.wandb_shim.conftest import said
from tests.headroom.wandb_shim.test_scripts import installed  # noqa: F401 (fixture)


@pytest.fixture
def started(installed: None) -> wandb.Run:  # noqa: F811
    return wandb.init(project="math")


def numbers() -> list[dict[str, Any]]:
    wandb.finish()
    return [metrics for _, metrics in said() if not any(name.startswith("system/") for name in metrics)]


@pytest.mark.parametrize("place", ["wandb.integration.keras", "wandb.keras"])
def test_keras(started: wandb.Run, place: str) -> None:
    keras = importlib.import_module(place)
    for callback in (
        keras.WandbMetricsLogger(log_freq=2),
        keras.WandbCallback(monitor="val_loss", mode="min"),
    ):
        callback.set_model(object())
        callback.on_train_begin({})
        for batch in range(3):
            callback.on_train_batch_end(batch, {"loss": 1.0 - batch})
        callback.on_epoch_end(0, {"loss": 0.5, "val_loss": 0.6})

    assert numbers() == [
        {"batch/loss": 1.0}, {"batch/loss": -1.0}, {"epoch/loss": 0.5, "epoch/val_loss": 0.6, "epoch/epoch": 0},
        {"loss": 0.5, "val_loss": 0.6, "epoch": 0},
    ]  # fmt: skip


def test_a_callback_is_one_of_the_framework_where_it_is_installed(
    started: wandb.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Callback:
        pass

    for name, content in {"keras": {}, "keras.callbacks": {"Callback": Callback}}.items():
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        vars(sys.modules[name]).update(content)
    monkeypatch.delitem(vars(wandb.keras), "WandbMetricsLogger", raising=False)

    assert isinstance(wandb.keras.WandbMetricsLogger(), Callback)
    monkeypatch.delitem(vars(wandb.keras), "WandbMetricsLogger")


def test_xgboost_and_lightgbm(started: wandb.Run) -> None:
    from wandb.integration.lightgbm import wandb_callback  # type: ignore[import-not-found]
    from wandb.integration.xgboost import WandbCallback  # type: ignore[import-not-found]

    assert WandbCallback(log_model=True).after_iteration(None, 3, {"train": {"auc": [0.5, 0.7]}}) is False
    found = [("valid", "l2", 0.4, False), ("cv_agg", "valid auc", 0.6, True, 0.1)]
    wandb_callback()(SimpleNamespace(iteration=1, evaluation_result_list=found))

    assert numbers() == [
        {"train-auc": 0.7, "epoch": 3},
        {"iteration": 1, "valid_l2": 0.4, "valid_auc-mean": 0.6},
    ]


def test_stable_baselines(started: wandb.Run, caplog: pytest.LogCaptureFixture) -> None:
    from wandb.integration.sb3 import WandbCallback  # type: ignore[import-not-found]

    outputs: list[Any] = []
    callback = WandbCallback(gradient_save_freq=100, model_save_path="models")
    callback.logger = SimpleNamespace(output_formats=outputs)
    callback._on_training_start()
    callback._on_training_start()
    (output,) = outputs
    output.write({"train/loss": 0.5}, {"train/loss": ()}, 32)
    output.close()

    assert callback._on_step() is True
    wandb.finish()
    assert (32, {"train/loss": 0.5}) in said() and "saves no models here" in caplog.text


@pytest.mark.parametrize("name", frameworks.OTHERS)
def test_all_others_are_accepted_and_said_once(
    started: wandb.Run, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = importlib.import_module(f"wandb.integration.{name}").Something
    assert importlib.import_module(f"wandb.{name}").Something is made

    class Mine(made):  # type: ignore[misc, valid-type]
        pass

    for thing in (made(1, a=2), Mine()):
        assert thing.on_anything(3) is None
    assert caplog.text.count(f"wandb.integration.{name}.Something does nothing here") == 1
