import subprocess
import sys

HEAVY = ["torch", "ray", "vllm", "transformers", "django", "celery"]
CODE = """
import sys
import training.recipe, training.records, training.tasks, training.models, training.staleness, training.batching
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
