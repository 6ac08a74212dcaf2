import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.engine_choice import (
    EngineChoice,
    EngineMissing,
    choose,
    choose_for,
    is_installed,
    refuse_missing,
    refuse_rounded_head,
    settle,
)
from training.engines import make_engine
from training.models import parameter_count
from training.recipe import Recipe, apply_overrides, content_hash, load_recipe, parse_recipe
from training.schema.machine import Engine


def auto(recipe: Recipe, **overrides: object) -> Recipe:
    return apply_overrides(recipe, {"engine.type": "auto", **overrides})


@pytest.mark.parametrize("on_gpu", [False, True])
def test_without_vllm_the_other_engine(on_gpu: bool) -> None:
    choice = choose(parameters=10**10, response_tokens=999, on_gpu=on_gpu, has_vllm=False)

    assert choice.engine == "transformers" and "vLLM is not installed on" in choice.reason


def test_gpus_generate_with_vllm() -> None:
    choice = choose(parameters=1, response_tokens=1, on_gpu=True, has_vllm=True)

    assert choice == EngineChoice("vllm", "auto: GPUs generate, and vLLM is installed")


@given(
    parameters=st.integers(1, 10**12),
    larger=st.integers(1, 10**12),
    response_tokens=st.integers(1, 100_000),
)
def test_a_larger_model_never_goes_back(parameters: int, larger: int, response_tokens: int) -> None:
    sizes = sorted((parameters, larger))
    engines = [
        choose(parameters=size, response_tokens=response_tokens, on_gpu=False, has_vllm=True).engine
        for size in sizes
    ]

    assert engines in (["transformers"] * 2, ["transformers", "vllm"], ["vllm"] * 2)


@pytest.mark.parametrize(
    ("millions", "response_tokens", "engine"),
    [
        (0.7, 32, "transformers"),
        (3, 32, "transformers"),
        (12, 32, "vllm"),
        (0.7, 200, "transformers"),  # a tie, and vLLM takes 20 s longer to start
        (3, 200, "vllm"),
        (12, 200, "vllm"),
    ],
)
def test_the_engine_that_won_where_it_was_measured(
    millions: float, response_tokens: int, engine: str
) -> None:
    choice = choose(
        parameters=int(millions * 1e6), response_tokens=response_tokens, on_gpu=False, has_vllm=True
    )

    assert choice.engine == engine
    assert f"up to {response_tokens} tokens vLLM wins from" in choice.reason


def test_what_a_recipe_asks_for(toy_model: Path) -> None:
    tiny = load_recipe("tiny/scalerl")

    assert choose_for(tiny, 330_000, has_vllm=True).engine == "transformers"
    assert choose_for(tiny, 8 * 10**9, has_vllm=True).engine == "vllm"
    assert "0.33M parameters on CPU" in choose_for(tiny, 330_000, has_vllm=True).reason
    on_gpu = apply_overrides(tiny, {"resources.generator_gpus": 1})
    assert choose_for(on_gpu, 330_000, has_vllm=True).engine == "vllm"


def test_the_default_and_its_hash_stay() -> None:
    assert Engine().type == "vllm"
    recipe = load_recipe("scalerl")
    assert recipe.engine.type == "vllm"
    assert content_hash(auto(recipe)) != content_hash(recipe)


def test_settled_once_and_kept_for_a_resume(toy_recipe: Recipe, toy_model: Path, tmp_path: Path) -> None:
    recipe, choice = settle(auto(toy_recipe), toy_model, tmp_path, resume=False)

    assert recipe == apply_overrides(toy_recipe, {"engine.type": "transformers"})
    assert parse_recipe(recipe.model_dump(mode="json")) == recipe
    assert json.loads((tmp_path / "engine.json").read_text()) == {
        "engine": choice.engine,
        "reason": choice.reason,
    }
    assert f"{(parameter_count(toy_model) or 0) / 1e6:.3g}M parameters" in choice.reason
    longer = auto(toy_recipe, **{"resources.generator_gpus": 1})  # would be vLLM, were it new
    assert settle(longer, toy_model, tmp_path, resume=True)[1] == choice
    assert settle(longer, toy_model, tmp_path, resume=False)[1].engine == "vllm"


def test_a_resume_refuses_where_its_engine_is_gone(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "engine.json").write_text('{"engine": "vllm", "reason": "auto: tried"}')

    with pytest.raises(
        EngineMissing, match="auto became vllm when this run began, and vllm is not installed on"
    ):
        settle(auto(toy_recipe), toy_model, tmp_path, resume=True, is_here=lambda name: name != "vllm")


@pytest.mark.parametrize("content", ["", "{}", '{"engine": "other", "reason": "x"}', "[1]"])
def test_what_cannot_be_read_is_settled_anew(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path, content: str
) -> None:
    (tmp_path / "engine.json").write_text(content)

    _, choice = settle(auto(toy_recipe), toy_model, tmp_path, resume=True)

    assert choice.engine == "transformers" and "parameters on CPU" in choice.reason


def test_a_named_engine_stays_what_it_is(toy_recipe: Recipe, toy_model: Path, tmp_path: Path) -> None:
    recipe, choice = settle(toy_recipe, toy_model, tmp_path, resume=False)

    assert recipe is toy_recipe and choice == EngineChoice("transformers", "named by the recipe")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_engine_is_named_with_the_machine() -> None:
    assert is_installed("transformers") and not is_installed("no_such_engine")
    with pytest.raises(
        EngineMissing, match=r"^vllm is not installed on \S+; install it, or take transformers or auto$"
    ):
        refuse_missing("vllm", lambda name: False)
    refuse_missing("auto", lambda name: False)


@pytest.mark.parametrize("version", ["0.31.2", "0.9.0"])
def test_a_vllm_without_an_fp32_head_is_refused_with_what_would_do(version: str) -> None:
    """Before the run is queued: such a vLLM warns, and goes on."""
    recipe = load_recipe("scalerl")

    with pytest.raises(
        ValueError, match=f"vLLM {version} on .* compute logits in bfloat16; install vLLM 0.32, or set"
    ):
        refuse_rounded_head(recipe, version)
    for change in (
        {"precision.head_generator": "bfloat16"},
        {"precision.generator": "float32"},
        {"engine.type": "transformers"},
    ):
        refuse_rounded_head(apply_overrides(recipe, change), version)


@pytest.mark.parametrize("version", [None, "0.32.0", "1.0", "0.1.dev9+g1"])
def test_a_vllm_with_an_fp32_head_is_not(version: str | None) -> None:
    refuse_rounded_head(load_recipe("scalerl"), version)


def test_an_engine_is_made_by_name_only(toy_recipe: Recipe, toy_model: Path) -> None:
    with pytest.raises(ValueError, match="engine.type is still auto"):
        make_engine(auto(toy_recipe).model_dump(mode="json"), str(toy_model))
