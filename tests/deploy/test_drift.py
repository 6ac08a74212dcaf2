"""Variables: those that the compose file and the manifests set are read by the code, and stand in the docs."""

import re

import pytest
import yaml

from stack import variables
from stack.environment import ROOT
from tests.deploy import compose
from tests.deploy.test_kubernetes import PODS, documents

CODE = ("headroom", "observability", "scaling", "stack", "training", "webapp", "worker")
# Read by Ray, by Hugging Face's hub, by the images of others.
FOREIGN = {
    "RAY_JOB_STOP_WAIT_TIME_S", "HF_ENDPOINT", "HEADROOM_HOST", "HEADROOM_TLS",
    "POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "VALKEYCLI_AUTH", "REDISCLI_AUTH", "POD_IP",
}  # fmt: skip
PARTS = ("web", "worker", "beat")
OF_WORKERS = {"HEADROOM_METRICS_PORT", "HEADROOM_METRICS_HOST"}
# What docs/observability.md explains and no file sets, and why.
LEFT_TO_THE_CODE = {
    "PROMETHEUS_MULTIPROC_DIR",  # a new folder for each container is right
    "OTEL_SERVICE_NAME",  # each part has its own
    "OTEL_EXPORTER_OTLP_PROTOCOL",  # the other one's package is not in the images
    "OTEL_SDK_DISABLED",  # an empty endpoint is enough
    "SENTRY_RELEASE",  # the library's own
}
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
        "DATABASE_URL", "REDIS_URL", "HEADROOM_SECRET_KEY", "HEADROOM_SECRETS_KEY", "HEADROOM_METRICS_TOKEN",
    }  # fmt: skip
    choices = {"HEADROOM_REQUIRE_TWO_FACTOR", "HEADROOM_EMAIL_URL", "HEADROOM_EMAIL_FROM"}

    assert ours - in_manifests() == secrets | choices | {"HEADROOM_HOST", "HEADROOM_TLS"}
    guide = (ROOT / "docs" / "deploy.md").read_text()
    assert all(f"--from-literal={name}=" in guide for name in secrets | {"RAY_AUTH_TOKEN"})


def explained() -> set[str]:
    """Variables in the first column of the table of docs/observability.md."""
    page = (ROOT / "docs" / "observability.md").read_text()
    rows = page.partition("| variable |")[2].partition("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([A-Z][A-Z_]+)`", row.split("|")[1])}


def lacking(part: str, given: set[str]) -> set[str]:
    """What a part is not given of what observing it takes, by the docs and by the list of variables; and its store."""
    wanted = explained() | {each.name for each in variables.VARIABLES if each.group == variables.WATCHING}
    wanted |= {each.name for each in variables.VARIABLES if "CHECKPOINTS" in each.name}
    return wanted - LEFT_TO_THE_CODE - (set() if part == "worker" else OF_WORKERS) - given


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_given_what_observing_it_takes(part: str) -> None:
    given = set(compose.services()[part]["environment"])

    assert lacking(part, given) == set()
    assert lacking(part, given - {"SENTRY_DSN"}) == {"SENTRY_DSN"}


@pytest.mark.parametrize("part", PARTS)
def test_the_manifests_give_the_same_but_what_is_in_the_secret(part: str) -> None:
    (container,) = PODS[part]["containers"]
    (settings,) = [one["data"] for one in documents() if one["kind"] == "ConfigMap"]
    secret = {"HEADROOM_METRICS_TOKEN", "SENTRY_DSN", "OTEL_EXPORTER_OTLP_HEADERS"}
    given = set(settings) | {one["name"] for one in container.get("env", [])} | secret

    assert lacking(part, given) == set()
    assert lacking(part, given - {"HEADROOM_LOG_FORMAT"}) == {"HEADROOM_LOG_FORMAT"}
    guide = (ROOT / "docs" / "deploy.md").read_text().partition("## Kubernetes")[2]
    assert all(name in guide for name in secret)


def test_the_nodes_of_ray_get_what_jobs_are_not_handed() -> None:
    wanted = {"OTEL_EXPORTER_OTLP_HEADERS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}

    for name in ("ray-head", "ray-gpu"):
        (container,) = PODS[name]["containers"]
        assert wanted <= {one["name"] for one in container["env"]}
        assert wanted <= set(compose.services()[name]["environment"])


def test_the_table_of_variables_is_read() -> None:
    assert explained() > LEFT_TO_THE_CODE and "OTEL_TRACES_SAMPLER_ARG" in explained()


def test_whoever_reads_metrics_reaches_the_port_of_the_workers() -> None:
    worker = compose.services()["worker"]
    port = worker["environment"]["HEADROOM_METRICS_PORT"]
    (container,) = PODS["worker"]["containers"]
    scraped = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()

    assert worker["expose"] == [port] and f'"worker:{port}"' in scraped
    assert {"name": "HEADROOM_METRICS_PORT", "value": port} in container["env"]
    assert container["ports"] == [{"name": "metrics", "containerPort": int(port)}]


def test_the_monitor_names_pods_ports_and_a_secret_that_there_are() -> None:
    file = ROOT / "deploy" / "kubernetes" / "monitoring" / "podmonitor.yaml"
    deployments = {one["metadata"]["name"]: one for one in documents() if one["kind"] == "Deployment"}
    monitors = {
        one["spec"]["selector"]["matchLabels"]["app"]: one for one in yaml.safe_load_all(file.read_text())
    }

    assert set(monitors) == {"headroom-web", "headroom-worker"}
    for app, monitor in monitors.items():
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        template = deployments[app]["spec"]["template"]
        (container,) = template["spec"]["containers"]
        assert template["metadata"]["labels"]["app"] == app
        assert endpoint["port"] in {port["name"] for port in container["ports"]}
        credentials = {"name": "headroom-secrets", "key": "HEADROOM_METRICS_TOKEN"}
        assert endpoint["authorization"] == {"type": "Bearer", "credentials": credentials}


def test_prometheus_may_ask_each_web_server_by_its_own_address() -> None:
    (container,) = PODS["web"]["containers"]
    (settings,) = [one["data"] for one in documents() if one["kind"] == "ConfigMap"]
    given = {one["name"]: one.get("value") for one in container["env"]}

    assert given["HEADROOM_ALLOWED_HOSTS"] == f"{settings['HEADROOM_ALLOWED_HOSTS']},$(POD_IP)"
    assert list(given) == ["POD_IP", "HEADROOM_ALLOWED_HOSTS"], "only what stands before is filled in"


@pytest.mark.parametrize(
    "read", sorted(set(re.findall(r"environ(?:ment)?\.get\(\s*\"(HEADROOM_[A-Z_]+)\"", CODE_TEXT)))
)
def test_every_variable_that_the_code_reads_is_explained_somewhere(read: str) -> None:
    assert re.search(rf"\b{read}\b", DOCS_TEXT) or re.search(rf"`_{read.rpartition('_')[2]}`", DOCS_TEXT), (
        read
    )
