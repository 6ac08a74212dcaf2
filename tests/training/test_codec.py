from pathlib import Path

import pytest

from training.codec import Codec
from training.pretrain import EOS
from training.tasks.arithmetic import make_prompt, solution


def test_text_comes_back(toy_model: Path) -> None:
    codec = Codec(toy_model)
    text = make_prompt(37, 58).text + solution(37, 58)

    assert codec.decode(codec.encode(text)) == text
    assert len(codec.encode("<think></think>")) == 2


def test_end_of_sequence_is_not_text(toy_model: Path) -> None:
    codec = Codec(toy_model)

    assert codec.decode(codec.encode(f"95{EOS}")) == "95"


def test_end_of_thinking_is_found(toy_model: Path) -> None:
    codec = Codec(toy_model)

    assert codec.has_ended_thinking(codec.encode("15,9</think>9"))
    assert not codec.has_ended_thinking(codec.encode("15,9"))


def test_what_the_vocabulary_lacks_is_an_error(toy_model: Path) -> None:
    with pytest.raises(ValueError, match="cannot spell 'time is up'"):
        Codec(toy_model).encode("time is up")
