"""Who may import whom (docs/architecture.md), by reading the code; and that the light packages stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
AROUND = ("stack.environment", "stack.outside", "stack.variables")  # they look, and start nothing
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
    "training.weights",
)
MAY_IMPORT = {
    "headroom": (),
    "observability": (),
    "scaling": (),
    "stack": ("observability",),
    "training": ("headroom", "observability", "scaling"),
    "webapp": (
        "observability",
        "scaling",
        *AROUND,
        "worker.names",
        "headroom.adapters.naming",
        "headroom.version",
        *LIGHT_TRAINING,
    ),
    "worker": ("observability", "scaling", *AROUND, "webapp", *LIGHT_TRAINING),
}
MANAGEMENT = ROOT / "webapp" / "runs" / "management"  # `up` and `demo` are where the stack is started from
HEAVY = ("celery", "django", "ray", "torch", "transformers", "vllm")
HEAVY += ("opentelemetry", "prometheus_client", "sentry_sdk")
LIGHT = ("headroom", "observability.logs", "observability.tracing", "scaling", *LIGHT_TRAINING)


def modules_of(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports_of(path: Path) -> list[tuple[int, str]]:
    """(line, dotted name) of every import in a file, also those inside functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute_base(path, node)
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def absolute_base(path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parents = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
    return ".".join([*parents, node.module] if node.module else parents)


def is_allowed(package: str, name: str, path: Path) -> bool:
    """Whether a module of `package` may import this name; foreign packages are no concern of ours."""
    top = name.split(".")[0]
    if top not in PACKAGES or top == package:
        return True
    if MANAGEMENT in path.parents and top == "stack":
        return True
    return any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_IMPORT[package])


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_arrows(package):
    modules = modules_of(package)
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules
        for line, name in imports_of(path)
        if not is_allowed(package, name, path)
    ]

    assert modules
    assert wrong == []


@pytest.mark.parametrize(
    ("package", "name", "allowed"),
    [
        ("webapp", "worker.names", True),
        ("webapp", "worker.names.DISPATCH", True),
        ("webapp", "worker.tasks", False),
        ("webapp", "training.trainer.trainer", False),
        ("webapp", "training.tasks.task_names", True),
        ("scaling", "numpy", True),
        ("scaling", "training.recipe", False),
        ("headroom", "scaling", False),
        ("training", "webapp.runs", False),
    ],
)
def test_the_rule_itself(package, name, allowed):
    assert is_allowed(package, name, ROOT / package / "module.py") is allowed


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_import_nothing_heavy(module):
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )

    assert set(done.stdout.split()) & set(HEAVY) == set()
