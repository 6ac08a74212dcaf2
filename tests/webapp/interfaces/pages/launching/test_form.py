"""The form out of the schema: every recipe survives it, and the text beside it, without losing anything."""

import copy
import math

import pytest
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.deep import examples
from training.recipe import load_recipe, recipe_names
from training.schema import Recipe
from webapp.base.formats import Unreadable, strange
from webapp.interfaces.pages.launching import draft, specs
from webapp.interfaces.pages.launching.preview import as_sentence, check
from webapp.interfaces.pages.launching.specs import by_path, sections
from webapp.record.recipes.models import Revision

RECIPES = {name: load_recipe(name).model_dump(mode="json") for name in recipe_names()}
EXAMPLES = {
    "choice": "cispo",
    "switch": True,
    "whole": 3,
    "number": 0.5,
    "text": "some words",
    "yaml": [0.8, 0.9],
}


def with_value(config, path, value):
    """A copy with another value at a dotted path."""
    changed = copy.deepcopy(config)
    specs.put(changed, path, value)
    return changed


def form_of(config):
    """What a browser sends of the whole form."""
    asked = draft.of_revision(Revision(config=config))
    sent = QueryDict(mutable=True)
    sent["with_settings"] = "1"
    for name, path in draft.ESSENTIALS.items():
        sent[name] = asked.text(by_path()[path])
    for path, spec in by_path().items():
        text = asked.text(spec)
        if path not in draft.ESSENTIALS.values() and (spec.kind != "switch" or text == "true"):
            sent[spec.name] = text
    return sent


