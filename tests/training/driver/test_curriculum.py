import json
from typing import Any

import pytest

from training.driver.curriculum import PromptSampler, ramp_share
from training.schema import Curriculum
from training.tasks import Prompt

PROMPTS = [Prompt(str(i), f"{i}=", str(i)) for i in range(5)]


def sampler(mode: str = "no_positive_resampling", seed: int = 0, **settings: Any) -> PromptSampler:
    return PromptSampler(PROMPTS, Curriculum(mode=mode, **settings), seed)


def take(source: PromptSampler, count: int) -> list[str]:
    return [prompt.id for prompt in (source.next() for _ in range(count)) if prompt]


def test_each_epoch_shows_every_prompt_once_in_its_own_order() -> None:
    source = sampler()
    first, second = take(source, 5), take(source, 5)

    assert sorted(first) == sorted(second) == ["0", "1", "2", "3", "4"]
    assert first != second


def test_seed_decides_the_order() -> None:
    assert take(sampler(seed=1), 10) == take(sampler(seed=1), 10)
    assert take(sampler(seed=1), 10) != take(sampler(seed=2), 10)


def test_solved_prompts_are_removed_for_good() -> None:
    source = sampler()
    source.record(PROMPTS[3], 9, 10)  # historical pass rate 0.9: reaches the limit
    source.record(PROMPTS[4], 8, 10)

    assert set(take(source, 20)) == {"0", "1", "2", "4"}
    assert source.state()["removed"] == ["3"]


@pytest.mark.parametrize(("pass_rate_of", "num_removed"), [("all_visits", 0), ("last_visit", 1)])
def test_pass_rate_is_of_all_visits_or_of_the_last(pass_rate_of: str, num_removed: int) -> None:
    source = sampler(pass_rate_of=pass_rate_of)
    source.record(PROMPTS[0], 0, 10)
    resumed = sampler(pass_rate_of=pass_rate_of)
    resumed.load(json.loads(json.dumps(source.state())))
    resumed.record(PROMPTS[0], 10, 10)  # 0.5 over both

    assert len(resumed.state()["removed"]) == num_removed


def test_uniform_removes_nothing() -> None:
    source = sampler("uniform")
    source.record(PROMPTS[3], 10, 10)

    assert "3" in take(source, 5)


def test_nothing_left() -> None:
    source = sampler()
    for prompt in PROMPTS:
        source.record(prompt, 1, 1)

    assert source.next() is None


def test_resumed_sampler_goes_on_with_what_has_not_been_handed_out() -> None:
    source = sampler()
    take(source, 4)
    source.record(PROMPTS[0], 1, 1)
    state = json.loads(json.dumps(source.state()))
    resumed = sampler()
    resumed.load(state)

    assert take(resumed, 12) == take(source, 12)


def test_prompts_are_found_by_id() -> None:
    assert sampler().prompt("3") == PROMPTS[3]
    with pytest.raises(KeyError):
        sampler().prompt("9")


RANKED = [Prompt(str(i), "", "", difficulty=float(i // 10)) for i in range(100)]


def ramp(mode: str = "linear_ramp", **settings: float) -> PromptSampler:
    curriculum = Curriculum(mode=mode, **{"ramp_start": 0.1, "ramp_steps": 10} | settings)
    return PromptSampler(RANKED, curriculum, seed=0)


def test_shares_of_the_ramps() -> None:
    linear = Curriculum(mode="linear_ramp", ramp_start=0.2, ramp_steps=10)
    exponential = Curriculum(mode="exponential_ramp", ramp_start=0.04, ramp_steps=10)

    assert [ramp_share(step, linear) for step in (0, 5, 10, 99)] == pytest.approx([0.2, 0.6, 1, 1])
    assert [ramp_share(step, exponential) for step in (0, 5, 10, 99)] == pytest.approx([0.04, 0.2, 1, 1])
    assert ramp_share(0, Curriculum(mode="uniform")) == 1


@pytest.mark.parametrize("mode", ["linear_ramp", "exponential_ramp"])
def test_ramp_goes_from_the_easiest_to_all(mode: str) -> None:
    source = ramp(mode)

    start = {p.difficulty for p in (source.next(0) for _ in range(30)) if p}
    half = {p.difficulty for p in (source.next(5) for _ in range(200)) if p}
    end = {p.id for p in (source.next(10) for _ in range(200)) if p}

    assert start == {0}
    assert half == set(range(6)) if mode == "linear_ramp" else half == set(range(4))
    assert end == {p.id for p in RANKED}


def test_prompts_that_a_ramp_lets_in_join_the_running_epoch() -> None:
    source = ramp()
    first = [source.next(0) for _ in range(5)]
    rest = [source.next(10) for _ in range(95)]

    assert {p.id for p in [*first, *rest] if p} == {p.id for p in RANKED}  # each once, in one epoch


def test_resumed_ramp_repeats_and_loses_nothing() -> None:
    source = ramp()
    seen = [source.next(3) for _ in range(7)]
    resumed = ramp()
    resumed.load(json.loads(json.dumps(source.state())))

    rest = [resumed.next(10) for _ in range(93)]

    assert {p.id for p in [*seen, *rest] if p} == {p.id for p in RANKED}


def test_ramp_needs_difficulties() -> None:
    with pytest.raises(ValueError, match="has no difficulty"):
        PromptSampler(PROMPTS, Curriculum(mode="linear_ramp"), 0)
