"""docker-compose.yml, as far as it can be checked without an engine."""

import re

import pytest
import yaml
from compose_spec import PyCompose

from headroom.version import __version__
from stack.environment import ROOT
from tests.deploy import compose

DOCKERFILE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
SERVICES = compose.services()
RUNS_AS = {  # who each image is; Caddy's is root, without any capability but that of low ports
    "proxy": None, "postgres": "999:999", "redis": "999:999",
}  # fmt: skip


def test_it_fits_the_compose_specification() -> None:
    spec = PyCompose.from_yaml(yaml.safe_dump(compose.read())).to_spec()

    assert set(spec.services) == {
        "proxy", "prepare", "web", "worker", "beat", "postgres", "redis", "ray-head", "ray-gpu",
    }  # fmt: skip


def test_a_key_that_does_not_exist_would_be_found() -> None:
    wrong = compose.read()
    wrong["services"]["web"]["healtcheck"] = {}

    with pytest.raises(ValueError, match="healtcheck"):
        PyCompose.from_yaml(yaml.safe_dump(wrong))


def test_every_variable_is_in_the_env_file_and_each_of_those_is_used() -> None:
    used = {found["name"] for found in compose.VARIABLE.finditer(compose.FILE.read_text())}

    assert used == set(compose.env_file())


def test_without_a_secret_nothing_starts() -> None:
    for name in (
        "POSTGRES_PASSWORD",
        "REDIS_PASSWORD",
        "RAY_AUTH_TOKEN",
        "HEADROOM_SECRET_KEY",
        "HEADROOM_SECRETS_KEY",
    ):
        with pytest.raises(KeyError, match=name):
            compose.filled(compose.FILE.read_text(), compose.env_file() | {name: ""})


def test_secrets_are_drawn_anew_each_time() -> None:
    first = compose.env_file()
    compose.env_file.cache_clear()
    again = compose.env_file()

    secret = [name for name in first if name.endswith(("PASSWORD", "TOKEN", "KEY")) and "AWS" not in name]
    assert len(secret) == 6
    assert all(first[name] != again[name] and len(first[name]) >= 48 for name in secret)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_each_image_is_pinned(name: str) -> None:
    image = SERVICES[name]["image"]

    tag = image.rpartition(":")[2]
    assert re.fullmatch(r"\d+(\.\d+)+(-[a-z]+)?", tag), image
    assert not compose.is_ours(SERVICES[name]) or tag == __version__


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_each_service_has_a_health_check_and_says_what_it_waits_for(name: str) -> None:
    service = SERVICES[name]
    if name == "prepare":
        assert service["healthcheck"] == {"disable": True}  # it ends
        return
    assert service["healthcheck"]["test"][0] == "CMD"
    for other, how in service.get("depends_on", {}).items():
        ends = other == "prepare"
        assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_nobody_runs_with_more_rights_than_needed(name: str) -> None:
    service = SERVICES[name]
    if compose.is_ours(service):
        assert "user" not in service  # the image's own, below
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    else:
        assert service.get("user") == RUNS_AS[name]
    if name == "proxy":
        assert (service["cap_drop"], service["cap_add"]) == (["ALL"], ["NET_BIND_SERVICE"])


def test_the_proxy_alone_is_reached_from_outside() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]


def stages() -> dict[str, str]:
    """Name -> text of each stage of the Dockerfile."""
    parts = re.split(r"^FROM .* AS ([\w-]+)$", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("target", ["server", "ray", "ray-gpu"])
def test_each_image_ends_as_an_unprivileged_user_with_a_health_check(target: str) -> None:
    stage = stages()[target]

    assert "USER 10001:10001" in stage and "HEALTHCHECK" in stage and "COPY --from=" in stage
    assert not re.search(r"USER.*(RUN|COPY)", stage, re.DOTALL)  # nothing of the image is the user's own


def test_every_target_that_compose_builds_is_a_stage() -> None:
    built = {s["image"].partition(":")[0]: s["build"]["target"] for s in SERVICES.values() if "build" in s}

    assert built == {"headroom-server": "server", "headroom-ray": "ray", "headroom-ray-gpu": "ray-gpu"}
    assert set(built.values()) <= set(stages())
    assert {s["image"].partition(":")[0] for s in SERVICES.values() if compose.is_ours(s)} == set(built)


def test_the_build_gets_every_file_that_it_copies_and_the_locked_tools() -> None:
    context = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    copied = set()
    for words in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        copied |= set(words.split()[:-1])

    assert copied == context - {"**/__pycache__"}
    assert all((ROOT / name).exists() for name in copied)
    lock = (ROOT / "requirements.lock").read_text()
    uv = re.search(r"^UV=(\S+)$", (ROOT / "scripts" / "environment.sh").read_text(), re.MULTILINE)
    hatchling = re.search(r"^hatchling==\S+", lock, re.MULTILINE)
    assert uv and hatchling and f"{uv[1]} {hatchling[0]} " in DOCKERFILE


def test_both_rays_are_of_one_version() -> None:
    """Nodes of other versions do not join."""
    locks = [ROOT / "requirements.lock", ROOT / "deploy" / "docker" / "ray-gpu.lock"]
    found = [re.search(r"^ray==(\S+)", lock.read_text(), re.MULTILINE) for lock in locks]

    assert found[0] and found[1] and found[0][1] == found[1][1]