def leaves(model, prefix=""):
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield from leaves(field.annotation, f"{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_setting_of_the_schema_has_a_field_with_help_in_the_schemas_order():
    fields = [spec.path for section in sections() for spec in section.specs]
    ordered = list(leaves(Recipe))

    assert [path for path in fields if "." in path] == [path for path in ordered if "." in path]
    assert set(fields) == set(ordered)
    assert all(spec.help and spec.label for spec in by_path().values())


@pytest.mark.parametrize(
    ("path", "kind", "bounds", "unit", "optional"),
    [
        ("optimizer.lr", "number", "above 0", "", False),
        ("eval.k", "whole", "1 or more", "samples", False),
        ("curriculum.max_pass_rate", "number", "above 0, at most 1", "", False),
        ("loss.epochs", "whole", "1 to 100", "updates", False),
        ("loss.type", "choice", "", "", False),
        ("advantage.estimator", "choice", "", "", True),
        ("resources.shared", "switch", "", "", False),
        ("resources.generators", "whole", "1 or more", "", True),
        ("optimizer.betas", "yaml", "", "", False),
        ("task.options", "yaml", "", "", False),
        ("engine.kv_cache_mib", "whole", "1 or more", "MiB", True),
        ("rollout.max_thinking_tokens", "whole", "1 or more", "tokens", False),
    ],
)
def test_the_widget_fits_the_type(path, kind, bounds, unit, optional):
    spec = by_path()[path]

    assert (spec.kind, spec.bounds, spec.unit, spec.optional) == (kind, bounds, unit, optional)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_survives_the_form(name):
    config = RECIPES[name]

    asked = draft.of_form(Revision(config=config), form_of(config), live=True)

    assert asked.config == config
    assert asked.resent == ()
    assert draft.changes(asked) == []


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_survives_the_text(name):
    config = RECIPES[name]
    text = specs.document(config)

    sent = form_of(config)
    sent["source"], sent["yaml"] = "yaml", text
    asked = draft.of_form(Revision(config=config), sent, live=True)

    assert asked.config == config
    assert asked.yaml_text == text
    assert specs.document(asked.config) == text


def settings_of(spec):
    """Values that the schema takes for one setting."""
    least, greatest = spec.least, spec.greatest
    if spec.kind == "choice":
        return st.sampled_from(spec.choices)
    if spec.kind == "switch":
        return st.booleans()
    if spec.kind == "whole":
        return st.integers(max(1, int(least or 0)), int(greatest or 10**6))
    if spec.kind == "number":
        return st.floats(1e-9, 1.0)
    if spec.kind == "text":
        return st.text(
            st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cc"]), min_size=1
        )
    return st.sampled_from([[0.8, 0.9], [0.0, 0.999]]) if spec.path == "optimizer.betas" else st.just({})


FREE = [
    spec
    for path, spec in by_path().items()
    if path
    not in ("name", "title", "seed", "task.name", "task.options", "reward.correct", "reward.incorrect")
    and not path.startswith("resources.")
]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_valid_changes_survive_form_and_text(data):
    config = RECIPES["tiny/scalerl"]
    for spec in data.draw(st.lists(st.sampled_from(FREE), max_size=8, unique_by=lambda spec: spec.path)):
        changed = with_value(config, spec.path, data.draw(settings_of(spec)))
        if (settled := specs.settled(changed)) and check_only_schema(changed):
            config = settled

    by_form = draft.of_form(Revision(config=config), form_of(config), live=True)
    assert by_form.config == config
    assert specs.settled(specs.parse_document(by_form.yaml_text)) == config


def check_only_schema(config):
    try:
        Recipe.model_validate(config)
    except ValueError:
        return False
    return True


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_as_itself(value):
    text = specs.number_text(value)

    assert float(text) == value
    assert specs.load_yaml(specs.document({"optimizer": {"lr": value}}))["optimizer"]["lr"] == value


@pytest.mark.parametrize(
    ("value", "text"), [(5e-7, "5e-7"), (16000.0, "16000"), (0.95, "0.95"), (1e-15, "1e-15"), (1e21, "1e21")]
)
def test_numbers_are_written_as_people_write_them(value, text):
    assert specs.number_text(value) == text


@pytest.mark.parametrize("kind_path", ["optimizer.lr", "eval.k"])
@pytest.mark.parametrize("text", ["1e3", " 1000 ", "1000.0", "+1000"])
def test_numbers_are_read_in_any_notation(kind_path, text):
    assert specs.from_text(by_path()[kind_path], text) == 1000


@pytest.mark.parametrize("text", ["many", "1e400x", "0x10", "1,000", "1 000", ""])
def test_what_is_no_number_stays_a_text_for_the_schema_to_refuse(text):
    value = specs.from_text(by_path()["eval.k"], text)

    assert value == text
    checked = check(with_value(RECIPES["tiny/scalerl"], "eval.k", value), live=True)
    assert checked.problems["eval.k"] == ["Must be a whole number."]


@pytest.mark.parametrize("value", [math.nan, math.inf, "\0", "\ud800", {1: 2}, {"a": {"b": object()}}])
def test_what_cannot_be_stored_is_said_before(value):
    assert strange({"task": {"options": value}})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1,\nb: 2", "line 2"),
        ("a: &x 1\nb: *x", "alias (*x) in line 2"),
        ("[" * 3000, "nested deeper than 20 levels"),
        ("- 1", "mapping of settings"),
        ("a: .nan", "not finite"),
        ("a: 2026-01-01", "neither text, number, list nor mapping"),
        ("x" * 100_001, "longer than"),
        ('a: "\\0"', "cannot be stored"),
        ("a: !!python/object:os.system {}", "line 1"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_its_place(text, words):
    with pytest.raises(Unreadable, match=None) as refused:
        specs.parse_document(text)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("learning_rate: 1", "learning_rate: no such setting"),
        ("optimizer: {rl: 1}", "optimizer.rl: no such setting"),
        ("optimizer: 3", "optimizer: must be a mapping"),
        ("loss: {type: cisop}", "loss.type: must be one of cispo"),
        ("resources: {shared: perhaps}", "resources.shared: must be true or false"),
        ("optimizer: {lr: [1]}", "optimizer.lr: must be a single value"),
    ],
)
def test_a_text_that_the_form_cannot_show_says_why_and_stays(text, words):
    sent = form_of(RECIPES["tiny/scalerl"])
    sent["source"], sent["yaml"] = "yaml", text

    asked = draft.of_form(Revision(config=RECIPES["tiny/scalerl"]), sent, live=True)

    assert asked.yaml_problem.startswith(words)
    assert asked.yaml_text == text
    assert not asked.is_valid


def edited(changes, name="tiny/scalerl", **also):
    sent = form_of(RECIPES[name])
    for key, value in (changes | also).items():
        sent[key] = value
    return draft.of_form(Revision(config=RECIPES[name]), sent, live=True)


def test_another_loss_brings_its_own_clip_values():
    asked = edited({"s.loss.type": "grpo", "changed": "s.loss.type"})

    assert {k: v for k, v in asked.config["loss"].items() if k.startswith("eps")} == {
        "eps_low": 0.2, "eps_high": 0.2, "eps_max": None,
    }  # fmt: skip
    assert set(asked.resent) == {"loss.eps_low", "loss.eps_high", "loss.eps_max"}
    assert draft.message_of(draft.changes(asked)).startswith("loss.type cispo → grpo")


