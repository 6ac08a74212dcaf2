"""Data sets of the Hugging Face hub, kept under HEADROOM_HOME/data/hub; once there, nothing is asked again.

The hub's branch `refs/convert/parquet` holds data sets as Parquet in CONFIG/SPLIT/; for one that it could not convert
(with a loading script) the location names files on `main` instead.
"""

import fcntl
import shutil
import threading
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from training.data.base import DataError
from training.data.files import SUFFIXES
from training.errors import first_line

REACH_SECONDS = 5.0  # for the hub to answer at all
PARQUET_BRANCH = "refs/convert/parquet"

_downloads: dict[Path, "_Download"] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Location:
    """A split on the hub. `files` (a pattern of names on `main`) where there is no Parquet branch."""

    repo: str
    config: str = "default"
    split: str = "train"
    files: str = ""

    def folder(self, home: Path) -> Path:
        """Where its files are kept, and where a person may put them."""
        return home / "data" / "hub" / self.repo.replace("/", "--") / self.config / self.split

    def __str__(self) -> str:
        return f"{self.repo} (config {self.config}, split {self.split})"


def fetch(location: Location, home: Path, *, seconds: float, endpoint: str | None = None) -> Path:
    """The folder with the split's files, downloaded if need be. DataError says what was tried and what to do.

    A download that takes longer than `seconds` goes on in the background, and the caller is told.
    """
    folder = location.folder(home)
    if folder.is_dir():
        return folder
    with _lock:
        download = _downloads.get(folder)
        if download is None or not download.is_alive():
            download = _downloads[folder] = _Download(location, folder, endpoint)
            download.start()
    download.join(seconds)
    if download.is_alive():
        raise DataError(location, f"is still being downloaded after {seconds:g} s; try again in some minutes")
    _downloads.pop(folder, None)
    if download.failure:
        raise DataError(
            location,
            f"{download.failure}. Without the hub: put its {' or '.join(SUFFIXES)} files into {folder}, or any "
            f"file under {home / 'data'} and give the option path",
        )
    return folder


class _Download(threading.Thread):
    """One download. A daemon: no program waits for it at its end."""

    def __init__(self, location: Location, folder: Path, endpoint: str | None) -> None:
        super().__init__(name=f"download {location}", daemon=True)
        self._location, self._folder, self._endpoint = location, folder, endpoint
        self.failure = ""

    def run(self) -> None:
        from huggingface_hub import constants

        endpoint = self._endpoint or constants.ENDPOINT
        try:
            self.failure = unreachable(endpoint) or self._download(endpoint)
        except Exception as error:  # whatever the library raises is told to whoever waits
            self.failure = f"{endpoint} says: {first_line(error)}"

    def _download(self, endpoint: str) -> str:
        """Download the split unless another process has. Returns what failed, or ""."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        with self._folder.with_name(f".{self._folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return "" if self._folder.is_dir() else self._download_files(endpoint)

    def _download_files(self, endpoint: str) -> str:
        """All files beside their place, then to it at once. A download that broke off is taken up again."""
        from huggingface_hub import HfApi, hf_hub_download

        repo, revision = self._location.repo, "main" if self._location.files else PARQUET_BRANCH
        api = HfApi(endpoint=endpoint)
        names = self._wanted(api.list_repo_files(repo, repo_type="dataset", revision=revision))
        if not names:
            return f"{endpoint} has no such config or split of {repo} on {revision}"
        partial = self._folder.with_name(f".{self._folder.name}.partial")
        for name in names:
            hf_hub_download(
                repo, name, repo_type="dataset", revision=revision, local_dir=partial, endpoint=endpoint
            )
        ready = partial / ".ready"
        ready.mkdir(exist_ok=True)
        for name in names:
            (partial / name).rename(ready / Path(name).name)
        ready.rename(self._folder)
        shutil.rmtree(partial, ignore_errors=True)
        return ""

    def _wanted(self, names: list[str]) -> list[str]:
        """The split's files; of one that the hub converted in part, that part."""
        location = self._location
        if location.files:
            return [name for name in names if fnmatch(name, location.files)]
        for split in (location.split, f"partial-{location.split}"):
            wanted = [name for name in names if fnmatch(name, f"{location.config}/{split}/*.parquet")]
            if wanted:
                return wanted
        return []


def unreachable(endpoint: str) -> str:
    """Why nobody answers at the endpoint; "" where somebody does, whatever the answer."""
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set, so the hub was not asked"
    try:
        httpx.head(endpoint, timeout=REACH_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{endpoint} cannot be reached ({error or type(error).__name__})"
    return ""
