"""What a trainer passes and cannot be used is named in few words, whatever it is."""

import numpy as np
import pytest

from headroom.values import clean_compute, clean_metrics, sound_records


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("value", [Broken(), np.arange(1000.0), "x" * 5000, 1j])
def test_a_value_that_is_no_number_is_dropped_in_few_words(value: object) -> None:
    said: list[str] = []

    assert clean_metrics({"loss": value, "reward": 1.0}, lambda _, words: said.append(words)) == {
        "reward": 1.0
    }
    assert clean_compute({"tokens": value}, {"tokens": 5}, lambda _, words: said.append(words)) == {
        "tokens": 5
    }
    assert len(said) == 2 and all("has the value" in words and len(words) < 150 for words in said)


@pytest.mark.parametrize("name", ["k" * 100_000, "", "two\nlines", 3])
def test_a_name_that_cannot_be_used_is_dropped_in_few_words(name: str) -> None:
    said: list[str] = []

    assert clean_metrics({name: 1.0}, lambda _, words: said.append(words)) == {}
    (words,) = said
    assert "1 to 250 printable characters" in words and len(words) < 150


def test_of_a_refused_record_nulls_stay() -> None:
    (first,), problems = sound_records(
        {"seq": 0, "step": 1, "metrics": {"loss": None, "a": 1.0, "": 2.0}, "compute": {}}
    )

    assert first["metrics"] == {"loss": None, "a": 1.0} and len(problems) == 1
