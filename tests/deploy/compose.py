"""docker-compose.yml as an engine would read it: variables filled in, anchors and merges resolved."""

import re
import subprocess
from functools import cache
from typing import Any

import yaml

from stack.environment import ROOT

FILE = ROOT / "docker-compose.yml"
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<how>[?-])(?P<text>[^}]*))?\}")
HOST = "headroom.example.com"
Service = dict[str, Any]


@cache
def env_file() -> dict[str, str]:
    """What deploy/docker/make_env.sh prints."""
    script = str(ROOT / "deploy" / "docker" / "make_env.sh")
    said = subprocess.run([script, HOST], capture_output=True, text=True, check=True, timeout=30).stdout
    lines = [line for line in said.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def filled(text: str, variables: dict[str, str]) -> str:
    """Raises KeyError for a variable that has to be there (`${NAME:?}`) and is not."""

    def value(found: re.Match[str]) -> str:
        name, how, text = found["name"], found["how"], found["text"]
        if how == "-":
            return variables.get(name) or text
        if not variables.get(name):
            raise KeyError(name)
        return variables[name]

    return VARIABLE.sub(value, text)


def read() -> dict[str, Any]:
    return yaml.safe_load(filled(FILE.read_text(), env_file()))


def services() -> dict[str, Service]:
    return read()["services"]


def is_ours(service: Service) -> bool:
    return service["image"].startswith("headroom-")
