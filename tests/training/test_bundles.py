"""The bundles of a run, and what nodes have room for."""

import pytest

from training.bundles import Plan, Seat, all_bundles, make_plan, place, shortage
from training.schema import Resources

CPU2 = {"CPU": 2.0}


def resources(**values: object) -> Resources:
    return Resources.model_validate(values)


def node(cpus: float, gpus: float = 0) -> dict[str, float]:
    return {"CPU": cpus, "GPU": gpus}


def test_a_bundle_for_each_engine_and_each_rank() -> None:
    plan = make_plan(resources(generator_cpus=4, generators=2, trainer_cpus=2, trainers=2))

    assert plan == Plan(
        bundles=[{"CPU": 2}, {"CPU": 2}, {"CPU": 1}, {"CPU": 1}],
        engines=[Seat(0, 2, 0), Seat(1, 2, 0)],
        ranks=[Seat(2, 1, 0), Seat(3, 1, 0)],
    )


def test_gpus_of_tensor_parallel_engines_and_of_ranks() -> None:
    plan = make_plan(
        resources(generator_gpus=4, generators=2, trainer_gpus=2, generator_cpus=2, trainer_cpus=2)
    )

    assert plan.bundles == [{"CPU": 1, "GPU": 2}] * 2 + [{"CPU": 1, "GPU": 1}] * 2
    assert [seat.gpus for seat in plan.engines + plan.ranks] == [2, 2, 1, 1]


def test_shared_bundles_hold_both() -> None:
    plan = make_plan(resources(shared=True, generator_cpus=2, trainer_cpus=4))

    assert plan == Plan([{"CPU": 4}], [Seat(0, 2, 0)], [Seat(0, 2, 0)])


def test_shared_gpus_are_held_by_ranks_and_lent() -> None:
    plan = make_plan(
        resources(
            shared=True, generator_gpus=4, generators=2, trainer_gpus=4, generator_cpus=8, trainer_cpus=8
        )
    )

    assert plan.bundles == [{"CPU": 4, "GPU": 2}] * 2
    assert plan.engines == [Seat(0, 2, 0), Seat(1, 2, 0)]
    assert plan.ranks == [Seat(0, 1, 1), Seat(0, 1, 1), Seat(1, 1, 1), Seat(1, 1, 1)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"generator_gpus": 2, "trainer_gpus": 1}, "to be the same GPUs"),
        (
            {"generators": 2, "trainers": 3, "generator_cpus": 2, "trainer_cpus": 3},
            r"trainers \(3\) to be a multiple",
        ),
    ],
)
def test_what_cannot_be_shared(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resources(shared=True, **values)


@pytest.mark.parametrize(
    ("bundles", "nodes", "words"),
    [
        ([CPU2, CPU2], [node(4)], ""),
        ([CPU2, CPU2], [node(2), node(2)], ""),
        ([CPU2, CPU2], [node(3)], "needs 4 CPU, the cluster has only 3"),
        ([{"CPU": 1.0, "GPU": 2.0}], [node(8)], "needs 2 GPU, the cluster has only 0"),
        ([{"CPU": 8.0}], [node(6), node(2)], "no node has 8 CPU; the largest has 6 CPU"),
        (
            [{"CPU": 2.0, "GPU": 2.0}],
            [node(4, 1), node(4, 1)],
            "no node has 2 CPU and 2 GPU; the largest has 4 CPU, 1 GPU",
        ),
        (
            [CPU2, CPU2, CPU2],
            [node(3), node(3)],
            "bundles of 3 x 2 CPU do not fit beside each other on nodes with 2 x 3 CPU",
        ),
        ([CPU2, {"CPU": 1.0, "GPU": 1.0}], [node(1, 1), node(2)], ""),
        ([CPU2], [], "needs 2 CPU, the cluster has only 0"),
    ],
)  # fmt: skip
def test_what_nodes_could_never_hold(bundles: list, nodes: list, words: str) -> None:
    assert shortage(bundles, nodes) == words


@pytest.mark.parametrize(
    ("values", "devices"),
    [
        ({"generator_cpus": 2, "trainer_cpus": 3}, 5),
        ({"generator_cpus": 2, "trainer_cpus": 3, "shared": True}, 3),
        ({"generator_gpus": 6, "trainer_gpus": 2, "generators": 3, "generator_cpus": 9}, 8),
        ({"generator_gpus": 4, "trainer_gpus": 4, "shared": True}, 4),
    ],
)
def test_a_device_hour_counts_what_is_held_and_what_is_shared_once(
    values: dict[str, int], devices: int
) -> None:
    plan = make_plan(resources(**values))

    assert resources(**values).devices == devices
    name = "GPU" if "generator_gpus" in values else "CPU"
    assert sum(bundle.get(name, 0) for bundle in plan.bundles) == devices


def test_reward_workers_have_a_core_each() -> None:
    assert all_bundles(resources(reward_workers=2)) == [{"CPU": 1}] * 4


def test_each_goes_to_the_fullest_node_that_it_fits() -> None:
    nodes = [node(8, 2), node(4)]
    gpus = {"CPU": 1.0, "GPU": 2.0}

    assert place([CPU2, gpus], nodes) == [(0, gpus), (1, CPU2)]
    assert place([CPU2] * 4, nodes) == [(1, {"CPU": 4.0}), (0, {"CPU": 4.0})]
    assert place([CPU2, CPU2, CPU2], [node(3), node(3)]) is None
    assert nodes == [node(8, 2), node(4)]
