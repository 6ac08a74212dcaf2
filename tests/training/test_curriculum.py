import json

from training.curriculum import PromptSampler
from training.schema import Curriculum
from training.tasks import Prompt

PROMPTS = [Prompt(str(i), f"{i}=", str(i)) for i in range(5)]


def sampler(mode: str = "no_positive_resampling", seed: int = 0) -> PromptSampler:
    return PromptSampler(PROMPTS, Curriculum(mode=mode), seed)


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
    assert source.num_removed == 1


def test_history_counts_every_visit() -> None:
    source = sampler()
    source.record(PROMPTS[0], 0, 10)
    source.record(PROMPTS[0], 10, 10)  # 0.5 over both

    assert source.num_removed == 0


def test_uniform_removes_nothing() -> None:
    source = sampler("uniform")
    source.record(PROMPTS[3], 10, 10)

    assert "3" in take(source, 5)


def test_nothing_left() -> None:
    source = sampler()
    for prompt in PROMPTS:
        source.record(prompt, 1, 1)

    assert source.next() is None


def test_resumed_sampler_hands_out_the_untrained_prompts_first_and_then_the_same() -> None:
    source = sampler()
    take(source, 2)
    pending = [p for p in (source.next(), source.next()) if p]
    source.record(PROMPTS[0], 1, 1)
    state = json.loads(json.dumps(source.state(pending)))
    resumed = sampler()
    resumed.load(state)

    expected = [p.id for p in pending if p.id != "0"] + take(source, 6)
    assert take(resumed, len(expected)) == expected
