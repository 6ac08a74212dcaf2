"""Two real Ray nodes on this machine, with actors that know no torch."""

import asyncio
import json
import logging
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util import placement_group_table
from ray.util.placement_group import placement_group, remove_placement_group

from tests.training.cluster.test_cluster_run import command, records
from tests.training.cluster.toy_actors import DyingTrainer, StuckTrainer, ToyGenerator, ToyTrainer
from tests.waiting import wait_until
from training.cluster.cluster import LOCAL, Cluster, ClusterError
from training.cluster.machines import figures_of
from training.cluster.placement import Patience
from training.recipe import apply_overrides, load_recipe
from training.rollouts import Request
from training.waiting import Stopped, Switchboard, WaitTimeout

pytestmark = pytest.mark.ray

SPREAD = {"generators": 2, "generator_cpus": 2, "trainers": 2, "trainer_cpus": 2}
TWO_RANKS = {"trainers": 2, "trainer_cpus": 2}
SHORT = Patience(report=0.2, too_small=0.5, full=60)


def make(
    switch: Switchboard,
    resources: Mapping[str, Any],
    others: Mapping[str, Any] | None = None,
    *,
    trainer_class: type = ToyTrainer,
    address: str = "elsewhere",
    **options: Any,
) -> Cluster:
    overrides = {f"resources.{name}": value for name, value in resources.items()} | {"offpolicy.k": 0}
    overrides |= others or {}
    recipe = apply_overrides(load_recipe("tiny/scalerl"), overrides)
    cluster = Cluster(recipe, Path("/nowhere"), switch, address=address, **options)
    cluster.generator_class, cluster.trainer_class = ToyGenerator, trainer_class
    return cluster


