import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.staleness import WorkBuffer


def drive(buffer: WorkBuffer[int], depth: int, push_every: int, rng: random.Random, actions: int) -> int:
    """Do random allowed things in random order; assert the bound at each training. Returns the steps made."""
    running = []
    for _ in range(actions):
        action = rng.choice(["start", "start", "start", "finish", "finish", "train", "push"])
        if action == "start" and buffer.may_start():
            running.append(buffer.start())
        elif action == "finish" and running:
            ticket = running.pop(rng.randrange(len(running)))
            buffer.finish(ticket, ticket.number)
        elif action == "train" and buffer.is_ready():
            for ticket, group in buffer.take():
                assert 0 <= buffer.trainer_version - ticket.version <= depth
                assert group == ticket.number
            buffer.trained()
        elif action == "push" and buffer.wants_push():
            buffer.pushed(buffer.trainer_version)
    return buffer.trainer_version


@settings(max_examples=60, deadline=None)
@given(
    prompts=st.integers(1, 4),
    depth=st.integers(0, 5),
    version=st.integers(0, 7),
    seed=st.integers(0, 10**6),
)
def test_no_schedule_breaks_the_bound(prompts: int, depth: int, version: int, seed: int) -> None:
    buffer: WorkBuffer[int] = WorkBuffer(prompts_per_step=prompts, depth=depth, version=version)

    drive(buffer, depth, 1, random.Random(seed), 400)


@settings(max_examples=40, deadline=None)
@given(prompts=st.integers(1, 3), k=st.integers(1, 4), version=st.integers(0, 5), seed=st.integers(0, 10**6))
def test_ppo_off_policy_is_at_most_k_minus_one_behind(prompts: int, k: int, version: int, seed: int) -> None:
    buffer: WorkBuffer[int] = WorkBuffer(prompts_per_step=prompts, depth=k - 1, push_every=k, version=version)

    drive(buffer, k - 1, k, random.Random(seed), 400)


@pytest.mark.parametrize(("depth", "push_every"), [(0, 1), (3, 1), (2, 3)])
def test_every_schedule_gets_somewhere(depth: int, push_every: int) -> None:
    buffer: WorkBuffer[int] = WorkBuffer(prompts_per_step=2, depth=depth, push_every=push_every)

    assert drive(buffer, depth, push_every, random.Random(0), 2000) > 20


def test_depth_bounds_what_starts_before_the_first_step() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=2, depth=3)
    started = 0
    while buffer.may_start():
        buffer.start()
        started += 1

    assert started == 2 * (3 + 1)


def test_batches_keep_the_order_of_starting() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=1, depth=1)
    first, second = buffer.start(), buffer.start()
    buffer.finish(second, "b")
    assert not buffer.is_ready()

    buffer.finish(first, "a")
    assert buffer.take() == [(first, "a")]


def test_ppo_trains_on_complete_blocks() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=1, depth=1, push_every=2)
    first, second = buffer.start(), buffer.start()
    buffer.finish(first, "a")
    assert not buffer.is_ready()

    buffer.finish(second, "b")
    buffer.take()
    buffer.trained()
    assert not buffer.wants_push()
    assert buffer.is_ready()
    buffer.take()
    buffer.trained()
    assert buffer.wants_push()


def test_untrained_groups_are_known_for_a_resume() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=1, depth=2)
    first, second, third = buffer.start(), buffer.start(), buffer.start()
    buffer.finish(second, "b")
    buffer.finish(first, "a")
    buffer.take()
    buffer.trained()

    assert buffer.untrained() == [second, third]


def test_misuse_is_refused() -> None:
    buffer: WorkBuffer[str] = WorkBuffer(prompts_per_step=1, depth=0)
    ticket = buffer.start()
    with pytest.raises(RuntimeError, match="more than 0 versions old"):
        buffer.start()
    with pytest.raises(RuntimeError, match="not complete"):
        buffer.take()
    with pytest.raises(RuntimeError, match="no batch"):
        buffer.trained()
    with pytest.raises(RuntimeError, match="not between"):
        buffer.pushed(1)
    buffer.finish(ticket, "a")
    with pytest.raises(RuntimeError, match="not being generated"):
        buffer.finish(ticket, "a")


@pytest.mark.parametrize("wrong", [{"prompts_per_step": 0}, {"depth": -1}, {"push_every": 3}])
def test_impossible_settings(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="depth >= push_every - 1"):
        WorkBuffer(**{"prompts_per_step": 1, "depth": 0, **wrong})
