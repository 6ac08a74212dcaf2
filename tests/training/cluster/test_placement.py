import pytest

from training.cluster.placement import ClusterError, local_cores
from training.recipe import RecipeError, apply_overrides, load_recipe
from training.schema import Resources


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"trainer_gpus": 1}, "needs GPUs for the generator too"),
        ({"generator_gpus": 1}, "needs GPUs of their own"),
        ({"generator_gpus": 1, "trainer_gpus": 1, "shared": True}, "needs GPUs of their own"),
    ],
)
def test_broadcast_is_between_devices_of_one_kind(values: dict[str, int], reason: str) -> None:
    overrides = {f"resources.{name}": value for name, value in values.items()}

    with pytest.raises(RecipeError, match=reason):
        apply_overrides(
            load_recipe("tiny/scalerl"),
            overrides | {"engine.weight_transfer": "collective", "offpolicy.k": 0},
        )


def test_a_machine_alone_must_have_the_cores_that_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADROOM_OVERSUBSCRIBE", raising=False)
    asked = Resources(generator_cpus=3, trainer_cpus=1)

    assert (local_cores(asked, 4), local_cores(asked, 8)) == (4, 8)
    with pytest.raises(ClusterError, match="needs 4 CPU, this machine has 2 .resources.generator_cpus 3, "):
        local_cores(asked, 2)
    monkeypatch.setenv("HEADROOM_OVERSUBSCRIBE", "1")
    assert local_cores(asked, 2) == 4
