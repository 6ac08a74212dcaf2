"""The light packages stay light. Who may import whom is checked by import-linter (pyproject.toml)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("headroom", "observability", "scaling", "stack", "training", "webapp", "worker")
LIGHT_TRAINING = (
    "training.chat",
    "training.checkpoint_store",
    "training.checkpoints",
    "training.data",
    "training.hints",
    "training.lessons",
    "training.log_copy",
    "training.models",
    "training.plain_yaml",
    "training.recipe",
    "training.records",
    "training.schema",
    "training.study",
    "training.tasks",
    "training.verifiers",
    "training.flops",
)
HEAVY = ("celery", "django", "ray", "torch", "transformers", "vllm")
HEAVY += ("opentelemetry", "prometheus_client", "sentry_sdk")
LIGHT = ("headroom", "observability.logs", "observability.tracing", "scaling", *LIGHT_TRAINING)


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_import_nothing_heavy(module):
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )

    assert set(done.stdout.split()) & set(HEAVY) == set()
