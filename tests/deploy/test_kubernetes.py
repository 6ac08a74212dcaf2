"""The manifests by their structure; `make manifests` holds them to the schemas of Kubernetes."""

import re
from typing import Any

import pytest
import yaml

from headroom.version import __version__
from stack.environment import ROOT
from tests.deploy import compose

FOLDER = ROOT / "deploy" / "kubernetes"
Manifest = dict[str, Any]


def documents() -> list[Manifest]:
    names = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return [one for name in names for one in yaml.safe_load_all((FOLDER / name).read_text())]


def pods() -> dict[str, Manifest]:
    """Name of the container -> the pod's spec."""
    specs = []
    for one in documents():
        if one["kind"] in ("Deployment", "Job"):
            specs.append(one["spec"]["template"]["spec"])
        elif one["kind"] == "RayCluster":
            groups = [one["spec"]["headGroupSpec"], *one["spec"]["workerGroupSpecs"]]
            specs += [group["template"]["spec"] for group in groups]
    return {spec["containers"][0]["name"]: spec for spec in specs}


PODS = pods()


def test_every_file_is_part_of_it() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]

    assert sorted(listed) == sorted(p.name for p in FOLDER.glob("*.yaml") if p.name != "kustomization.yaml")
    assert set(PODS) == {"prepare", "web", "worker", "beat", "ray-head", "ray-gpu"}


@pytest.mark.parametrize("name", sorted(PODS))
def test_each_pod_runs_without_rights_and_with_bounds(name: str) -> None:
    spec = PODS[name]
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 10001
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]
    assert container["image"].startswith("headroom-") and container["image"].endswith(f":{__version__}")


@pytest.mark.parametrize("name", sorted(set(PODS) - {"prepare"}))
def test_each_pod_that_stays_has_a_probe(name: str) -> None:
    (container,) = PODS[name]["containers"]
    probes = [
        container[kind] for kind in ("startupProbe", "readinessProbe", "livenessProbe") if kind in container
    ]

    assert probes and all(probe["timeoutSeconds"] >= 8 for probe in probes)


@pytest.mark.parametrize("name", ["prepare", "web", "worker", "beat"])
def test_the_parts_run_what_compose_runs(name: str) -> None:
    (container,) = PODS[name]["containers"]

    assert container["command"] == compose.services()[name]["command"]
    assert container["envFrom"] == [
        {"configMapRef": {"name": "headroom-settings"}},
        {"secretRef": {"name": "headroom-secrets"}},
    ]


def test_whoever_writes_runs_shares_one_folder() -> None:
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for spec in PODS.values()
        for volume in spec["volumes"]
        if "persistentVolumeClaim" in volume
    }
    mounts = {
        mount["mountPath"]
        for spec in PODS.values()
        for mount in spec["containers"][0]["volumeMounts"]
        if mount["name"] == "home"
    }
    (claim,) = [one for one in documents() if one["kind"] == "PersistentVolumeClaim"]

    assert claims == {claim["metadata"]["name"]} and mounts == {"/var/lib/headroom"}
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_addresses_are_those_of_the_services() -> None:
    by_kind = {one["kind"]: one for one in documents()}
    settings = by_kind["ConfigMap"]["data"]
    cluster = by_kind["RayCluster"]["metadata"]["name"]

    assert settings["RAY_ADDRESS"] == f"http://{cluster}-head-svc:8265"  # KubeRay's name for it
    assert settings["HEADROOM_URL"] == f"http://{by_kind['Service']['metadata']['name']}:8000"
    assert by_kind["Service"]["metadata"]["name"] in settings["HEADROOM_ALLOWED_HOSTS"].split(",")
    host = by_kind["Ingress"]["spec"]["rules"][0]["host"]
    assert host in settings["HEADROOM_ALLOWED_HOSTS"].split(",")
    assert settings["HEADROOM_TRUSTED_ORIGINS"] == f"https://{host}"
    assert by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == {"ray.io/cluster": cluster}


def test_beat_is_there_once_and_ray_is_the_locked_one() -> None:
    (beat,) = [one for one in documents() if one["metadata"]["name"] == "headroom-beat"]
    (ray,) = [one for one in documents() if one["kind"] == "RayCluster"]
    lock = re.search(r"^ray==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)

    assert beat["spec"]["replicas"] == 1 and beat["spec"]["strategy"] == {"type": "Recreate"}
    assert lock and ray["spec"]["rayVersion"] == lock[1]
