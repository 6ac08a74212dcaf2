"""The parts that are killed. Each is found among what the stack under test has started, never on the whole machine."""

import contextlib
import shutil
from collections.abc import Callable

import psutil

from tests.chaos.site import Site

Find = Callable[[Site, str], list[psutil.Process]]


def kill(victims: list[psutil.Process]) -> None:
    """SIGKILL all of them, parents first."""
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _part(site: Site, is_it: Callable[[list[str]], bool]) -> list[psutil.Process]:
    """All processes of one part of the supervisor's, under its keeper."""
    supervisor = psutil.Process(site.stack.process.pid)
    (keeper,) = [child for child in supervisor.children() if is_it(_words(child))] or [None]
    return _descendants(keeper) if keeper else []


def _with(word: str) -> Callable[[list[str]], bool]:
    return lambda words: any(each == word or each.endswith(f"/{word}") for each in words)


def web(site: Site, run_id: str) -> list[psutil.Process]:
    """gunicorn and its workers."""
    return _part(site, _with("gunicorn"))


def worker(site: Site, run_id: str) -> list[psutil.Process]:
    """Celery's main process and its pool."""
    return _part(site, _with("--concurrency"))


def beat(site: Site, run_id: str) -> list[psutil.Process]:
    """What asks for a reconciliation every two seconds."""
    return _part(site, _with("beat"))


def redis(site: Site, run_id: str) -> list[psutil.Process]:
    """The broker."""
    return _part(site, _with("valkey-server"))


def redis_with_data(site: Site, run_id: str) -> list[psutil.Process]:
    """The broker, whose files go before it is started again."""
    victims = redis(site, run_id)
    kill(victims)
    psutil.wait_procs(victims, timeout=5)
    shutil.rmtree(site.home / "redis" / "appendonlydir")
    return victims


def postgres(site: Site, run_id: str) -> list[psutil.Process]:
    """The postmaster and every backend."""
    return [p for p in _part(site, _with("stack.postgres")) if p.name().startswith("postgres")]


def ray_head(site: Site, run_id: str) -> list[psutil.Process]:
    """The cluster's head (GCS)."""
    return [p for p in _part(site, _with("--head")) if p.name().startswith("gcs_server")]


def driver(site: Site, run_id: str) -> list[psutil.Process]:
    """`python -m training run` of this run."""
    folder = str(site.run_folder(run_id))
    return [p for p in _part(site, _with("--head")) if {"--run-dir", folder} <= set(_words(p))]


def _actor(site: Site, name: str) -> list[psutil.Process]:
    found = [p for p in _part(site, _with("--head")) if "".join(_words(p)[:1]).startswith(f"ray::{name}")]
    return found[:1]


def generator(site: Site, run_id: str) -> list[psutil.Process]:
    """The engine's actor."""
    return _actor(site, "GeneratorActor")


def trainer(site: Site, run_id: str) -> list[psutil.Process]:
    """The trainer's only rank."""
    return _actor(site, "TrainerActor")


def reward(site: Site, run_id: str) -> list[psutil.Process]:
    """The process that judges, a child of the driver."""
    children = [child for parent in driver(site, run_id) for child in _descendants(parent)]
    return [child for child in children if "training.verifiers.worker" in _words(child)]
