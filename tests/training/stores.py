"""Stores for tests of checkpoints: fsspec's memory, a folder, and S3's own protocol with a server in this process."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from training.checkpoint_store import ENDPOINT, URL, Store, open_store
from training.checkpoint_sync import Uploads
from training.checkpoints import write_checkpoint

RUN = "run-1"
SECONDS = 30.0  # until a copy must be there


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Address of an S3 with the bucket `lab`."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["memory", "file"])
def environment(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """As `everywhere`, without S3, whose server takes a second for each file."""
    return make_environment(request, tmp_path, monkeypatch)


@pytest.fixture(params=["memory", "file", "s3"])
def everywhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Variables of a store that holds nothing."""
    return make_environment(request, tmp_path, monkeypatch)


def make_environment(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    if request.param == "memory":
        return {URL: f"memory://{tmp_path.name}"}
    if request.param == "file":
        (tmp_path / "mounted").mkdir()
        return {URL: f"file://{tmp_path / 'mounted'}"}
    endpoint = request.getfixturevalue("s3")
    give_credentials(monkeypatch)
    bucket = tmp_path.name.replace("_", "-").lower()
    make_bucket(endpoint, bucket)
    return {URL: f"s3://{bucket}/check/points", ENDPOINT: endpoint}


def give_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def make_bucket(endpoint: str, name: str) -> None:
    import s3fs

    s3fs.S3FileSystem(endpoint_url=endpoint, skip_instance_cache=True).mkdir(name)


@pytest.fixture
def store(everywhere: dict[str, str]) -> Store:
    return opened(everywhere)


def opened(environment: dict[str, str]) -> Store:
    """As another process would."""
    store = open_store(RUN, environment)
    assert store is not None
    return store


def write(root: Path, step: int, keep: int = 9, text: str = "", uploads: Uploads | None = None) -> Path:
    async def save_trainer(path: str) -> None:
        (Path(path) / "deep").mkdir(parents=True)
        (Path(path) / "deep" / "shard").write_text(text or f"weights of {step}")

    held = uploads.held if uploads else tuple
    files = {"driver.json": b'{"step": %d}' % step, "samples.npz": b"tokens"}
    folder = asyncio.run(write_checkpoint(root, step, lambda: files, save_trainer, keep=keep, held=held))
    if uploads:
        uploads.offer(folder)
    return folder


def copy(store: Store, folder: Path, before_each: Any = lambda: None) -> None:
    store.upload(folder, before_each, set())


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir())


def damage(store: Store, name: str, how: str = "changed") -> None:
    shard = store._at(name, "trainer/deep/shard")
    if how == "changed":
        store._files.pipe_file(shard, b"weights of 6")
    else:
        store._files.rm(shard)