def on_cluster(
    work: Callable[[Cluster, Any, Any], Awaitable[None]],
    resources: Mapping[str, Any] = SPREAD,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Run `work(cluster, generator, trainer)` and take everything away again."""

    async def run() -> None:
        cluster = make(Switchboard(), resources, others)
        try:
            generator, trainer = await cluster.start()
            await work(cluster, generator, trainer)
        finally:
            await cluster.stop(patiently=True)

    asyncio.run(run())
    wait_until(is_everything_given_back)


def is_everything_given_back() -> bool:
    states = {group["state"] for group in placement_group_table().values()}
    return states <= {"REMOVED"} and ray.available_resources().get("CPU") == 5


@pytest.mark.usefixtures("two_nodes")
def test_engines_and_ranks_lie_on_both_nodes_and_answer_as_one() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        places = Counter(
            bundle for group in placement_group_table().values() if group["state"] == "CREATED"
            for bundle in group["bundles_to_node_id"].values()
        )  # fmt: skip
        assert sorted(places.values()) == [1, 3]
        assert len(set(cluster.processes)) == 4
        assert await trainer.train_step("a") == (0, 2, ["a"])
        steps = [trainer.train_step(name) for name in "bcd"]  # called now, in this order, awaited later
        assert (await steps[2])[2] == ["a", "b", "c", "d"]
        await asyncio.gather(*steps[:2])

        await generator.update_weights(trainer.weights(), 7)

        answers = await generator.generate([Request([1], 2), Request([2], 2)], 1.0)
        assert [(answer.tokens, answer.versions) for answer in answers] == [([4], [7])] * 2

    on_cluster(work)


@pytest.mark.usefixtures("two_nodes")
def test_every_part_tells_of_its_machine_also_while_ranks_train() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        steps = [trainer.train_step(name) for name in "ab"]
        told = await figures_of(cluster.parts, seconds=60)
        await asyncio.gather(*steps)

        parts = {name.split("/")[2] for name in told}
        assert parts == {"host", "generator-0", "generator-1", "trainer-rank-0", "trainer-rank-1"}

    on_cluster(work)


@pytest.mark.usefixtures("two_nodes")
def test_ranks_train_while_a_save_is_written(tmp_path: Path) -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        saving = asyncio.ensure_future(trainer.save(str(tmp_path / "go")))

        assert (await trainer.train_step("b"))[2] == ["save begun", "b"]
        assert not saving.done()
        (tmp_path / "go").touch()
        await saving
        with pytest.raises(ClusterError, match=r"trainer rank \d \(.*\): .*cannot be written"):
            await trainer.save("nowhere")

    on_cluster(work)


async def answers_of(generator: Any) -> list[tuple[int, int]]:
    """(token, version) of each of two engines."""
    found = await generator.generate([Request([1], 2), Request([2], 2)], 1.0)
    return sorted((answer.tokens[0], answer.versions[0]) for answer in found)


@pytest.mark.usefixtures("two_nodes")
def test_weights_are_broadcast_to_all_engines_by_all_ranks() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        await generator.update_weights(trainer.weights(), 7)
        await generator.update_weights(trainer.weights(), 8)

        assert await answers_of(generator) == [(131, 8), (132, 8)]  # both in the first group of three
        seen = [(await part.call("call", "train_step", "a"))[2] for part in trainer.ranks]
        assert seen == [["planned", "sent to 2", "sent to 2", "a"]] * 2

        await trainer.train_step("no broadcast")
        with pytest.raises(RuntimeError, match=r"trainer rank 1 \(.*\): nobody listens$"):
            async with asyncio.timeout(20):
                await generator.update_weights(trainer.weights(), 13)

    on_cluster(work, SPREAD, {"engine.weight_transfer": "collective"})


@pytest.mark.deep
@pytest.mark.usefixtures("two_nodes")
def test_an_engine_that_dies_in_a_broadcast_leaves_its_group_and_the_next_one_enters_it() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        async def until_replaced(count: int) -> None:
            while len(generator.engines) < 2 or cluster.num_lost_engines < count:
                await asyncio.sleep(0.02)

        os.kill(cluster._engines[0].process, signal.SIGKILL)
        async with asyncio.timeout(60):
            await until_replaced(1)
            for step in "ab":
                await trainer.train_step(step)
            await generator.update_weights(trainer.weights(), 2)
            assert await answers_of(generator) == [(131, 2), (132, 2)]

            os.kill(cluster._engines[0].process, signal.SIGKILL)
            await until_replaced(2)  # the new one alone was sent to
            assert await answers_of(generator) == [(132, 2), (221, 2)]

            await trainer.train_step("c")
            await generator.update_weights(trainer.weights(), 3)  # generator 1 dies of it
            await until_replaced(3)

            assert await answers_of(generator) == [(421, 3), (521, 3)]
            await generator.update_weights(trainer.weights(), 4)
            assert await answers_of(generator) == [(631, 4), (632, 4)]
        assert cluster.num_lost_engines == 3
        assert (await trainer.train_step("d"))[2][1:] == [
            *"ab", "sent to 2", "sent to 1", "c", "sent to 2", "sent to 1", "sent to 1", "sent to 2", "d",
        ]  # fmt: skip

    on_cluster(work, SPREAD, {"engine.weight_transfer": "collective"})


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.deep
def test_shared_devices_are_taken_once() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        wait_until(lambda: ray.available_resources()["CPU"] == 4)
        assert await trainer.train_step("a") == (0, 1, ["a"])

    on_cluster(work, {"shared": True})


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.parametrize(
    ("engines", "lent"), [pytest.param(1, [["0", "1"]], marks=pytest.mark.deep), (2, [["0"], ["1"]])]
)
def test_shared_gpus_are_held_by_ranks_and_lent_to_engines(engines: int, lent: list[list[str]]) -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        wait_until(lambda: ray.available_resources().get("GPU", 0) == 0)
        assert sorted([await part.call("lent_gpus") for part in cluster._engines]) == lent
        assert [(await part.call("whereabouts")).gpus for part in trainer.ranks] == [["0"], ["1"]]

    on_cluster(work, {"shared": True, "generators": engines, "generator_cpus": engines, "trainer_cpus": 2,
                      "generator_gpus": 2, "trainer_gpus": 2}, {"engine.type": "vllm"})  # fmt: skip


@pytest.mark.usefixtures("two_nodes")
def test_error_of_any_rank_is_raised_at_once_in_its_own_words() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        with pytest.raises(ClusterError) as raised:
            await trainer.train_step("bad")

        process = trainer.ranks[1].process
        host = trainer.ranks[1].host
        assert str(raised.value) == (
            f"trainer rank 1 (process {process} on {host}): the gradient norm of step 3 is not finite"
        )

    on_cluster(work)


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.deep
def test_error_of_the_only_engine_keeps_its_type() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        with pytest.raises(LookupError, match="^nothing to interrupt\nat all$"):
            await generator.interrupt()

    on_cluster(work, {})


@pytest.mark.usefixtures("two_nodes")
def test_death_of_a_rank_in_a_call() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        with pytest.raises(
            ClusterError, match=r"^trainer rank 1 \(process \d+ on .+\) died: killed, for instance"
        ):
            await cluster.guard(trainer.train_step("die"))

    on_cluster(work, TWO_RANKS)


@pytest.mark.deep
@pytest.mark.usefixtures("two_nodes")
def test_death_that_nobody_awaits_ends_the_work() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        process = trainer.ranks[1].process
        os.kill(process, signal.SIGKILL)

        with pytest.raises(ClusterError, match=rf"^trainer rank 1 \(process {process} on .+\) died: killed"):
            await asyncio.wait_for(cluster.guard(asyncio.Event().wait()), 20)

    on_cluster(work, TWO_RANKS)


@pytest.mark.deep
@pytest.mark.usefixtures("two_nodes")
def test_a_dead_engine_is_replaced_by_one_with_the_newest_weights(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "training")

    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        await trainer.train_step("a")
        await generator.update_weights(trainer.weights(), 7)
        old = cluster._engines[1].process
        running = asyncio.ensure_future(generator.generate([Request([1], 50), Request([2], 50)], 1.0))

        os.kill(old, signal.SIGKILL)

        async with asyncio.timeout(60):
            answers = await cluster.guard(running)
            while len(generator.engines) < 2 or not cluster.num_lost_engines:
                await asyncio.sleep(0.05)  # the one that is left may have answered both
        assert [(answer.tokens, answer.versions) for answer in answers] == [([1], [7])] * 2
        answers = await generator.generate([Request([1], 50), Request([2], 50)], 1.0)
        assert [(answer.tokens, answer.versions) for answer in answers] == [([1], [7])] * 2
        new = cluster._engines[1].process
        assert new != old and cluster.processes[-1] == new and cluster.num_lost_engines == 1
        assert (
            f"generator 1 (process {old} on " in caplog.text and "another one takes its place" in caplog.text
        )

    on_cluster(work)


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.deep
def test_death_is_the_reason_of_the_error_that_it_causes() -> None:
    async def work(cluster: Cluster, generator: Any, trainer: Any) -> None:
        async def fail_first() -> None:
            os.kill(trainer.ranks[1].process, signal.SIGKILL)
            raise RuntimeError("connection closed by peer")

        with pytest.raises(ClusterError, match="^trainer rank 1 .* died"):
            await cluster.guard(fail_first())

    on_cluster(work, TWO_RANKS)


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.deep
def test_death_while_loading() -> None:
    async def run() -> None:
        cluster = make(Switchboard(), TWO_RANKS, trainer_class=DyingTrainer)
        with pytest.raises(ClusterError, match="^trainer rank 1 .* died: killed"):
            await asyncio.wait_for(cluster.start(), 60)
        await cluster.stop(patiently=False)

    asyncio.run(run())
    wait_until(is_everything_given_back)


@pytest.mark.deep
@pytest.mark.usefixtures("two_nodes")
def test_what_does_not_load_is_named() -> None:
    async def run() -> None:
        cluster = make(Switchboard(), TWO_RANKS, trainer_class=StuckTrainer, patience=Patience(loading=1.0))
        with pytest.raises(
            WaitTimeout, match=r"^waited 1 s for trainer rank 1 \(process \d+ on .+\) to load$"
        ):
            await cluster.start()
        await cluster.stop(patiently=False)

    asyncio.run(run())
    wait_until(is_everything_given_back)


@pytest.mark.usefixtures("two_nodes")
@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"generator_cpus": 3, "trainer_cpus": 3}, "needs 6 CPU, the cluster has only 5"),
        ({"generator_cpus": 4}, "no node has 4 CPU; the largest has 3 CPU"),
        ({"generator_gpus": 3}, "needs 3 GPU, the cluster has only 2"),
    ],
)
@pytest.mark.parametrize(("address", "begin"), [(LOCAL, "too few devices"), ("elsewhere", "no place after")])
def test_too_few_devices(
    resources: dict[str, int], words: str, address: str, begin: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At once where the cluster cannot grow; after some patience, with words, where it could."""
    caplog.set_level(logging.INFO, "training")

    async def run() -> None:
        cluster = make(Switchboard(), resources, address=address, patience=SHORT)
        with pytest.raises(ClusterError) as raised:
            await cluster.start()
        await cluster.stop(patiently=False)
        name, value = list(resources.items())[0]
        assert str(raised.value).startswith(begin)
        assert words in str(raised.value) and f"resources.{name} {value}" in str(raised.value)

    asyncio.run(run())

    reports = [record.getMessage() for record in caplog.records if "waiting" in record.getMessage()]
    assert len(reports) == (0 if address == LOCAL else 3)
    assert all(report.startswith("waiting for a place for") and words in report for report in reports)
    wait_until(is_everything_given_back)


@pytest.mark.usefixtures("two_nodes")
def test_wait_for_occupied_devices_says_what_is_free_and_can_be_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "training")
    others = placement_group([{"CPU": 2}, {"CPU": 1}])
    ray.get(others.ready(), timeout=60)
    switch_of: list[Switchboard] = []

    async def run() -> None:
        switch = Switchboard()
        switch_of.append(switch)
        cluster = make(switch, {"generator_cpus": 2}, patience=SHORT)
        start = asyncio.ensure_future(cluster.start())
        while "waiting for a place" not in caplog.text:
            await asyncio.wait({start}, timeout=0.05)
        switch.stop()
        with pytest.raises(Stopped):
            await start
        await cluster.stop(patiently=False)

    asyncio.run(run())

    assert "waiting for a place for 0 s: needs 3 CPU; 2 free, the cluster has 5" in caplog.text
    remove_placement_group(others)
    wait_until(is_everything_given_back)


@pytest.mark.timeout(240)
def test_a_stop_before_there_is_a_place_ends_the_run_as_cancelled(
    two_nodes: str, tmp_path: Path, toy_model: Path
) -> None:
    others = placement_group([{"CPU": 2}, {"CPU": 3}])
    ray.get(others.ready(), timeout=60)
    known = set(placement_group_table())
    run = subprocess.Popen(
        command(tmp_path, toy_model, program="tests.training.cluster.toy_command"),
        env={**os.environ, "RAY_ADDRESS": two_nodes},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: run.poll() is not None or set(placement_group_table()) - known, seconds=90)
        run.send_signal(signal.SIGTERM)
        output = run.communicate(timeout=90)[0]
    finally:
        run.kill()
        remove_placement_group(others)
    wait_until(is_everything_given_back)

    assert run.returncode == 0, output
    assert output.splitlines()[-1] == "cancelled: stopped before training; step 0"
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["state"], summary["step"], summary["pass_rate"]) == ("cancelled", 0, None)
    assert summary["compute"] == {"device_hours": 0.0, "tokens": 0, "flops": 0.0}
    assert records(tmp_path) == []
