import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from training.codec import Codec
from training.engines import make_engine
from training.pretrain import EOS
from training.recipe import Recipe, apply_overrides
from training.rollouts import Completion, Group, Interrupted, Request, Rollouts, seed_of
from training.tasks import Prompt, make_task
from training.tasks.arithmetic import SumVerifier, make_prompt
from training.verifiers.base import Verdict
from training.verifiers.text import ExactMatch
from training.waiting import PartFailed

PROMPT = make_prompt(37, 58)


def check_length_control(recipe: Recipe, group: Group, phrase: list[int]) -> None:
    """What must hold of any engine's samples: forced tokens are the phrase and nothing else; limits are kept."""
    rollout, length = recipe.rollout, recipe.length
    limit = rollout.max_response_tokens
    for sample in group.samples:
        assert len(sample.response) == len(sample.logp) == len(sample.chosen) <= limit
        forced = [token for token, chosen in zip(sample.response, sample.chosen, strict=True) if not chosen]
        assert forced == (phrase if sample.interrupted else [])
        assert sample.finished or len(sample.response) == limit
        if sample.interrupted:
            assert length.interrupt_low <= sample.chosen.index(False) <= length.interrupt_high
    if length.mode == "none":
        assert not any(sample.interrupted for sample in group.samples)


@pytest.mark.parametrize("mode", ["interruption", "none"])
def test_length_control_with_the_transformers_engine(toy_recipe: Recipe, toy_model: Path, mode: str) -> None:
    recipe, codec = apply_overrides(toy_recipe, {"length.mode": mode}), Codec(toy_model)

    async def roll_out() -> Group:
        engine = make_engine(recipe.model_dump(mode="json"), str(toy_model))
        (group,) = await Rollouts(recipe, make_task("arithmetic"), codec, engine).groups([PROMPT], 64, 1.0)
        return group

    group = asyncio.run(roll_out())

    check_length_control(recipe, group, codec.encode(recipe.length.phrase))
    assert any(sample.interrupted for sample in group.samples) is (mode == "interruption")
    assert any(not sample.finished for sample in group.samples)


def test_plain_truncation_cuts_at_the_limit_and_goes_no_further(toy_recipe: Recipe, toy_model: Path) -> None:
    plain = apply_overrides(toy_recipe, {"length.mode": "none"})
    group, generator = roll(plain, toy_model, ["15,9" + ",1" * 8, f"15,9</think>95{EOS}"])

    cut, done = group.samples
    assert len(generator.requests) == 1
    assert generator.requests[0][0].max_tokens == plain.rollout.max_response_tokens
    assert (cut.finished, cut.interrupted, cut.correct) == (False, False, False)
    assert done.correct and all(cut.chosen)


class Scripted:
    """A generator that answers with prepared texts, one list a call, and remembers what it was asked."""

    def __init__(self, codec: Codec, *calls: list[str]) -> None:
        self._codec, self._calls = codec, list(calls)
        self.requests: list[list[Request]] = []

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        self.requests.append(requests)
        texts = self._calls[len(self.requests) - 1]
        tokens = [self._codec.encode(text) for text in texts]
        return [
            Completion(ids, [-0.5] * len(ids), text.endswith(EOS), [len(self.requests)] * len(ids))
            for ids, text in zip(tokens, texts, strict=True)
        ]

    async def update_weights(self, weights: object, version: int) -> None:
        raise AssertionError("not in these tests")

    async def interrupt(self) -> None:
        raise AssertionError("not in these tests")


def roll(recipe: Recipe, folder: Path, *calls: list[str]) -> tuple[Group, Scripted]:
    codec = Codec(folder)
    generator = Scripted(codec, *calls)
    recipe = apply_overrides(recipe, {"length.interrupt_high": recipe.length.interrupt_low})
    rollouts = Rollouts(recipe, make_task("arithmetic"), codec, generator)
    (group,) = asyncio.run(rollouts.groups([PROMPT], len(calls[0]), 1.0))
    return group, generator


def test_reward_follows_the_verifier(toy_recipe: Recipe, toy_model: Path) -> None:
    group, _ = roll(toy_recipe, toy_model, [f"15,9</think>95{EOS}", f"15,9</think>96{EOS}"])

    assert [sample.reward for sample in group.samples] == [1.0, -1.0]
    assert group.pass_rate == 0.5
    assert all(all(sample.chosen) and sample.finished for sample in group.samples)


