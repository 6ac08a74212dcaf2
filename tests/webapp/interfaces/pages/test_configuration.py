"""Configurations as pages show them."""

import yaml

from training.recipe import load_recipe, parse_recipe
from webapp.interfaces.pages.configuration import Change, as_yaml, differences, help_of, ordered, sections

SCALERL = load_recipe("scalerl").model_dump(mode="json")


def shuffled(config):
    """As PostgreSQL gives it back: in another order."""
    return {k: shuffled(v) if isinstance(v, dict) else v for k, v in sorted(config.items(), reverse=True)}


def test_settings_come_in_the_order_of_the_schema():
    names = [name for name, _ in sections(shuffled(SCALERL))]

    assert names[:5] == ["", "task", "budget", "rollout", "offpolicy"]


def test_yaml_says_the_same_recipe():
    assert parse_recipe(yaml.safe_load(as_yaml(shuffled(SCALERL)))) == parse_recipe(SCALERL)


def test_what_is_no_recipe_is_shown_as_it_is():
    config = {"lr": 1e-4, "loss": {"type": "mine"}}

    assert ordered(config) == config
    assert [name for name, _ in sections(config)] == ["", "loss"]


def test_differences_name_the_path_and_both_values():
    changed = {**SCALERL, "optimizer": {**SCALERL["optimizer"], "lr": 1e-3}}

    assert differences(SCALERL, shuffled(changed)) == [Change("optimizer.lr", "5.0e-07", "0.001")]


def test_settings_that_came_or_went_have_one_side():
    assert differences({"a": 1, "b": {"c": True}}, {"b": {"d": [1, 2]}}) == [
        Change("b.d", None, "[1, 2]"),
        Change("a", "1", None),
        Change("b.c", "true", None),
    ]


def test_every_setting_of_a_recipe_has_its_help():
    assert "learning rate" in help_of("optimizer.lr")
    assert help_of("no.such.setting") == ""
    assert help_of("optimizer.no_such") == ""
