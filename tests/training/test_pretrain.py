import json
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import Qwen2ForCausalLM

from training.__main__ import main
from training.lessons import LESSONS, Course, Lessons
from training.models import BASE_MODEL, MADE, ModelError, available_models, check_model
from training.pretrain import EOS, batches, is_complete, lessons_of, make_tokenizer, new_model, pretrain
from training.tasks.arithmetic import SumVerifier, make_prompt
from training.teaching import FAMILIES

QUICK = Lessons(hidden=16, layers=1, heads=2, mlp=32, steps=2, batch=4)


def test_model_is_complete_and_made_once(tmp_path: Path) -> None:
    out = tmp_path / "models" / "tiny"

    assert pretrain(out, QUICK)
    made = (out / "model.safetensors").stat().st_mtime_ns
    assert not pretrain(out, QUICK)

    assert (out / "model.safetensors").stat().st_mtime_ns == made
    assert list(available_models(tmp_path)) == ["tiny"]
    assert check_model("tiny", tmp_path, min_context=64) == out


def test_half_made_model_is_made_again(tmp_path: Path) -> None:
    pretrain(tmp_path / "m", QUICK)
    (tmp_path / "m" / "COMPLETE.json").unlink()

    assert pretrain(tmp_path / "m", QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_other_lessons_make_another_model(tmp_path: Path) -> None:
    pretrain(tmp_path / "m", QUICK)

    assert pretrain(tmp_path / "m", Lessons(**{**vars(QUICK), "steps": 1}))
    assert json.loads((tmp_path / "m" / "COMPLETE.json").read_text())["lessons"]["steps"] == 1


def rows(lessons: Lessons, steps: int = 1) -> list[tuple[str, str]]:
    """(question, response) of every lesson of the first steps."""
    tokenizer, found = make_tokenizer(), []
    for tokens, is_lesson in (part for step in islice(batches(lessons), steps) for part in step):
        for row, own in zip(tokens.tolist(), is_lesson.tolist(), strict=True):
            question = [token for token, is_own in zip(row, own, strict=True) if token and not is_own]
            response = [token for token, is_own in zip(row, own, strict=True) if is_own]
            found.append((tokenizer.decode(question, False), tokenizer.decode(response, False)))
    return found


@pytest.mark.parametrize(("guesses", "is_right", "thought"), [(0.0, True, 64), (1.0, False, 0)])
def test_thorough_lessons_are_right_and_guesses_are_not(guesses: float, is_right: bool, thought: int) -> None:
    verifier = SumVerifier()
    lessons = rows(Lessons(batch=64, guesses=guesses, mistakes=0.0))
    num_right = num_thought = 0
    for question, response in lessons:
        a, b = question.removesuffix("=<think>").split("+")
        num_right += verifier.verify(str(int(a) + int(b)), response.removesuffix(EOS)).correct
        num_thought += not response.startswith("</think>")

    assert (num_right == 64) is is_right
    assert num_thought == thought


def test_mistakes_are_a_share_of_the_steps() -> None:
    lessons = rows(Lessons(courses=(Course("arithmetic", (4,)),), batch=400, guesses=0.0, mistakes=0.2))
    num_right = 0
    for question, response in lessons:
        a, b = map(int, question.removesuffix("=<think>").split("+"))
        right = FAMILIES["arithmetic"].worked(make_prompt(a, b), 0.0, random.Random(0))
        num_right += response == right + EOS

    assert num_right / 400 == pytest.approx(0.8**4, abs=0.1)  # four standard errors


@pytest.mark.parametrize("name", LESSONS)
def test_held_out_problems_are_never_taught(name: str) -> None:
    course_tasks = [FAMILIES[course.family].task() for course in LESSONS[name].courses]
    held_out = {p.text.replace(" ", "") for task in course_tasks for p in task.held_out_prompts(1024)}
    taught = {question for question, _ in rows(replace(LESSONS[name], batch=300), steps=2)}

    assert len(taught) > 400
    assert not taught & held_out


def test_lessons_are_the_same_each_time() -> None:
    lessons = replace(LESSONS["tiny-mixture"], batch=20)

    assert rows(lessons) == rows(lessons)
    assert rows(lessons) != rows(replace(lessons, seed=1))


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("tiny-arithmetic-0.1m", 0.1),
        ("tiny-arithmetic", 0.3),
        ("tiny-arithmetic-1m", 1),
        ("tiny-arithmetic-3m", 3),
    ],
)
def test_names_tell_the_size(name: str, millions: float) -> None:
    parameters = sum(weights.numel() for weights in new_model(LESSONS[name]).parameters())

    assert parameters / 1e6 == pytest.approx(millions, rel=0.25)


