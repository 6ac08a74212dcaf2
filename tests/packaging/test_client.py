"""`pip install headroom` in an empty environment: the client, and httpx alone."""

import json
from pathlib import Path

from headroom.version import __version__
from tests.packaging.conftest import Environment

INSTALLED = """
import importlib.metadata as m, json
print(json.dumps(sorted(d.name.lower().replace("_", "-") for d in m.distributions())))
"""
HTTPX = {"httpx", "httpcore", "h11", "anyio", "certifi", "idna", "sniffio", "typing-extensions"}
TRACK = """
import headroom
run = headroom.init(name="offline", task="arithmetic", mode="offline", journal="run.jsonl")
headroom.log({"train/reward": 0.5}, step=1, compute={"device_hours": 0.1})
headroom.log_evaluation(0.4, n_prompts=10, k=2, step=1)
print(bool(headroom.finish()), headroom.__version__)
"""
LOADED = """
import sys
before = set(sys.modules)
import headroom
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
"""


def test_httpx_and_what_it_needs_is_all_that_comes_with_it(client: Environment) -> None:
    names = set(json.loads(client.says("python", "-c", INSTALLED)))

    assert {"headroom", "httpx"} <= names
    assert names <= HTTPX | {"headroom"}


def test_a_run_is_tracked_offline(client: Environment) -> None:
    said = client.says("python", "-c", TRACK)

    assert said.split()[-1] == __version__
    records = [json.loads(line) for line in (client.folder / "run.jsonl").read_text().splitlines()]
    assert [record["metrics"].get("train/reward") for record in records] == [0.5, None]
    assert records[1]["metrics"]["eval/pass_rate"] == 0.4


def test_its_command_answers_by_both_names(client: Environment) -> None:
    for command in (["headroom"], ["python", "-m", "headroom"]):
        assert client.says(*command, "--version") == f"headroom {__version__}\n"
        assert "{sync,import,tail,samples}" in client.says(*command, "--help")


def test_nothing_of_the_server_is_loaded_or_in_the_way_of_other_peoples_names(client: Environment) -> None:
    assert set(client.says("python", "-c", LOADED).split()) <= {"headroom"} | {
        n.replace("-", "_") for n in HTTPX
    }
    for name in ("observability", "webapp", "worker", "stack", "training", "scaling", "manage"):
        done = client.run("python", "-c", f"import {name}")
        assert "ModuleNotFoundError" in done.stderr, name


def test_commands_of_the_extras_say_which_extra_is_missing(client: Environment) -> None:
    for command, said in (
        (
            "headroom-server",
            "error: headroom-server needs django, which comes with the extra headroom[server]",
        ),
        ("headroom-train", "error: headroom-train needs torch, which comes with the extra headroom[train]"),
        (
            "headroom-scaling",
            "error: headroom-scaling needs scipy, which comes with the extra headroom[scaling]",
        ),
    ):
        done = client.run(command, "help")
        assert (done.returncode, done.stderr.strip()) == (1, said)


def test_the_wheel_is_one_pure_file_of_this_version(wheel: Path) -> None:
    assert wheel.name == f"headroom-{__version__}-py3-none-any.whl"
