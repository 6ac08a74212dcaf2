import pytest
import yaml

from training.plain_yaml import LOADER


def read(text):
    return yaml.load(text, Loader=LOADER)


def test_plain_values_are_read_as_they_are():
    assert read("{a: 1, b: [1.5, true, null], c: 2001-01-02}") == yaml.safe_load(
        "{a: 1, b: [1.5, true, null], c: 2001-01-02}"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2001-99-99", "'2001-99-99' cannot be read as timestamp"),
        ("2001-12-14t21:59:43.10-25:00", "cannot be read as timestamp"),
        ("!!timestamp x", "'x' cannot be read as timestamp"),
        ("!!bool x", "'x' cannot be read as bool"),
        ("!!bool {=: x}", "a mapping cannot be read as bool"),
        ("!!int ''", "'' cannot be read as int"),
        ("!!float _", "'_' cannot be read as float"),
        ("9" * 5000, "9…' cannot be read as int"),
    ],
)
def test_whatever_cannot_be_read_is_one_error_with_its_place(value, words):
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        read(f"a: {value}")

    assert words in str(caught.value) and "line 1, column 4" in str(caught.value)
    assert len(str(caught.value)) < 200