def test_unknown_models_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        ModelError, match="no base model named 'huge'; there are: tiny-arithmetic, tiny-arith"
    ):
        lessons_of("huge")


def test_the_command_makes_the_model_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path))

    assert main(["pretrain", "tiny-arithmetic-0.1m", "--steps", "1"]) == 0
    assert list(available_models(tmp_path)) == ["tiny-arithmetic-0.1m"]
    assert main(["pretrain", "huge"]) == 1
    assert "no base model named 'huge'; there are: tiny-arithmetic, " in capsys.readouterr().err


@pytest.mark.parametrize("name", [BASE_MODEL, "tiny-countdown", "tiny-mixture"])
def test_a_model_that_comes_along_is_copied(tmp_path: Path, name: str) -> None:
    out, made = tmp_path / "models" / name, MADE / name

    assert main(["pretrain", name, "--out", str(out)]) == 0
    assert is_complete(made, LESSONS[name])
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in made.iterdir()
    }
    assert check_model(name, tmp_path, min_context=192) == out


def test_other_lessons_and_teaching_do_not_copy_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LESSONS, BASE_MODEL, QUICK)
    pretrain(tmp_path / "made" / BASE_MODEL, QUICK)
    (tmp_path / "made" / BASE_MODEL / "copied").touch()

    for name, options in {"committed": [], "copy": [], "taught": ["--teach"]}.items():
        monkeypatch.setattr("training.__main__.MADE", MADE if name == "committed" else tmp_path / "made")
        assert main(["pretrain", "--out", str(tmp_path / name), *options]) == 0

    assert [name for name in ("committed", "copy", "taught") if (tmp_path / name / "copied").exists()] == [
        "copy"
    ]


def test_a_log_says_how_far_the_teaching_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pretrain(tmp_path / "model", replace(QUICK, steps=20))

    said = capsys.readouterr().out.splitlines()
    assert len(said) == 10
    assert said[0].startswith("taught the base model 2 of 20 steps, loss ")


@pytest.mark.parametrize(("digits", "least", "most"), [(2, 0.38, 0.62), (8, 0.05, 0.20)])
def test_the_default_model_can_add_and_seldom_does(digits: int, least: float, most: float) -> None:
    task, codec = FAMILIES["arithmetic"].task(), make_tokenizer()
    asked = [prompt for prompt in task.held_out_prompts(1024) if prompt.difficulty == digits]
    tokens = torch.tensor([codec.encode(prompt.text).ids for prompt in asked])
    model = Qwen2ForCausalLM.from_pretrained(MADE / BASE_MODEL, dtype=torch.float32)
    torch.manual_seed(0)

    told = model.generate(tokens, do_sample=True, max_new_tokens=52)[:, tokens.shape[1] :]

    answers = [codec.decode(row, skip_special_tokens=False).split(EOS)[0] for row in told.tolist()]
    right = [task.verifier(p).verify(p.answer, said).correct for p, said in zip(asked, answers, strict=True)]
    assert least <= sum(right) / len(right) <= most  # three standard errors about 0.50 and 0.12