class Listens:
    """A task whose verifier keeps what it is given."""

    isolation, timeout_seconds = "inline", 1.0

    def __init__(self) -> None:
        self.heard: list[str] = []

    def verifier(self, prompt: Prompt) -> "Listens":
        return self

    def verify(self, answer: str, response: str) -> Verdict:
        self.heard.append(response)
        return Verdict(True)


def test_verifiers_get_the_response_from_the_end_of_its_thinking_on(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    codec, task = Codec(toy_model), Listens()
    texts = [f"15,9</think>95</think>{EOS}", f"15,9{EOS}"]
    plain = apply_overrides(toy_recipe, {"length.mode": "none"})
    rollouts = Rollouts(plain, task, codec, Scripted(codec, texts))  # type: ignore[arg-type]

    asyncio.run(rollouts.groups([PROMPT], 2, 1.0))

    assert task.heard == ["</think>95</think>", "<think>15,9"]


class WantsTheAnswer:
    """A task whose verifier takes the whole response where there is no thinking."""

    def verifier(self, prompt: Prompt) -> ExactMatch:
        return ExactMatch()


def test_an_unfinished_thought_that_the_prompt_opened_is_no_answer(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    codec = Codec(toy_model)
    texts = [f"95{EOS}", f"15,9</think>95{EOS}"]
    found = {}
    for prompt in (PROMPT, replace(PROMPT, text="37+58=")):
        plain = apply_overrides(toy_recipe, {"length.mode": "none"})
        rollouts = Rollouts(plain, WantsTheAnswer(), codec, Scripted(codec, texts))  # type: ignore[arg-type]
        (group,) = asyncio.run(rollouts.groups([prompt], 2, 1.0))
        found[prompt.text] = [sample.correct for sample in group.samples]

    assert found == {"37+58=<think>": [False, True], "37+58=": [True, True]}


def test_overlong_thinking_is_interrupted_and_the_phrase_never_trained(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    group, generator = roll(toy_recipe, toy_model, ["15,9,1,1,1", f"15,9</think>95{EOS}"], [f"95{EOS}"])

    cut, untouched = group.samples
    assert cut.correct and cut.interrupted and not untouched.interrupted
    assert [c for c in cut.chosen if not c] == [False]  # the one token of </think>
    assert len(cut.chosen) == len(cut.logp) == len(cut.response)
    assert generator.requests[1][0].tokens == cut.prompt + cut.response[:-3]
    assert (cut.oldest_version, cut.newest_version) == (1, 2)


def test_answer_cut_by_the_random_limit_goes_on_without_the_phrase(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    group, _ = roll(toy_recipe, toy_model, ["15,9,1,1</think>9"], [f"5{EOS}"])

    assert group.samples[0].correct
    assert all(group.samples[0].chosen)


def test_seeds_and_lengths_depend_on_recipe_and_key_alone(toy_recipe: Recipe, toy_model: Path) -> None:
    wide = apply_overrides(toy_recipe, {"length.interrupt_low": 1})

    def asked(recipe: Recipe, key: str) -> list[tuple[int | None, int]]:
        codec = Codec(toy_model)
        generator = Scripted(codec, [EOS] * 8)
        asyncio.run(
            Rollouts(recipe, make_task("arithmetic"), codec, generator).groups([PROMPT], 8, 1.0, key=key)
        )
        return [(request.seed, request.max_tokens) for request in generator.requests[0]]

    first = asked(wide, "train/17/0")
    other_run = apply_overrides(wide, {"seed": 1})

    assert first == asked(wide, "train/17/0")
    assert len({seed for seed, _ in first}) == 8
    assert len({length for _, length in first}) > 1
    for others in (asked(wide, "train/17/1"), asked(wide, "eval/17/0"), asked(other_run, "train/17/0")):
        assert not {seed for seed, _ in first} & {seed for seed, _ in others}


def test_seed_is_the_same_on_every_machine() -> None:
    assert seed_of(0, "train/17/0", 3, "first") == 2946481865848759411
    assert 0 <= seed_of("x") < 2**63


def test_second_part_has_a_seed_of_its_own_and_says_where_it_goes_on(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    _, generator = roll(toy_recipe, toy_model, ["15,9,1,1,1"], [f"95{EOS}"])

    (before,), (after,) = generator.requests
    assert before.position == 0 and before.seed != after.seed
    assert after.position == len(after.tokens) - len(before.tokens) == 11


class Interruptible(Scripted):
    """Answers the first call with an interruption in the middle."""

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        made = await super().generate(requests, temperature)
        if len(self.requests) > 1:
            return made
        return [replace(completion, interrupted=not completion.finished) for completion in made]

    async def interrupt(self) -> None:
        pass


def test_interrupted_samples_are_gone_on_with_and_only_then_scored(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    codec = Codec(toy_model)
    generator = Interruptible(codec, ["15,", f"15,9</think>95{EOS}"], [f"9</think>95{EOS}"])
    rollouts = Rollouts(toy_recipe, make_task("arithmetic"), codec, generator)
    draft = rollouts.draft(PROMPT, 2, "train/0/0")
    with pytest.raises(Interrupted):
        asyncio.run(rollouts.generate([draft], 1.0))
    assert [sample.reward for sample in draft.samples] == [0.0, 0.0]
    asyncio.run(rollouts.generate([draft], 1.0))
    asyncio.run(rollouts.score([draft]))

    first, second = draft.samples
    (request,) = generator.requests[1]
    origin = generator.requests[0][0]
    assert (request.tokens, request.position) == (origin.tokens + codec.encode("15,"), 3)
    assert (request.seed, request.max_tokens) == (origin.seed, origin.max_tokens - 3)
    assert first.correct and first.versions == [1] * 3 + [2] * 5
    assert first.response == second.response and all(first.chosen) and len(first.logp) == 8


def test_nothing_begins_after_an_interruption_until_it_is_over(toy_recipe: Recipe, toy_model: Path) -> None:
    codec = Codec(toy_model)
    generator = Interruptible(codec, [EOS])
    rollouts = Rollouts(toy_recipe, make_task("arithmetic"), codec, generator)
    asyncio.run(rollouts.interrupt(5))

    with pytest.raises(Interrupted):
        asyncio.run(rollouts.groups([PROMPT], 1, 1.0))
    assert generator.requests == []

    rollouts.go_on()
    assert len(asyncio.run(rollouts.groups([PROMPT], 1, 1.0))) == 1


def test_generator_that_gives_up_without_a_reason_is_an_error(toy_recipe: Recipe, toy_model: Path) -> None:
    with pytest.raises(PartFailed, match="the generator failed: it ended a response after 3 of 10 tokens"):
        roll(toy_recipe, toy_model, ["15,"])


def test_interruption_length_is_drawn_from_the_recipes_range(toy_recipe: Recipe, toy_model: Path) -> None:
    wide = apply_overrides(toy_recipe, {"length.interrupt_low": 10})
    codec = Codec(toy_model)
    generator = Scripted(codec, [f"</think>1{EOS}"] * 50)
    asyncio.run(Rollouts(wide, make_task("arithmetic"), codec, generator).groups([PROMPT], 50, 1.0))

    assert {request.max_tokens for request in generator.requests[0]} == {10, 11, 12}


@pytest.mark.parametrize(("text", "reward"), [(f"15,9</think>95{EOS}", -0.0), (f"1</think>5{EOS}", -1.0)])
def test_length_penalty_touches_correct_traces_alone(
    toy_recipe: Recipe, toy_model: Path, text: str, reward: float
) -> None:
    penalised = apply_overrides(
        toy_recipe,
        {"length.mode": "penalty", "length.penalty_max_tokens": 8, "length.penalty_cache_tokens": 4},
    )
    group, _ = roll(penalised, toy_model, [text])  # 8 tokens: clip((8 - 8) / 4 - 1, -1, 0) = -1

    assert group.samples[0].reward == pytest.approx(reward)


def test_too_long_prompt_is_refused(toy_recipe: Recipe, toy_model: Path) -> None:
    short = apply_overrides(toy_recipe, {"rollout.max_prompt_tokens": 3})

    with pytest.raises(ValueError, match=r"37\+58 has 7 tokens; rollout.max_prompt_tokens is 3"):
        roll(short, toy_model, [""])


def test_failed_verification_is_an_incorrect_sample(
    toy_recipe: Recipe, toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: SumVerifier, answer: str, response: str) -> Verdict:
        raise RuntimeError("lost")

    monkeypatch.setattr(SumVerifier, "verify", fail)
    group, _ = roll(toy_recipe, toy_model, [f"15,9</think>95{EOS}"])

    assert [(s.correct, s.reward, s.failure) for s in group.samples] == [(False, -1.0, "RuntimeError: lost")]
