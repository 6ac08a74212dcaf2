"""Models that a run brings itself, kept under HEADROOM_HOME/models: those of the Hugging Face hub are downloaded, the
tiny ones are taught here; once there, nothing is asked again."""

import fcntl
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.data.hub import unreachable
from training.errors import first_line
from training.flops import WeightsError, count_parameters
from training.models import (
    HUB_ID,
    ModelError,
    default_home,
    find_model,
    hub_folder,
    is_to_be_downloaded,
    is_to_be_made,
)

log = logging.getLogger("training")

WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "merges.txt", "vocab.txt"]
NOT_WANTED = ["*/*", "consolidated*", "*.bin.index.json"]  # other formats of the same weights


def fetch_model(name: str, home: Path | None = None, *, endpoint: str | None = None) -> Path:
    """The model's folder; of an id of the hub after a download, of a tiny one after its lessons (three minutes; that
    of the default task had them), if need be. ModelError says what to do instead.

    A download that broke off is taken up again; a folder is there only when it is complete.
    """
    home = home or default_home()
    if is_to_be_made(name, home):
        return _make(name, home)
    folder = hub_folder(name, home)
    if folder is None or not is_to_be_downloaded(name, home):
        return find_model(name, home)
    from huggingface_hub import constants

    endpoint = endpoint or constants.ENDPOINT
    with _alone(folder):
        failure = "" if folder.is_dir() else unreachable(endpoint) or _download(name, folder, endpoint)
    if failure:
        raise ModelError(
            f"model {name} is not here, and {failure}. Without the hub: put its config.json, tokenizer files and "
            f"*.safetensors into {folder}"
        )
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Of two runs that start together, one waits for the other's model."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(name: str, home: Path) -> Path:
    """In a process of its own, so that torch does not stay in the driver's memory."""
    folder = home / "models" / name
    with _alone(folder):
        log.info("making the model %s, once: some minutes on two cores if it is still to be taught", name)
        command = [sys.executable, "-m", "training", "pretrain", name, "--out", str(folder)]
        status = subprocess.run(command, check=False).returncode  # nosec B603  # one of LESSONS
    if status:
        raise ModelError(f"the model {name} could not be made; the log says why")
    return folder


def _download(name: str, folder: Path, endpoint: str) -> str:
    """Beside its place, then to it at once. Returns what failed, or ""."""
    from huggingface_hub import snapshot_download

    found = HUB_ID.fullmatch(name)
    assert found is not None  # the caller has asked
    partial = folder.with_name(f".{folder.name}.partial")
    log.info("downloading model %s from %s to %s", name, endpoint, folder)
    try:
        snapshot_download(
            found["repo"],
            revision=found["revision"],
            local_dir=partial,
            allow_patterns=WANTED,
            ignore_patterns=NOT_WANTED,
            endpoint=endpoint,
        )
    except Exception as error:  # whatever the library raises is told to whoever started the run
        return f"{endpoint} says: {first_line(error)}"
    try:
        if not (partial / "config.json").is_file():
            raise WeightsError("has no config.json")
        parameters = count_parameters(partial)
    except WeightsError as error:
        shutil.rmtree(partial)
        return f"{name} at {endpoint} {error}"
    shutil.rmtree(partial / ".cache", ignore_errors=True)
    partial.rename(folder)
    log.info("downloaded model %s: %d parameters", name, parameters)
    return ""
