import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.fake_model import make_model
from training import recipe as recipes
from training.recipe import RecipeError, apply_overrides, content_hash, load_recipe, recipe_names, resolve
from training.schema import Loss, Recipe


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one model, `toy`, that has a context of 96 tokens."""
    make_model(tmp_path, "toy", context=96)
    return tmp_path


@pytest.mark.parametrize("name", recipe_names())
def test_committed_recipe_loads_and_carries_its_file_name(name: str) -> None:
    assert load_recipe(name).name == name


OTHER_MACHINES = {
    "scalerl-moe",
    "scalerl-one-node",
    "scalerl-lora-8b",
    "scalerl-1.7b",
}  # ScaleRL for another model or fewer GPUs


def test_every_full_recipe_has_a_tiny_overlay() -> None:
    full = {name for name in recipe_names() if "/" not in name}

    assert full >= OTHER_MACHINES
    assert {f"tiny/{name}" for name in full - OTHER_MACHINES} <= set(recipe_names())


def test_scalerl_is_the_papers() -> None:
    recipe = load_recipe("scalerl")

    assert recipe.offpolicy.model_dump() == {"mode": "pipeline", "k": 8}
    assert (recipe.loss.type, recipe.loss.aggregation, recipe.advantage.norm) == ("cispo", "prompt", "batch")
    assert recipe.rollout.prompts_per_step * recipe.rollout.generations_per_prompt == 768
    assert recipe.rollout.max_sequence_tokens == 16_384
    assert recipe.optimizer.eps == 1e-15


def test_tiny_overlay_changes_the_size_and_keeps_the_method() -> None:
    full, tiny = load_recipe("deepseek-grpo"), load_recipe("tiny/deepseek-grpo")

    assert tiny.loss == full.loss
    assert tiny.offpolicy == full.offpolicy
    assert tiny.rollout.max_sequence_tokens < 96


def test_programs_are_judged_on_all_nodes_but_at_the_tiny_size() -> None:
    assert load_recipe("scalerl-math-code").resources.reward_workers == 16
    assert load_recipe("tiny/scalerl-math-code").resources.reward_workers is None


def test_load_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: tiny/scalerl\nname: mine\nloss: {type: dapo}\n")

    assert load_recipe(path).loss == Loss(type="dapo", aggregation="prompt", eps_low=0.2, eps_high=0.26)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param("extends: scalerl\nlos: {}\n", "los", id="misspelt"),
        pytest.param("extends: scalerl\nloss: {type: best}\n", "loss.type", id="unknown-loss"),
        pytest.param("extends: scalerl\nbudget: {device_hours: 0}\n", "budget.device_hours", id="no-budget"),
        pytest.param("name: x\ntitle: X\n", "model", id="missing"),
        pytest.param("extends: scalerl\nsize: huge\n", "size", id="unknown-size"),
        pytest.param("extends: nothing\n", "", id="unknown-base"),
        pytest.param("- 1\n", "", id="not-a-mapping"),
        pytest.param("a: [\n", "", id="not-yaml"),
    ],
)
def test_wrong_file_names_the_field(tmp_path: Path, text: str, field: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)

    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert caught.value.field == field


CONTRADICTIONS = [
    ({"loss.type": "ppo", "advantage.estimator": "group"}, "ppo has a critic"),
    ({"loss.type": "gspo", "advantage.estimator": "gae"}, "one ratio for a sequence"),
    ({"advantage.estimator": "gae", "advantage.norm": "prompt"}, "norm prompt belongs to"),
    ({"loss.importance_cap": 2.0}, "importance_cap needs old_policy trainer"),
    ({"loss.type": "icepop", "loss.old_policy": "trainer"}, "icepop masks by the ratio to the generator"),
    ({"loss.type": "reinforce", "loss.epochs": 2}, "reinforce has no ratio"),
    ({"optimizer.schedule": "cosine"}, "cosine needs decay_steps"),
    ({"optimizer": {"schedule": "cosine", "decay_steps": 100, "warmup_steps": 100}}, "above warmup_steps"),
    ({"optimizer.betas": [0.9, 1.0]}, "betas must be"),
    ({"offpolicy": {"mode": "ppo", "k": 0}}, "k of at least 1"),
    ({"length": {"interrupt_low": 12, "interrupt_high": 10}}, "interrupt_low is above"),
    ({"length.interrupt_high": 100}, "above rollout.max_thinking_tokens"),
    ({"length": {"mode": "penalty", "penalty_max_tokens": 100}}, "every length would be penalised"),
    (
        {"length": {"mode": "penalty", "penalty_max_tokens": 100, "penalty_cache_tokens": 2}},
        "the penalty would never apply",
    ),
    ({"rollout.max_untrained_prompts": 1}, "below rollout.prompts_per_step"),
    ({"reward": {"correct": -1.0}}, "correct must be above incorrect"),
    ({"rollout.generations_per_prompt": 1}, "greater than or equal to 2"),
    ({"resources": {"generator_gpus": 4, "generators": 2}}, "resources.generators must be 4"),
    (
        {"trainer.kept_layers": 1},
        "trainer.kept_layers are those that trainer.activation_checkpointing leaves",
    ),
]


@pytest.mark.parametrize(("change", "reason"), CONTRADICTIONS)
def test_contradictions_are_refused_with_a_reason(change: dict, reason: str) -> None:
    with pytest.raises(RecipeError, match=reason):
        apply_overrides(load_recipe("tiny/scalerl"), change)


def test_ppo_brings_its_critic() -> None:
    recipe = load_recipe("tiny/scalerl")

    assert not recipe.uses_critic
    assert apply_overrides(recipe, {"loss.type": "ppo"}).uses_critic
    assert apply_overrides(recipe, {"advantage.estimator": "gae"}).uses_critic


def test_every_field_has_a_help_text() -> None:
    def fields(section: type[BaseModel], path: str = "") -> Iterator[tuple[str, str | None]]:
        for name, field in section.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from fields(inner, f"{path}{name}.")
            else:
                yield path + name, field.description

    described = dict(fields(Recipe))

    assert len(described) > 70
    assert [name for name, text in described.items() if not text] == []


def test_options_belong_to_their_task(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: scalerl\nname: mine\ntask: {name: arithmetic, options: {max_digits: 3}}\n")

    assert load_recipe(path).task.options == {"max_digits": 3}


def test_extends_itself(tmp_path: Path) -> None:
    path = tmp_path / "loop.yaml"
    path.write_text(f"extends: {path}\n")

    with pytest.raises(RecipeError, match="extends itself"):
        load_recipe(path)


def test_overrides_leave_the_original_alone() -> None:
    original = load_recipe("scalerl")
    changed = apply_overrides(original, {"optimizer.lr": 1e-4, "task.options.max_digits": 3})

    assert (changed.optimizer.lr, changed.task.options["max_digits"]) == (1e-4, 3)
    assert original == load_recipe("scalerl")


@pytest.mark.parametrize("key", ["nothing", "loss.nothing", "loss.type.deeper", "seed.x"])
def test_override_of_an_unknown_field(key: str) -> None:
    with pytest.raises(RecipeError) as caught:
        apply_overrides(load_recipe("scalerl"), {key: 1})
    assert caught.value.field == key


def test_override_of_the_loss_type_keeps_clip_values_that_come_with_it() -> None:
    changed = apply_overrides(load_recipe("loo-dapo"), {"loss.type": "gspo", "loss.eps_low": 1e-3})

    assert (changed.loss.eps_low, changed.loss.eps_high) == (1e-3, 4e-3)
    whole = {"loss": {"type": "gspo", "eps_low": 1e-3, "eps_high": 2e-3}}
    assert apply_overrides(load_recipe("loo-dapo"), whole).loss.eps_high == 2e-3


@pytest.mark.parametrize("name", ["scalerl", "loo-dapo"])
def test_override_of_the_loss_type_brings_its_clip_range(name: str) -> None:
    changed = apply_overrides(load_recipe(name), {"loss.type": "gspo"})

    clip = {name: value for name, value in changed.loss.model_dump().items() if name.startswith("eps_")}
    assert clip == {"eps_low": 3e-3, "eps_high": 4e-3, "eps_max": None}


def test_hash_depends_on_the_content_alone() -> None:
    recipe = load_recipe("scalerl")
    again = recipes.parse_recipe(json.loads(recipe.model_dump_json()))

    assert content_hash(again) == content_hash(recipe)
    assert content_hash(apply_overrides(recipe, {"seed": 1})) != content_hash(recipe)


def test_resolve_fills_in_the_launch(home: Path) -> None:
    run = resolve(
        load_recipe("tiny/scalerl"), task="arithmetic", model="toy", seed=3, device_hours=2, home=home
    )

    assert (run.model, run.seed, run.budget.device_hours) == ("toy", 3, 2.0)


@pytest.mark.parametrize(
    ("name", "change", "field", "reason"),
    [
        ("tiny/scalerl", {"task": "chess"}, "task", "there are: arithmetic, choice"),
        ("tiny/scalerl", {"model": "none"}, "model", "no model named 'none'; there are: toy"),
        ("scalerl", {}, "model", "has a context of 96 tokens; the recipe needs 16384"),
        ("tiny/scalerl", {"seed": -1}, "seed", "whole number"),
        ("tiny/scalerl", {"seed": True}, "seed", "whole number"),
        ("tiny/scalerl", {"device_hours": 0}, "budget_hours", "above 0"),
        ("tiny/scalerl", {"device_hours": float("nan")}, "budget_hours", "above 0"),
        ("tiny/scalerl", {"device_hours": "1"}, "budget_hours", "above 0"),
    ],
)
def test_resolve_refuses(home: Path, name: str, change: dict, field: str, reason: str) -> None:
    launch = {"task": "arithmetic", "model": "toy", "seed": 0, "device_hours": 1.0, **change}

    with pytest.raises(RecipeError, match=reason) as caught:
        resolve(load_recipe(name), home=home, **launch)
    assert caught.value.field == field


def test_resolve_refuses_wrong_task_options(home: Path) -> None:
    recipe = apply_overrides(load_recipe("tiny/scalerl"), {"task.options.min_digits": 9})

    with pytest.raises(RecipeError, match="min_digits is above max_digits") as caught:
        resolve(recipe, task="arithmetic", model="toy", seed=0, device_hours=1.0, home=home)
    assert caught.value.field == "task"


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"eval.prompts": 1025}, "eval.prompts", "holds out 1024 prompts, not 1025"),
        ({"rollout.chat_template": True}, "model", "no chat template"),
    ],
)
def test_resolve_refuses_what_the_task_or_model_cannot_do(
    home: Path, change: dict, field: str, reason: str
) -> None:
    recipe = apply_overrides(load_recipe("tiny/scalerl"), change)

    with pytest.raises(RecipeError, match=reason) as caught:
        resolve(recipe, task="arithmetic", model="toy", seed=0, device_hours=1.0, home=home)
    assert caught.value.field == field


@pytest.mark.parametrize("mode", ["linear_ramp", "exponential_ramp"])
def test_ramp_needs_difficulties(home: Path, mode: str) -> None:
    write_questions(home / "data" / "own.jsonl", with_difficulty=19)
    recipe = with_own_file(mode)

    with pytest.raises(RecipeError, match=r"1 of \d+ training prompts of the task exact have none") as caught:
        resolve(recipe, task="exact", model="toy", seed=0, device_hours=1.0, home=home)
    assert caught.value.field == "curriculum.mode"


def test_ramp_over_known_difficulties(home: Path) -> None:
    write_questions(home / "data" / "own.jsonl", with_difficulty=20)

    assert resolve(
        with_own_file("linear_ramp"), task="exact", model="toy", seed=0, device_hours=1.0, home=home
    )


def test_broken_row_is_refused_before_the_run(home: Path) -> None:
    path = home / "data" / "own.jsonl"
    write_questions(path, with_difficulty=20)
    path.write_text(path.read_text() + json.dumps({"prompt": "?"}) + "\n")

    with pytest.raises(RecipeError, match=r"own.jsonl, row 21: field answer: is missing") as caught:
        resolve(with_own_file("uniform"), task="exact", model="toy", seed=0, device_hours=1.0, home=home)
    assert caught.value.field == "task"


def write_questions(path: Path, *, with_difficulty: int) -> None:
    """20 rows of a user's own file, so many of them with a difficulty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"prompt": f"Question {i}?", "answer": str(i)} for i in range(20)]
    rows = [row | ({"difficulty": 1} if i >= 20 - with_difficulty else {}) for i, row in enumerate(rows)]
    # A held-out file, so that no chance decides which rows are trained on.
    (path.parent / "held_out.jsonl").write_text(json.dumps({"prompt": "Held out?", "answer": "yes"}) + "\n")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def with_own_file(mode: str) -> recipes.Recipe:
    recipe = load_recipe("tiny/scalerl")
    options = {"path": "own.jsonl", "held_out_path": "held_out.jsonl"}
    changes = {
        "task": {"name": "exact", "options": options},
        "eval.prompts": 1,
        "curriculum.mode": mode,
    }
    return apply_overrides(recipe, changes)
