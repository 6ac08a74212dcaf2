"""Reward workers on two real Ray nodes of this machine."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from ray.util import placement_group_table

from tests.training.cluster.test_cluster import SHORT, is_everything_given_back
from tests.training.cluster.toy_rewards import Demanding, Impatient, MortalActor, ToyJudge
from tests.waiting import wait_until
from training.cluster.placement import ClusterError
from training.cluster.rewards import RewardWorkers
from training.schema import Resources
from training.verifiers.service import RewardError
from training.waiting import Switchboard

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("two_nodes")]


def with_workers(
    work: Callable[[RewardWorkers], Awaitable[None]],
    count: int = 2,
    verifiers: Any = (),
    actor: Any = MortalActor,
) -> None:
    """Run `work` with so many workers, and take them away again."""

    async def run() -> None:
        rewards = RewardWorkers(Resources(reward_workers=count), verifiers, actor_class=actor)
        try:
            await rewards.start(Switchboard(), may_grow=True, patience=SHORT)
            await work(rewards)
        finally:
            await rewards.aclose()

    asyncio.run(run())
    wait_until(is_everything_given_back)


def test_judgements_are_made_on_all_nodes_side_by_side(tmp_path: Path) -> None:
    async def work(rewards: RewardWorkers) -> None:
        groups = [group for group in placement_group_table().values() if group["state"] == "CREATED"]
        assert [len(set(group["bundles_to_node_id"].values())) for group in groups] == [2]
        go = tmp_path / "go"
        waiting = [asyncio.create_task(rewards.verify(ToyJudge(), "", str(go))) for _ in range(2)]
        assert not (await asyncio.wait(waiting, timeout=0.2))[0]
        go.touch()
        assert len({verdict.reason for verdict in await asyncio.gather(*waiting)}) == 2

        right, wrong, failed = [
            await rewards.verify(ToyJudge(), "yes", one) for one in ("yes", "no", "raise")
        ]
        assert (right.correct, wrong.correct, failed.failure) == (True, False, "ValueError: no idea")
        inline = await rewards.verify(ToyJudge("inline"), "yes", "yes")
        assert inline.correct and inline.reason == str(os.getpid())

    with_workers(work)


def test_a_late_judgement_fails_alone() -> None:
    async def work(rewards: RewardWorkers) -> None:
        late, right = await asyncio.gather(
            rewards.verify(Impatient(), "", "/never"), rewards.verify(ToyJudge(), "yes", "yes")
        )
        assert late.failure == "timed out after 0.3 s"
        assert right.correct and rewards.num_lost == 0

    with_workers(work, count=1)


def test_a_worker_that_dies_is_replaced_and_its_judgements_are_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(rewards: RewardWorkers) -> None:
        responses = ["yes", f"die once {tmp_path / 'dead'}", "no", "yes", "yes"]
        verdicts = await asyncio.gather(*(rewards.verify(ToyJudge(), "yes", one) for one in responses))
        assert [v.correct for v in verdicts] == [True, False, False, True, True]
        assert [v.failure for v in verdicts] == [""] * 5
        assert rewards.num_lost == 1

    caplog.set_level(logging.WARNING)
    with_workers(work, count=1)
    assert "reward worker 0 (process" in caplog.text and "another one takes its place" in caplog.text


@pytest.mark.deep
def test_a_judgement_that_kills_every_worker_is_a_failure_of_its_sample() -> None:
    async def work(rewards: RewardWorkers) -> None:
        verdict = await rewards.verify(ToyJudge(), "yes", "die")
        assert verdict.failure.startswith("crashed: 3 reward workers died over it; last: reward worker")
        assert (await rewards.verify(ToyJudge(), "yes", "yes")).correct

    with_workers(work)


@pytest.mark.deep
def test_where_no_worker_can_be_replaced_the_rewards_are_broken() -> None:
    async def work(rewards: RewardWorkers) -> None:
        rewards._actor_class = Unstartable
        with pytest.raises(RewardError, match="no reward worker is left"):
            await rewards.verify(ToyJudge(), "yes", "die")

    with_workers(work, count=1)


class Unstartable(MortalActor):
    async def whereabouts(self) -> Any:
        raise OSError("no room")


def test_a_node_that_cannot_confine_code_is_refused() -> None:
    async def work(rewards: RewardWorkers) -> None:
        raise AssertionError("it has started")

    told = r"reward worker \d \(process \d+ on .*\): .*cannot confine untrusted code: it lacks"
    with pytest.raises(ClusterError, match=told):
        with_workers(work, verifiers=[Demanding()])


def test_too_many_workers_for_the_cluster_are_refused() -> None:
    async def work(rewards: RewardWorkers) -> None:
        raise AssertionError("it has started")

    with pytest.raises(
        ClusterError, match=r"needs 8 CPU, the cluster has only 5 .*resources.reward_workers 6"
    ):
        with_workers(work, count=6)