def test_another_task_does_not_inherit_options():
    asked = edited({"task": "countdown", "changed": "task"})

    assert asked.config["task"] == {"name": "countdown", "options": {}}
    assert "task.options" in asked.resent
    assert draft.of_the_recipe(asked) is None


def test_what_belongs_to_the_run_makes_no_revision():
    asked = edited({"model": "another", "budget_hours": "3", "seed": "7"})

    assert draft.of_the_recipe(asked) is None
    assert (asked.config["model"], asked.config["budget"]["device_hours"], asked.config["seed"]) == (
        "another",
        3.0,
        7,
    )


def test_a_changed_setting_is_a_new_revision_without_what_belongs_to_the_run():
    asked = edited({"model": "another", "s.optimizer.lr": "1e-4"})

    config = draft.of_the_recipe(asked)
    assert config == with_value(RECIPES["tiny/scalerl"], "optimizer.lr", 1e-4)
    assert draft.message_of(draft.changes(asked)) == "optimizer.lr 8e-5 → 0.0001"


def test_other_options_of_the_task_are_a_new_revision():
    asked = edited({"task_options": "max_digits: 4\nmin_digits: 2\n"})

    assert (draft.of_the_recipe(asked) or {})["task"]["options"] == {"max_digits": 4, "min_digits": 2}


def test_no_options_of_the_task_are_its_own():
    asked = edited({"task_options": " "})

    assert asked.checked.problems == {} and asked.config["task"]["options"] == {}


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"s.optimizer.lr": "-1"}, "optimizer.lr", "Must be greater than 0."),
        ({"s.optimizer.betas": "[0.9, x]"}, "optimizer.betas", "Item 2 must be a number."),
        ({"s.optimizer.betas": "[0.9"}, "optimizer.betas", "Is not YAML in line 1"),
        ({"s.rollout.generations_per_prompt": "1"}, "rollout.generations_per_prompt", "Must be at least 2."),
        ({"s.eval.prompts": "5000"}, "eval.prompts", "holds out"),
        ({"task_options": "max_digits: 99"}, "task.options", "max_digits"),
        ({"s.title": ""}, "title", "at least 1 character"),
        ({"budget_hours": "0"}, "budget.device_hours", "Must be greater than 0."),
        ({"seed": "-3"}, "seed", "Must be at least 0."),
    ],
)
def test_what_is_wrong_is_said_of_its_setting(changes, path, words):
    assert words in " ".join(edited(changes).checked.problems[path])


def test_all_problems_are_said_at_once_and_those_across_settings_on_top():
    wrong = edited({"s.optimizer.lr": "-1", "s.eval.k": "0"})
    across = edited({"s.resources.generator_cpus": "3", "s.resources.generators": "2"})
    whole = edited({"s.offpolicy.k": "8", "s.resources.shared": "true"})

    assert set(wrong.checked.problems) == {"optimizer.lr", "eval.k"}
    assert across.checked.on_top == ["Devices: generator_cpus (3) must be a multiple of generators (2)."]
    assert "resources.shared needs phases that alternate" in whole.checked.on_top[0]


def test_only_what_was_sent_changes():
    sent = QueryDict("change=optimizer.lr&s.optimizer.lr=2e-4&s.eval.k=9")

    asked = draft.of_form(Revision(config=RECIPES["tiny/scalerl"]), sent, live=True)

    assert asked.config == with_value(RECIPES["tiny/scalerl"], "optimizer.lr", 2e-4)


def test_the_text_names_the_first_seed_and_keeps_the_others():
    sent = form_of(RECIPES["tiny/scalerl"])
    sent["seed"], sent["source"] = "3, 4", "yaml"
    sent["yaml"] = specs.document(with_value(RECIPES["tiny/scalerl"], "seed", 9))

    assert draft.with_essentials_of_text(sent)["seed"] == "9, 4"


def test_sentences_keep_the_names_of_settings():
    assert as_sentence("must be a number") == "Must be a number."
    assert as_sentence("min_digits is above max_digits") == "min_digits is above max_digits."
    assert as_sentence("openai/gsm8k: no such file") == "openai/gsm8k: no such file."
