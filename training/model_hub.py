"""Models of the Hugging Face hub, kept under HEADROOM_HOME/models; once there, nothing is asked again."""

import fcntl
import logging
import shutil
from pathlib import Path

from training.data.hub import unreachable
from training.errors import first_line
from training.flops import WeightsError, count_parameters
from training.models import HUB_ID, ModelError, default_home, find_model, hub_folder, is_to_be_downloaded

log = logging.getLogger("training")

WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "merges.txt", "vocab.txt"]
NOT_WANTED = ["*/*", "consolidated*", "*.bin.index.json"]  # other formats of the same weights


def fetch_model(name: str, home: Path | None = None, *, endpoint: str | None = None) -> Path:
    """The model's folder; of an id of the hub, after a download if need be. ModelError says what to do instead.

    A download that broke off is taken up again; a folder is there only when it is complete.
    """
    home = home or default_home()
    folder = hub_folder(name, home)
    if folder is None or not is_to_be_downloaded(name, home):
        return find_model(name, home)
    from huggingface_hub import constants

    endpoint = endpoint or constants.ENDPOINT
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(
            lock, fcntl.LOCK_EX
        )  # of two runs that start together, one waits for the other's download
        failure = "" if folder.is_dir() else unreachable(endpoint) or _download(name, folder, endpoint)
    if failure:
        raise ModelError(
            f"model {name} is not here, and {failure}. Without the hub: put its config.json, tokenizer files and "
            f"*.safetensors into {folder}"
        )
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
