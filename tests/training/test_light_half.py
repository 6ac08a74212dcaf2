import subprocess
import sys

HEAVY = [
    "torch",
    "ray",
    "vllm",
    "transformers",
    "django",
    "celery",
    "sympy",
    "pyarrow",
    "huggingface_hub",
    "jinja2",
]
CODE = """
import sys
import training.bundles, training.engine_choice, training.recipe, training.records, training.tasks, training.models
import training.driver.staleness, training.trainer.batching
import training.chat, training.data.adapters, training.data.files, training.verifiers, training.flops
import training.tasks.dataset, training.tasks.countdown, training.tasks.mixture
print(",".join(name for name in {heavy} if name in sys.modules))
"""


def test_light_half_imports_nothing_heavy() -> None:
    result = subprocess.run(
        [sys.executable, "-c", CODE.format(heavy=HEAVY)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert result.stdout.strip() == ""
