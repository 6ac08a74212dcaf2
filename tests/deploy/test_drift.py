"""Variables: those that the compose file and the manifests set are read by the code, and stand in the docs."""

import re

import pytest
import yaml

from stack.environment import ROOT
from tests.deploy import compose

CODE = ("headroom", "observability", "scaling", "stack", "training", "webapp", "worker")
# Read by Ray, by Hugging Face's hub, by the images of others.
FOREIGN = {
    "RAY_JOB_STOP_WAIT_TIME_S", "HF_ENDPOINT", "HEADROOM_HOST", "HEADROOM_TLS",
    "POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "VALKEYCLI_AUTH", "REDISCLI_AUTH",
}  # fmt: skip
CODE_TEXT = "\n".join(path.read_text() for folder in CODE for path in (ROOT / folder).rglob("*.py"))
DOCS_TEXT = "\n".join(
    path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
)


def in_manifests() -> set[str]:
    documents = [
        document
        for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    (settings,) = [one["data"] for one in documents if one["kind"] == "ConfigMap"]
    named = re.findall(r"- name: ([A-Z_]{4,})$", "\n".join(map(yaml.safe_dump, documents)), re.MULTILINE)
    return set(settings) | set(named)


def in_compose() -> set[str]:
    return {name for service in compose.services().values() for name in service.get("environment", {})}


@pytest.mark.parametrize("name", sorted((in_compose() | in_manifests()) - FOREIGN))
def test_what_is_set_is_read_by_the_code_and_explained(name: str) -> None:
    assert re.search(rf"\b{name}\b", CODE_TEXT), f"nothing reads {name}"
    assert re.search(rf"\b{name}\b", DOCS_TEXT), f"no page explains {name}"


def test_the_names_are_found() -> None:
    assert len(in_compose()) > 15 and len(in_manifests()) > 9


@pytest.mark.parametrize("name", sorted(compose.env_file()))
def test_the_docs_explain_each_line_of_the_env_file(name: str) -> None:
    assert re.search(rf"`{name}`", (ROOT / "docs" / "deploy.md").read_text())


def test_the_manifests_set_what_compose_sets_but_its_secrets_and_choices() -> None:
    ours = {name for name in in_compose() if name.startswith(("HEADROOM_", "RAY_", "DATABASE_", "REDIS_"))}
    secrets = {
        "DATABASE_URL", "REDIS_URL", "HEADROOM_SECRET_KEY", "HEADROOM_SECRETS_KEY",
    }  # fmt: skip
    choices = {"HEADROOM_REQUIRE_TWO_FACTOR", "HEADROOM_EMAIL_URL", "HEADROOM_EMAIL_FROM"}

    assert ours - in_manifests() == secrets | choices | {"HEADROOM_HOST", "HEADROOM_TLS"}
    guide = (ROOT / "docs" / "deploy.md").read_text()
    assert all(f"--from-literal={name}=" in guide for name in secrets | {"RAY_AUTH_TOKEN"})


@pytest.mark.parametrize(
    "read", sorted(set(re.findall(r"environ(?:ment)?\.get\(\s*\"(HEADROOM_[A-Z_]+)\"", CODE_TEXT)))
)
def test_every_variable_that_the_code_reads_is_explained_somewhere(read: str) -> None:
    assert re.search(rf"\b{read}\b", DOCS_TEXT) or re.search(rf"`_{read.rpartition('_')[2]}`", DOCS_TEXT), (
        read
    )
