import subprocess
import sys
from pathlib import Path

import pytest

from training.tasks import TaskError, make_task, task_names


def test_names() -> None:
    assert task_names() == [
        "arithmetic", "choice", "code", "countdown", "exact", "math", "mixture", "reasoning_gym",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["arithmetic", "countdown"])
def test_generated_tasks_need_no_options(name: str) -> None:
    assert len(make_task(name).held_out_prompts(10)) == 10


@pytest.mark.parametrize("name", ["choice", "code", "exact", "math", "mixture", "reasoning_gym"])
def test_the_others_say_what_they_need(name: str) -> None:
    with pytest.raises(TaskError, match="give either source|option (parts|dataset): Field required"):
        make_task(name)


def test_unknown_name() -> None:
    with pytest.raises(TaskError, match="no task named 'chess'; there are: arithmetic, choice"):
        make_task("chess")


def test_every_option_is_described() -> None:
    from training.tasks import registry

    for name in task_names():
        fields = registry._class_of(name).model_fields
        assert all(field.description for field in fields.values()), name


def test_making_and_reading_tasks_imports_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(f'{{"prompt": "{i}?", "answer": "{i}"}}\n' for i in range(20)))
    code = f"""
import sys
from training.recipe import load_recipe
from training.tasks import make_task
for name in ("math", "exact"):
    make_task(name, {{"path": {str(path)!r}}}).training_prompts(0)
heavy = ("torch", "ray", "vllm", "transformers", "sympy", "pyarrow", "huggingface_hub", "jinja2")
print(",".join(name for name in heavy if name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip() == ""
