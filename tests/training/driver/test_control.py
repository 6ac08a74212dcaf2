"""What a running driver is told from outside."""

import json

import pytest

from training.driver.control import CONTROL, Budget


def write(folder, text):
    partial = folder / "partial"
    partial.write_text(text)
    partial.replace(folder / CONTROL)


def test_without_a_file_the_recipe_decides(tmp_path):
    assert Budget(tmp_path, 0.5).hours() == 0.5


def test_an_extension_is_found_and_a_smaller_budget_is_none(tmp_path):
    budget = Budget(tmp_path, 0.5)
    seen = []
    for hours in (1.0, 2.0, 0.1):
        write(tmp_path, json.dumps({"device_hours": hours}))
        seen.append(budget.hours())

    assert seen == [1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"device_hours": "much"}', '{"device_hours": Infinity}', "null"]
)
def test_what_cannot_be_read_is_no_extension(tmp_path, text):
    write(tmp_path, text)

    assert Budget(tmp_path, 0.5).hours() == 0.5
